//! What every call looks at, and what in most runtimes is empty: hooks, a policy, permissions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};

/// A value that is replaced while calls are made.
///
/// To take hold of it costs a call two exchanges with other processors. An empty one is left alone.
pub(crate) struct Live<T> {
    value: ArcSwap<T>,
    /// Whether it has ever held anything. INVARIANT: set before the value is there, and never taken back, so
    /// that nobody misses one, whatever is replaced at the same time.
    is_used: AtomicBool,
    is_empty: fn(&T) -> bool,
}

impl<T> Live<T> {
    pub(crate) fn new(value: T, is_empty: fn(&T) -> bool) -> Self {
        let is_used = AtomicBool::new(!is_empty(&value));
        Self { value: ArcSwap::from_pointee(value), is_used, is_empty }
    }

    /// The value, unless it has never held anything.
    #[inline]
    pub(crate) fn load_if_used(&self) -> Option<Guard<Arc<T>>> {
        self.is_used.load(Ordering::Acquire).then(|| self.value.load())
    }

    /// The value, whatever it holds.
    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        self.value.load()
    }

    /// Puts another value in its place.
    pub(crate) fn store(&self, value: T) {
        self.note_use(&value);
        self.value.store(Arc::new(value));
    }

    /// Makes another value of it. `change` may be asked again, where another thread makes one meanwhile.
    pub(crate) fn update(&self, mut change: impl FnMut(&T) -> T) {
        self.value.rcu(|value| {
            let value = change(value);
            self.note_use(&value);
            value
        });
    }

    fn note_use(&self, value: &T) {
        if !(self.is_empty)(value) {
            self.is_used.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_never_used_is_left_alone() {
        let live = Live::new(Vec::<u8>::new(), Vec::is_empty);
        assert!(live.load_if_used().is_none() && live.load().is_empty());
        live.store(Vec::new());
        assert!(live.load_if_used().is_none());
        live.update(|former| [&**former, &[7]].concat());
        assert_eq!(live.load_if_used().map(|value| value.to_vec()), Some(vec![7]));
        live.store(Vec::new());
        assert_eq!(
            live.load_if_used().map(|value| value.to_vec()),
            Some(vec![]),
            "what was used once is always loaded"
        );
        assert!(Live::new(vec![1], Vec::is_empty).load_if_used().is_some());
    }
}
