//! How much may be looked at.

use std::cell::Cell;

/// How many looks at a schema are left. Where a schema refers to itself in several ways, what there is
/// to see doubles at every level; code that follows references takes each look from one of these, and
/// stops, on the safe side, where none is left.
///
/// ```
/// use helve_schema::schema::Budget;
/// let budget = Budget::new(2);
/// assert!(budget.spend(1) && budget.spend(1) && !budget.is_spent());
/// assert!(!budget.spend(1) && budget.is_spent());
/// ```
#[derive(Debug)]
pub struct Budget {
    left: Cell<usize>,
    is_spent: Cell<bool>,
}

impl Budget {
    /// So many looks.
    pub const fn new(looks: usize) -> Self {
        Self { left: Cell::new(looks), is_spent: Cell::new(false) }
    }

    /// Takes some. False where there are not so many left; after that there are none.
    pub fn spend(&self, looks: usize) -> bool {
        match self.left.get().checked_sub(looks) {
            Some(left) => self.left.set(left),
            None => {
                self.left.set(0);
                self.is_spent.set(true);
            }
        }
        !self.is_spent.get()
    }

    /// Whether more was asked for than there was: something was left out.
    pub fn is_spent(&self) -> bool {
        self.is_spent.get()
    }
}
