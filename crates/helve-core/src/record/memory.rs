//! What agents remember between calls: values under keys, in scopes of different length.
//!
//! State (`browser.error`, `api.rateLimit.remaining`) lives here too: a state is a key in a scope,
//! short-term unless said otherwise.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::caller::Caller;

/// Keys that begin so are the runtime's own: nobody else writes them, and lists leave them out.
pub const RESERVED_PREFIX: &str = "helve/";

/// How long memory lasts, and whose it is.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryScope {
    /// One loop of an agent. Gone with the process.
    Working,
    /// What one session remembers.
    #[default]
    ShortTerm,
    /// The agent's life.
    LongTerm,
}

impl MemoryScope {
    /// Every scope, shortest first.
    pub const ALL: [Self; 3] = [Self::Working, Self::ShortTerm, Self::LongTerm];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::ShortTerm => "short-term",
            Self::LongTerm => "long-term",
        }
    }

    /// Whose memory of this scope a caller's is. Callers never see each other's.
    pub fn owner(self, caller: &Caller) -> String {
        let (principal, agent) = (&caller.principal, &caller.agent);
        let (session, loop_id) = (&caller.session, &caller.loop_id);
        // JSON keeps one part from running into the next.
        match self {
            Self::Working => serde_json::json!([principal, agent, session, loop_id]),
            Self::ShortTerm => serde_json::json!([principal, session]),
            Self::LongTerm => serde_json::json!([principal, agent]),
        }
        .to_string()
    }
}

/// Where a value is: a key in a caller's memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemoryPlace {
    /// Which memory: of one loop, of a session, or for the agent's life.
    pub scope: MemoryScope,
    /// Whose; see [`MemoryScope::owner`].
    pub owner: String,
    /// The name under which the value is kept.
    pub key: String,
}

impl MemoryPlace {
    /// A key in a caller's memory.
    pub fn of(caller: &Caller, scope: MemoryScope, key: impl Into<String>) -> Self {
        Self { scope, owner: scope.owner(caller), key: key.into() }
    }
}

/// A value that is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// What was put there.
    pub value: Value,
    /// Grows with every change of this key; never used twice, also not after a deletion.
    pub version: u64,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// When it is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Remembered {
    /// Whether it is still remembered.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }
}

/// A change of one value.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryChange {
    /// What to do.
    pub operation: Operation,
    /// Only if the version is still this one. `Some(0)`: only if there is no value.
    pub expected_version: Option<u64>,
    /// How long the new value is remembered. Absent: until it is changed.
    pub time_to_live: Option<SignedDuration>,
}

impl MemoryChange {
    /// A change whatever the version, remembered until the next one.
    pub fn new(operation: Operation) -> Self {
        Self { operation, expected_version: None, time_to_live: None }
    }

    /// Only if the version is still `version`; 0 means that there must be no value.
    pub fn if_version(mut self, version: u64) -> Self {
        self.expected_version = Some(version);
        self
    }

    /// Forgotten after a while.
    pub fn for_time(mut self, time_to_live: SignedDuration) -> Self {
        self.time_to_live = Some(time_to_live);
        self
    }

    /// What there is after the change. Every store uses this, so all agree.
    ///
    /// `before` is what there is and is alive. The new version is the caller's to give.
    pub fn evaluate(&self, before: Option<&Remembered>) -> Result<Option<Value>, MemoryError> {
        if let Some(expected) = self.expected_version {
            let found = before.map_or(0, |before| before.version);
            if found != expected {
                return Err(MemoryError::Conflict { expected, found });
            }
        }
        match &self.operation {
            Operation::Write(value) => Ok(Some(value.clone())),
            Operation::Update(value) => match before {
                Some(_) => Ok(Some(value.clone())),
                None => Err(MemoryError::Missing),
            },
            Operation::Delete => Ok(None),
            Operation::Add(number) => {
                let current = match before.map(|before| &before.value) {
                    None => Number::from(0),
                    Some(Value::Number(current)) => current.clone(),
                    Some(_) => return Err(MemoryError::NotANumber),
                };
                add(&current, number).map(|sum| Some(Value::Number(sum)))
            }
        }
    }
}

/// What is done to a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Sets it, whether or not there is one.
    Write(Value),
    /// Sets it where there is one.
    Update(Value),
    /// Removes the value.
    Delete,
    /// Adds to a number; nothing counts as zero.
    Add(Number),
}

fn add(a: &Number, b: &Number) -> Result<Number, MemoryError> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return a.checked_add(b).map(Number::from).ok_or(MemoryError::NotANumber);
    }
    let sum = a.as_f64().zip(b.as_f64()).map(|(a, b)| a + b);
    sum.and_then(Number::from_f64).ok_or(MemoryError::NotANumber)
}

/// The number to add that takes another one away.
pub fn negated(number: &Number) -> Result<Number, MemoryError> {
    let whole = number.as_i64().and_then(i64::checked_neg).map(Number::from);
    let fraction = || number.as_f64().and_then(|number| Number::from_f64(-number));
    whole.or_else(fraction).ok_or(MemoryError::NotANumber)
}

/// What a change did.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// What there was.
    pub before: Option<Remembered>,
    /// What there is now.
    pub after: Option<Remembered>,
}

