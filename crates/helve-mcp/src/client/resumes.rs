//! How often, and how soon, the stream that answers a call is opened again after it broke.

use std::time::Duration;

/// How long we wait before coming back to a stream that broke, where the server does not say.
pub(super) const RETRY_DEFAULT: Duration = Duration::from_secs(1);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(30);
pub(super) const RETRY_MIN: Duration = Duration::from_millis(50);
/// How often in a row a stream may break without bringing anything.
pub(super) const IN_VAIN_MAX: u32 = 5;
/// How often in one call a server may have us come back sooner than we would by ourselves.
const SOON_MAX: u32 = 100;
/// How often a stream is opened again in one call, whatever it brings: every second for more than an hour.
const TOTAL_MAX: u32 = 5_000;

/// How often the stream of one call was opened again.
#[derive(Debug, Default)]
pub(super) struct Resumes {
    in_vain: u32,
    total: u32,
}

impl Resumes {
    /// How long to wait before the stream is opened once more; none if that was done often enough. `brought` is
    /// whether anything new came since the last time, `retry_ms` what the server asks for.
    pub(super) fn next(&mut self, brought: bool, retry_ms: Option<u64>) -> Option<Duration> {
        if brought {
            self.in_vain = 0;
        }
        if self.in_vain == IN_VAIN_MAX || self.total == TOTAL_MAX {
            return None;
        }
        self.in_vain += 1;
        self.total += 1;
        // A new id costs a server nothing, so that it must not have us come back as fast as we can.
        let least = if self.total > SOON_MAX { RETRY_DEFAULT } else { RETRY_MIN };
        Some(retry_ms.map_or(RETRY_DEFAULT, Duration::from_millis).clamp(least, RETRY_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_us_come_back_neither_at_once_nor_for_ever() {
        let mut resumes = Resumes::default();
        let waits: Vec<Duration> = std::iter::from_fn(|| resumes.next(true, Some(0))).collect();
        assert_eq!(waits.len(), TOTAL_MAX as usize);
        assert_eq!((waits[0], waits[SOON_MAX as usize]), (RETRY_MIN, RETRY_DEFAULT));
        assert_eq!(Resumes::default().next(true, Some(u64::MAX)), Some(RETRY_MAX));
    }

    #[test]
    fn what_brings_nothing_is_soon_given_up() {
        let mut resumes = Resumes::default();
        assert_eq!(std::iter::from_fn(|| resumes.next(false, None)).count(), IN_VAIN_MAX as usize);
        assert_eq!(resumes.next(true, None), Some(RETRY_DEFAULT));
    }
}
