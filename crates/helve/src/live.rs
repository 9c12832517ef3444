//! What every call looks at, and what in most runtimes has nothing to say: hooks, a policy, permissions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};

/// A value that is replaced while calls are made.
///
/// To take hold of it costs a call two exchanges with other processors. One that says nothing is left alone.
pub(crate) struct Live<T> {
    value: ArcSwap<T>,
    /// Whether it has ever said anything. INVARIANT: set before the value is there, and never taken back, so
    /// that nobody misses one, whatever is replaced at the same time.
    has_spoken: AtomicBool,
    is_silent: fn(&T) -> bool,
}

impl<T> Live<T> {
    pub(crate) fn new(value: T, is_silent: fn(&T) -> bool) -> Self {
        let has_spoken = AtomicBool::new(!is_silent(&value));
        Self { value: ArcSwap::from_pointee(value), has_spoken, is_silent }
    }

    /// The value, unless it has never said anything.
    #[inline]
    pub(crate) fn heard(&self) -> Option<Guard<Arc<T>>> {
        self.has_spoken.load(Ordering::Acquire).then(|| self.value.load())
    }

    /// The value, whatever it says.
    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        self.value.load()
    }

    /// Puts another value in its place.
    pub(crate) fn store(&self, value: T) {
        self.listen_to(&value);
        self.value.store(Arc::new(value));
    }

    /// Makes another value of it. `change` may be asked again, where another thread makes one meanwhile.
    pub(crate) fn update(&self, mut change: impl FnMut(&T) -> T) {
        self.value.rcu(|value| {
            let value = change(value);
            self.listen_to(&value);
            value
        });
    }

    fn listen_to(&self, value: &T) {
        if !(self.is_silent)(value) {
            self.has_spoken.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_never_spoken_is_left_alone() {
        let live = Live::new(Vec::<u8>::new(), Vec::is_empty);
        assert!(live.heard().is_none() && live.load().is_empty());
        live.store(Vec::new());
        assert!(live.heard().is_none());
        live.update(|former| [&**former, &[7]].concat());
        assert_eq!(live.heard().map(|value| value.to_vec()), Some(vec![7]));
        live.store(Vec::new());
        assert_eq!(live.heard().map(|value| value.to_vec()), Some(vec![]), "what speaks again is heard");
        assert!(Live::new(vec![1], Vec::is_empty).heard().is_some());
    }
}
