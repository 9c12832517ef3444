//! How much one question may cost.

/// A rule that fires too often, or takes too long to find out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// More occurrences than may be answered.
    #[error("it happens more than {max} times in this range; ask for a shorter one")]
    Occurrences {
        /// How many there may be.
        max: usize,
    },
    /// More candidates than may be looked at.
    #[error("its recurrence rule takes too much work to expand; the rule is not a sensible one")]
    Work,
}

/// What is left of the work and the occurrences that one question may take.
#[derive(Debug, Clone)]
pub struct Budget {
    work: u64,
    occurrences: usize,
    occurrences_max: usize,
}

/// Ten thousand occurrences, a million candidates: some ten milliseconds at worst.
impl Default for Budget {
    fn default() -> Self {
        Self::new(10_000, 1_000_000)
    }
}

impl Budget {
    /// A budget of so many occurrences and so many candidates.
    pub fn new(occurrences: usize, work: u64) -> Self {
        Self { work, occurrences, occurrences_max: occurrences }
    }

    /// Lets one of several use a part of this budget, of so many occurrences and candidates at most. What it leaves is
    /// there for the others.
    pub(crate) fn part<T>(&mut self, occurrences: usize, work: u64, using: impl FnOnce(&mut Self) -> T) -> T {
        let given = (self.occurrences.min(occurrences), self.work.min(work));
        let mut part = Self::new(given.0, given.1);
        let done = using(&mut part);
        self.occurrences -= given.0 - part.occurrences;
        self.work -= given.1 - part.work;
        done
    }

    pub(crate) fn work(&mut self, steps: usize) -> Result<(), OverBudget> {
        self.work = self.work.checked_sub(steps as u64).ok_or(OverBudget::Work)?;
        Ok(())
    }

    pub(crate) fn occurrence(&mut self) -> Result<(), OverBudget> {
        let over = OverBudget::Occurrences { max: self.occurrences_max };
        self.occurrences = self.occurrences.checked_sub(1).ok_or(over)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_budget_come_out_of_the_whole() {
        let mut whole = Budget::new(3, 10);
        assert!(whole.part(2, 5, |part| part.work(6)).is_err(), "more than its part");
        assert!(whole.part(2, 5, |part| part.occurrence().and_then(|()| part.work(5))).is_ok());
        assert!(whole.part(9, 9, |part| part.work(5)).is_ok());
        assert!(whole.part(9, 9, |part| part.work(1)).is_err(), "nothing is left");
        assert!(whole.part(9, 9, |part| part.occurrence().and_then(|()| part.occurrence())).is_ok());
        assert!(whole.part(9, 9, Budget::occurrence).is_err());
    }
}
