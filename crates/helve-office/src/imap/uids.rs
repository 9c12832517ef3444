//! Sets of UIDs, as ranges: a folder of a hundred thousand mails is often a handful of them.

use std::fmt;

/// UIDs, ascending and without overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Uids(Vec<(u32, u32)>);

impl Uids {
    /// The ranges in any order, touching or not.
    pub(super) fn of(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// Reads what a server or our own state says: `1:5,7`. None where it is something else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let one = |text: &str| text.parse::<u32>().ok().filter(|uid| *uid > 0);
        let range = |text: &str| match text.split_once(':') {
            // The RFC lets a range be written backwards.
            Some((a, b)) => one(a).zip(one(b)).map(|(a, b)| (a.min(b), a.max(b))),
            None => one(text).map(|uid| (uid, uid)),
        };
        text.split(',').map(range).collect::<Option<Vec<_>>>().map(Self::of)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    pub(super) fn contains(&self, uid: u32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < uid);
        self.0.get(at).is_some_and(|(first, _)| *first <= uid)
    }

    pub(super) fn last(&self) -> Option<u32> {
        self.0.last().map(|(_, last)| *last)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.0.iter().flat_map(|(first, last)| *first..=*last)
    }

    pub(super) fn with(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// These but for those in `other`. Walks both once, whatever the ranges span.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut kept = Vec::new();
        let mut holes = other.0.iter().copied().peekable();
        for (mut first, last) in self.0.iter().copied() {
            while holes.next_if(|hole| hole.1 < first).is_some() {}
            while let Some(hole) = holes.peek().copied().filter(|hole| hole.0 <= last) {
                if first < hole.0 {
                    kept.push((first, hole.0 - 1));
                }
                if hole.1 >= last {
                    first = 0;
                    break;
                }
                first = hole.1 + 1;
                holes.next();
            }
            // UIDs begin at one, so zero says that nothing is left of this range.
            if first != 0 {
                kept.push((first, last));
            }
        }
        Self(kept)
    }

    /// The newest so many.
    pub(super) fn newest(&self, count: usize) -> Self {
        self.iter().rev().take(count).collect()
    }
}

impl FromIterator<u32> for Uids {
    fn from_iter<I: IntoIterator<Item = u32>>(uids: I) -> Self {
        Self::of(uids.into_iter().map(|uid| (uid, uid)).collect())
    }
}

/// As IMAP writes it.
impl fmt::Display for Uids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}:{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn sets_of_ranges_act_as_sets_of_numbers() {
        // Every pair of subsets of 1..=7: small enough to try all.
        for a in 0..128_u32 {
            for b in 0..128_u32 {
                let numbers = |bits: u32| (1..=7).filter(move |n| bits >> (n - 1) & 1 == 1);
                let (left, right): (Uids, Uids) = (numbers(a).collect(), numbers(b).collect());
                let (plain, other): (BTreeSet<_>, BTreeSet<_>) = (numbers(a).collect(), numbers(b).collect());
                assert!(
                    left.without(&right).iter().eq(plain.difference(&other).copied()),
                    "{left} - {right}"
                );
                assert!(left.with(&right).iter().eq(plain.union(&other).copied()), "{left} + {right}");
                assert_eq!(left.len(), plain.len() as u64);
                assert_eq!(Uids::parse(&left.to_string()), Some(left));
            }
        }
    }

    #[test]
    fn hostile_sets_cost_nothing() {
        let all = Uids::parse("1:4294967295").unwrap();
        assert_eq!(all.len(), 4_294_967_295);
        assert_eq!(Uids::parse("5").unwrap().without(&all), Uids::default());
        for broken in ["0", "1:", "a", "1,,2", "1:*", "-1", "4294967296"] {
            assert_eq!(Uids::parse(broken), None, "{broken}");
        }
    }
}
