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
