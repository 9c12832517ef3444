//! What is remembered of a session: what it has touched, and what was allowed for it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::label::{LabelSet, Taint};
use crate::permission::{PermissionSet, PermissionUpdate, RuleError};

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
}

/// What is remembered of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionState {
    /// Where its labels came from, oldest first. Each label is there once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// What was allowed, asked or denied for it.
    #[serde(default, skip_serializing_if = "PermissionSet::is_empty")]
    pub permissions: PermissionSet,
    /// When it was first heard of.
    pub since: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
}

impl SessionState {
    /// A session that has touched nothing.
    pub fn new(now: Timestamp) -> Self {
        Self { taints: Vec::new(), permissions: PermissionSet::default(), since: now, changed_at: now }
    }

    /// All its labels.
    pub fn labels(&self) -> LabelSet {
        self.taints.iter().fold(LabelSet::NONE, |labels, taint| labels.and(taint.labels))
    }

    /// Makes a change. Labels only rise.
    pub fn apply(&mut self, change: &SessionChange, now: Timestamp) -> Result<(), RuleError> {
        match change {
            SessionChange::Raise(taint) => {
                let new = taint.labels.without(self.labels());
                if new.is_empty() {
                    return Ok(());
                }
                self.taints.push(Taint { labels: new, ..taint.clone() });
            }
            SessionChange::Permit(update) => self.permissions.apply(update)?,
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
    /// Somebody allows, asks or denies something for it.
    Permit(PermissionUpdate),
}
