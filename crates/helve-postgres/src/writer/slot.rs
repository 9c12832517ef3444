//! A row that a group has locked: how it stood, and how it stands now.

/// A row, or its place while it is not there.
#[derive(Debug, Clone)]
pub(super) struct Slot<T> {
    stored: Option<T>,
    now: Option<T>,
}

/// What is to be done with a row at the end of a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change<'a, T> {
    /// It is as it was.
    Nothing,
    /// It is new, or was changed.
    Put(&'a T),
    /// It is gone.
    Delete,
}

impl<T: Clone + PartialEq> Slot<T> {
    /// A row as it stands.
    pub(super) fn found(row: T) -> Self {
        Self { stored: Some(row.clone()), now: Some(row) }
    }

    /// A row that this group has made to hold its place, and that counts for nothing yet.
    pub(super) fn placed(row: T) -> Self {
        Self { stored: Some(row), now: None }
    }

    /// No row.
    pub(super) fn empty() -> Self {
        Self { stored: None, now: None }
    }

    pub(super) fn get(&self) -> Option<&T> {
        self.now.as_ref()
    }

    pub(super) fn set(&mut self, row: Option<T>) {
        self.now = row;
    }

    /// What is to be written.
    pub(super) fn change(&self) -> Change<'_, T> {
        match (&self.stored, &self.now) {
            (stored, now) if stored == now => Change::Nothing,
            (_, Some(now)) => Change::Put(now),
            (_, None) => Change::Delete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_written() {
        let mut found = Slot::found(1);
        assert_eq!(found.change(), Change::Nothing);
        found.set(Some(2));
        assert_eq!(found.change(), Change::Put(&2));
        found.set(None);
        assert_eq!(found.change(), Change::Delete);
        let mut placed = Slot::placed(1);
        assert_eq!((placed.get(), placed.change()), (None, Change::Delete));
        placed.set(Some(1));
        assert_eq!(placed.change(), Change::Nothing, "the place was made of it");
        let mut empty = Slot::empty();
        empty.set(Some(1));
        assert_eq!(empty.change(), Change::Put(&1));
        empty.set(None);
        assert_eq!(empty.change(), Change::Nothing);
    }
}
