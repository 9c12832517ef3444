//! The progress of many parts as one.

use std::collections::HashMap;
use std::sync::Arc;

use helve_core::run::Progress;

use super::active::is_below;

/// How far a run and its parts have come.
#[derive(Default)]
pub(crate) struct ProgressTree(HashMap<Arc<str>, Progress>);

impl ProgressTree {
    /// Notes how far the part at `path` has come, and tells how far that makes the run.
    pub(crate) fn report(&mut self, path: &Arc<str>, progress: Progress) -> Progress {
        let message = progress.message.clone();
        self.0.insert(Arc::clone(path), progress);
        let done = self.done("");
        let total = self.0.get("").and_then(|root| root.total);
        Progress { done, total, message }
    }

    /// A part has ended; the call above counts it from now on.
    pub(crate) fn forget(&mut self, path: &str) {
        self.0.retain(|known, _| **known != *path && !is_below(known, path));
    }

    /// How much of the part at `path` is done: what it says itself, and the fractions of the parts
    /// that it is waiting for.
    fn done(&self, path: &str) -> f64 {
        let own = self.0.get(path).map_or(0.0, |progress| progress.done);
        let children = self.0.keys().filter(|known| parent(known) == Some(path));
        own + children.map(|child| self.fraction(child)).sum::<f64>()
    }

    fn fraction(&self, path: &str) -> f64 {
        match self.0.get(path).and_then(|progress| progress.total) {
            Some(total) if total > 0.0 => (self.done(path) / total).clamp(0.0, 1.0),
            Some(_) | None => 0.0,
        }
    }
}

fn parent(path: &str) -> Option<&str> {
    if path.is_empty() { None } else { Some(path.rsplit_once('/').map_or("", |(parent, _)| parent)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_by_how_far_they_have_come() {
        let mut tree = ProgressTree::default();
        let at = |done, total| Progress { done, total: Some(total), message: None };
        let mut report = |path: &str, done, total| tree.report(&Arc::from(path), at(done, total)).done;
        assert_eq!(report("", 1.0, 4.0), 1.0);
        assert_eq!(report("b", 5.0, 10.0), 1.5);
        assert_eq!(report("b/x", 1.0, 2.0), 1.55);
        tree.forget("b");
        assert_eq!(tree.report(&Arc::from(""), at(2.0, 4.0)).done, 2.0);
    }
}
