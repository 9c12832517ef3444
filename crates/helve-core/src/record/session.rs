//! What is remembered of a session: what it has touched, and what was allowed for it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::caller::Caller;
use crate::label::{LabelSet, Taint};
use crate::permission::{PermissionSet, PermissionUpdate, RuleError};
use crate::record::Entry;

/// Whose session. Without a session's id it is all that the principal does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// Who answers for the calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Arc<str>>,
    /// The session's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Arc<str>>,
}

impl SessionKey {
    /// The session of a caller.
    pub fn of(caller: &Caller) -> Self {
        Self {
            principal: caller.principal.as_deref().map(Arc::from),
            session: caller.session.as_deref().map(Arc::from),
        }
    }

    /// The journal's entry for its end: `session end`.
    pub fn ended(&self, by: Arc<Caller>, at: Timestamp) -> Entry {
        let about = self.session.as_deref().unwrap_or_default().to_owned();
        let told = json!({ "principal": self.principal, "session": self.session });
        Entry::of_deed("session end", about, &told, by, at)
    }
}

/// What is remembered of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionState {
    /// Where its labels came from, oldest first. Each label is there once for each namespace of tools that
    /// brought it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// What was allowed, asked or denied for it.
    #[serde(default, skip_serializing_if = "PermissionSet::is_empty")]
    pub permissions: PermissionSet,
    /// When it was first heard of.
    pub since: Timestamp,
    /// When it last changed, or was told again what it has touched.
    pub changed_at: Timestamp,
    /// When it was ended. Its id is closed for good: nothing runs in it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// A change of a session that cannot be made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// What is to be allowed makes no sense.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// It has ended.
    #[error("this session was ended; nothing can be allowed for it any more")]
    Ended,
}

impl SessionState {
    /// A session that has touched nothing.
    pub fn new(now: Timestamp) -> Self {
        Self {
            taints: Vec::new(),
            permissions: PermissionSet::default(),
            since: now,
            changed_at: now,
            ended_at: None,
        }
    }

    /// All its labels.
    pub fn labels(&self) -> LabelSet {
        self.taints.iter().fold(LabelSet::NONE, |labels, taint| labels.and(taint.labels))
    }

    /// The labels that tools of a namespace have brought.
    pub fn labels_from(&self, namespace: Option<&str>) -> LabelSet {
        let from = self.taints.iter().filter(|taint| taint.namespace() == namespace);
        from.fold(LabelSet::NONE, |labels, taint| labels.and(taint.labels))
    }

    /// The labels that tools of other namespaces have brought.
    pub fn labels_beside(&self, namespace: &str) -> LabelSet {
        let beside = self.taints.iter().filter(|taint| taint.namespace() != Some(namespace));
        beside.fold(LabelSet::NONE, |labels, taint| labels.and(taint.labels))
    }

    /// Makes a change. Labels only rise, also those of a session that was ended: what it has read stays
    /// read, and a new session has its own id.
    pub fn apply(&mut self, change: &SessionChange, now: Timestamp) -> Result<(), SessionError> {
        match change {
            SessionChange::Raise(taint) => {
                let new = taint.labels.without(self.labels_from(taint.namespace()));
                // Read again, what it holds is as fresh as at first, though none of it is new.
                if !new.is_empty() {
                    self.taints.push(Taint { labels: new, ..taint.clone() });
                }
            }
            SessionChange::Permit(_) if self.ended_at.is_some() => return Err(SessionError::Ended),
            SessionChange::Permit(update) => self.permissions.apply(update)?,
            SessionChange::End { .. } if self.ended_at.is_some() => return Ok(()),
            SessionChange::End { .. } => {
                (self.permissions, self.ended_at) = (PermissionSet::default(), Some(now));
            }
        }
        self.changed_at = now;
        Ok(())
    }
}

/// Something that changes in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChange {
    /// It has touched something.
    Raise(Taint),
    /// A person allows, asks or denies something for it.
    Permit(PermissionUpdate),
    /// It is ended, with an entry in the journal.
    End {
        /// Who ended it.
        by: Arc<Caller>,
    },
}
