//! Identifiers: time-ordered, printable, and of distinct types.

use std::fmt;
use std::str::FromStr;

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
    /// A question put to a person. Unguessable, because whoever knows one may look it up.
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
    /// A new id. Uses a fast generator: call ids are unique, not secret.
    pub fn new(now: Timestamp) -> Self {
        Self(Ulid::from_parts(millis(now), fastrand::u128(..)))
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
    fn ids_sort_by_time() {
        let earlier = CallId::new(Timestamp::from_millisecond(1_000).unwrap());
        let later = CallId::new(Timestamp::from_millisecond(2_000).unwrap());
        assert!(earlier.to_string() < later.to_string());
    }
}
