//! Turns of a future that wakes itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Turns in a row before others have theirs.
const TURNS_MAX: usize = 4;

const WAITING: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

/// Gives a future another turn at once where it wakes itself during one, as connections of the HTTP library
/// do whenever another task takes a part of a body. To the scheduler such a task looks like
/// one that gives way to others: it goes to the end of the line, and the system is asked to wake another
/// thread for it.
pub struct Repoll {
    wakes: Arc<Wakes>,
    waker: Waker,
}

struct Wakes {
    state: AtomicU8,
    /// The task that polls the connection.
    task: AtomicWaker,
}

impl fmt::Debug for Repoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Repoll")
    }
}

impl Default for Repoll {
    fn default() -> Self {
        let wakes = Arc::new(Wakes { state: AtomicU8::new(WAITING), task: AtomicWaker::new() });
        Self { waker: Arc::clone(&wakes).into(), wakes }
    }
}

impl Repoll {
    /// Polls until it is ready, or waits for something else than itself. What is polled must use the
    /// context that it is given.
    pub(crate) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        turn: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.poll_while(context, || true, turn)
    }

    /// Polls until it is ready, or waits for something else than itself: as long as `at_once` holds, where it has woken
    /// itself. Otherwise the task goes to the end of the line, where another thread may find it. What is polled must
    /// use the context that it is given.
    pub fn poll_while<T>(
        &self,
        context: &mut Context<'_>,
        at_once: impl Fn() -> bool,
        mut turn: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.wakes.task.register(context.waker());
        for _ in 0..TURNS_MAX {
            self.wakes.state.store(POLLED, Ordering::Release);
            if let Poll::Ready(done) = turn(&mut Context::from_waker(&self.waker)) {
                self.wakes.state.store(WAITING, Ordering::Release);
                return Poll::Ready(done);
            }
            let ended =
                self.wakes.state.compare_exchange(POLLED, WAITING, Ordering::AcqRel, Ordering::Acquire);
            if ended.is_ok() {
                return Poll::Pending;
            }
            if !at_once() {
                break;
            }
        }
        self.wakes.state.store(WAITING, Ordering::Release);
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Wakes nobody until it is polled again.
    pub(crate) fn rest(&self) {
        drop(self.wakes.task.take());
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.state.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if noted == Err(WAITING) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_wakes_itself_has_another_turn_and_the_task_sleeps() {
        let (repoll, count, mut polls) = (Repoll::default(), Arc::new(Count::default()), 0);
        let waker = Waker::from(Arc::clone(&count));
        let polled: Poll<()> = repoll.poll(&mut Context::from_waker(&waker), |context| {
            polls += 1;
            if polls == 1 {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        });
        assert_eq!((polled, polls, count.0.load(Ordering::SeqCst)), (Poll::Pending, 2, 0));
    }

    #[test]
    fn who_gives_way_has_one_turn_and_is_woken_for_the_next() {
        let (repoll, count, mut polls) = (Repoll::default(), Arc::new(Count::default()), 0);
        let waker = Waker::from(Arc::clone(&count));
        let polled: Poll<()> = repoll.poll_while(
            &mut Context::from_waker(&waker),
            || false,
            |context| {
                polls += 1;
                context.waker().wake_by_ref();
                Poll::Pending
            },
        );
        assert_eq!((polled, polls, count.0.load(Ordering::SeqCst)), (Poll::Pending, 1, 1));
    }

    #[test]
    fn a_wake_between_turns_reaches_the_task() {
        let (repoll, count, mut kept) = (Repoll::default(), Arc::new(Count::default()), None);
        let waker = Waker::from(Arc::clone(&count));
        let polled: Poll<()> = repoll.poll(&mut Context::from_waker(&waker), |context| {
            kept = Some(context.waker().clone());
            Poll::Pending
        });
        assert!(polled.is_pending());
        kept.unwrap().wake();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn who_never_stops_gives_way_and_is_woken() {
        let (repoll, count, mut polls) = (Repoll::default(), Arc::new(Count::default()), 0);
        let waker = Waker::from(Arc::clone(&count));
        let polled: Poll<()> = repoll.poll(&mut Context::from_waker(&waker), |context| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::Pending
        });
        assert_eq!((polled, polls, count.0.load(Ordering::SeqCst)), (Poll::Pending, TURNS_MAX, 1));
    }
}
