//! Identifiers: time-ordered, printable, and of distinct types.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use ulid::{ULID_LEN, Ulid};

/// Text that is not an identifier of the expected type.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not an id of the form `{prefix}_…`")]
pub struct IdError {
    text: String,
    prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Ulid);

        impl $name {
            /// Every id of this type begins so.
            pub const PREFIX: &str = concat!($prefix, "_");

            /// The printed id, on the stack: ids are written for every entry of the journal.
            fn with_text<T>(self, take: impl FnOnce(&str) -> T) -> T {
                const LEN: usize = $name::PREFIX.len();
                let mut text = [0; LEN + ULID_LEN];
                text[..LEN].copy_from_slice(Self::PREFIX.as_bytes());
                let mut digits = [0; ULID_LEN];
                text[LEN..].copy_from_slice(self.0.array_to_str(&mut digits).as_bytes());
                take(str::from_utf8(&text).expect("digits and letters"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.with_text(|text| f.write_str(text))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.with_text(|text| serializer.serialize_str(text))
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let pattern = concat!("^", $prefix, "_[0-7][0-9A-HJKMNP-TV-Z]{25}$");
                schemars::json_schema!({ "type": "string", "pattern": pattern })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix(concat!($prefix, "_"))
                    .and_then(|rest| Ulid::from_string(rest).ok())
                    .map(Self)
                    .ok_or_else(|| IdError { text: text.to_owned(), prefix: $prefix })
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }
    };
}

id!(
    /// One call. Also the id of its run and of its record in the journal.
    CallId,
    "call"
);
id!(
    /// A question put to a person. Unguessable, because its knower may look it up.
    ApprovalId,
    "apr"
);

id!(
    /// What a person allowed for a session, so that the like is not asked again.
    RuleId,
    "rule"
);

id!(
    /// The public part of an API key.
    KeyId,
    "key"
);

impl CallId {
    /// A new id, after every one that this process has made before, so that a part sorts after its run. Uses
    /// a fast generator: call ids are unique, not secret.
    pub fn new(now: Timestamp) -> Self {
        Self::made(take_place(&LAST, millis(now)), fastrand::u64(..))
    }

    /// Sorts before every id that is made at this time or later.
    pub fn first_at(at: Timestamp) -> Self {
        Self::made(millis(at) << PLACE_BITS, 0)
    }

    fn made(place: u64, random: u64) -> Self {
        Self(Ulid((u128::from(place) << u64::BITS) | u128::from(random)))
    }

    /// The same as bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }

    /// When it was made, in milliseconds since 1970.
    pub fn made_at_ms(self) -> i64 {
        i64::try_from(self.0.timestamp_ms()).expect("an id has 48 bits of time")
    }
}

impl ApprovalId {
    /// Sorts before every id that is made at this time or later.
    pub fn first_at(at: Timestamp) -> Self {
        Self(Ulid::from_parts(millis(at), 0))
    }

    /// A new id from the operating system's randomness.
    pub fn new(now: Timestamp) -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system has randomness");
        Self(Ulid::from_parts(millis(now), u128::from_le_bytes(random)))
    }
}

impl RuleId {
    /// A new id.
    pub fn new(now: Timestamp) -> Self {
        Self(Ulid::from_parts(millis(now), fastrand::u128(..)))
    }
}

impl KeyId {
    /// A new id.
    pub fn new(now: Timestamp) -> Self {
        Self(Ulid::from_parts(millis(now), fastrand::u128(..)))
    }
}

/// The upper half of the last call id of this process: milliseconds, then its place among those of the same one.
static LAST: AtomicU64 = AtomicU64::new(0);

/// How many bits number the ids of one millisecond. More of them than fit borrow from the next one.
const PLACE_BITS: u32 = 16;

/// A clock that goes back by more than this was set, and ids follow it. Less is threads that looked at it at
/// about the same time.
const BACK_MAX_MS: u64 = 1_000;

/// The place of the next id. One atomic and no lock: every call takes one.
fn take_place(last: &AtomicU64, now_ms: u64) -> u64 {
    let now = now_ms << PLACE_BITS;
    let mut before = last.load(Ordering::Relaxed);
    loop {
        let was_set_back = before > now.saturating_add(BACK_MAX_MS << PLACE_BITS);
        let place = if was_set_back { now } else { now.max(before.saturating_add(1)) };
        match last.compare_exchange_weak(before, place, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return place,
            Err(meanwhile) => before = meanwhile,
        }
    }
}

fn millis(now: Timestamp) -> u64 {
    u64::try_from(now.as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_what_they_print_and_refuse_another_type() {
        let id = CallId::new(Timestamp::now());
        assert_eq!(id.to_string().parse::<CallId>().unwrap(), id);
        assert!(id.to_string().parse::<ApprovalId>().is_err());
        assert!("call_../../etc".parse::<CallId>().is_err());
    }

    #[test]
    fn ids_of_one_process_grow_within_a_millisecond_and_across_threads() {
        let now = Timestamp::now();
        let make = move || (0..1_000).map(|_| CallId::new(now)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(make)).collect();
        let made: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        for ids in &made {
            assert!(ids.is_sorted_by(|one, next| one < next), "each thread sees them grow");
        }
        let last = made.iter().flatten().max().unwrap();
        let other_look = now - jiff::SignedDuration::from_millis(3);
        assert!(CallId::new(other_look) > *last, "a look at the clock that was a little earlier");
        assert!(CallId::first_at(now) < *made.iter().flatten().min().unwrap());
    }

    #[test]
    fn ids_follow_a_clock_that_was_set_back() {
        let last = AtomicU64::new(0);
        let first = take_place(&last, 1_000_000);
        let places = [take_place(&last, 1_000_000), take_place(&last, 999_500), take_place(&last, 500_000)];
        assert_eq!(places, [first + 1, first + 2, 500_000 << PLACE_BITS]);
    }

    #[test]
    fn ids_sort_by_time() {
        let earlier = CallId::new(Timestamp::from_millisecond(1_000).unwrap());
        let later = CallId::new(Timestamp::from_millisecond(2_000).unwrap());
        assert!(earlier.to_string() < later.to_string());
    }
}