/// Bounds on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Longest key, in bytes.
    pub key_bytes_max: usize,
    /// Largest value, as JSON.
    pub value_bytes_max: usize,
    /// Most values of one owner in one scope.
    pub values_max: usize,
    /// All values of one owner in one scope together, as JSON.
    pub bytes_max: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { key_bytes_max: 256, value_bytes_max: 1 << 20, values_max: 10_000, bytes_max: 64 << 20 }
    }
}

impl MemoryLimits {
    /// Refuses keys that are empty, too long or not printable.
    pub fn check_key(&self, key: &str) -> Result<(), MemoryError> {
        if key.is_empty() || key.len() > self.key_bytes_max || key.chars().any(char::is_control) {
            return Err(MemoryError::BadKey { bytes_max: self.key_bytes_max });
        }
        Ok(())
    }
}

/// Why memory could not be read or changed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Another process was faster.
    #[error("the value has changed: version {expected} was expected, and it is at {found}; read it again")]
    Conflict {
        /// The version that the change was meant for.
        expected: u64,
        /// The version there is; 0 where there is no value.
        found: u64,
    },
    /// There is nothing to update.
    #[error("there is no value to update; write one first")]
    Missing,
    /// A count of something that cannot be counted.
    #[error("the value is not a number that can be counted up or down")]
    NotANumber,
    /// The key is not one.
    #[error("a key is 1 to {bytes_max} bytes of printable text")]
    BadKey {
        /// The longest key.
        bytes_max: usize,
    },
    /// The key is the runtime's own.
    #[error("keys that begin with `{RESERVED_PREFIX}` are the runtime's own; choose another")]
    Reserved,
    /// A limit would be exceeded.
    #[error("{what} would exceed the limit of {max}; delete what is no longer needed")]
    Full {
        /// What there would be too much of.
        what: &'static str,
        /// How much there may be.
        max: usize,
    },
    /// The effect to be undone is not known, or was undone before.
    #[error("there is nothing to undo: it was undone before, or never done")]
    NothingToUndo,
    /// The value was changed after the effect, and undoing would destroy that.
    #[error("`{key}` was changed since; it is left as it is")]
    ChangedSince {
        /// The key that holds the other value.
        key: String,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Unavailable(#[from] crate::ports::JournalError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn remembered(value: Value, version: u64) -> Remembered {
        Remembered { value, version, changed_at: Timestamp::UNIX_EPOCH, expires_at: None }
    }

    #[test]
    fn changes_say_what_there_is_afterwards() {
        let seven = remembered(json!(7), 3);
        let evaluate = |operation, before: Option<&Remembered>| MemoryChange::new(operation).evaluate(before);
        assert_eq!(evaluate(Operation::Write(json!("a")), None).unwrap(), Some(json!("a")));
        assert_eq!(evaluate(Operation::Update(json!("a")), Some(&seven)).unwrap(), Some(json!("a")));
        assert!(matches!(evaluate(Operation::Update(json!("a")), None), Err(MemoryError::Missing)));
        assert_eq!(evaluate(Operation::Delete, Some(&seven)).unwrap(), None);
        assert_eq!(evaluate(Operation::Add(Number::from(-2)), Some(&seven)).unwrap(), Some(json!(5)));
        assert_eq!(evaluate(Operation::Add(Number::from(2)), None).unwrap(), Some(json!(2)));
        let half = Number::from_f64(0.5).unwrap();
        assert_eq!(evaluate(Operation::Add(half), Some(&seven)).unwrap(), Some(json!(7.5)));
        let text = remembered(json!("x"), 1);
        assert!(matches!(
            evaluate(Operation::Add(Number::from(1)), Some(&text)),
            Err(MemoryError::NotANumber)
        ));
        let most = remembered(json!(i64::MAX), 1);
        assert!(matches!(
            evaluate(Operation::Add(Number::from(1)), Some(&most)),
            Err(MemoryError::NotANumber)
        ));
    }

    #[test]
    fn a_version_that_does_not_fit_is_a_conflict() {
        let change = MemoryChange::new(Operation::Write(json!(1))).if_version(2);
        assert!(change.evaluate(Some(&remembered(json!(0), 2))).is_ok());
        for before in [Some(remembered(json!(0), 3)), None] {
            assert!(matches!(
                change.evaluate(before.as_ref()),
                Err(MemoryError::Conflict { expected: 2, .. })
            ));
        }
        let fresh = MemoryChange::new(Operation::Write(json!(1))).if_version(0);
        assert!(fresh.evaluate(None).is_ok());
    }

    #[test]
    fn owners_never_run_into_each_other() {
        let a = Caller::principal("a").session("b");
        let b = Caller::principal("a\",\"b");
        assert_ne!(MemoryScope::ShortTerm.owner(&a), MemoryScope::ShortTerm.owner(&b));
        assert_ne!(MemoryScope::ShortTerm.owner(&a), MemoryScope::ShortTerm.owner(&Caller::principal("a")));
        let looped = a.clone().loop_id("l");
        assert_eq!(MemoryScope::ShortTerm.owner(&a), MemoryScope::ShortTerm.owner(&looped));
        assert_ne!(MemoryScope::Working.owner(&a), MemoryScope::Working.owner(&looped));
    }
}
