//! Which accounts are connected.

use std::collections::BTreeSet;

use crate::caller::Caller;

/// Knows which accounts are connected for whom.
pub trait Integrations: Send + Sync + 'static {
    /// Whether `name` is connected for this caller.
    fn connected(&self, name: &str, caller: &Caller) -> bool;

    /// How to connect it, in one line.
    fn how_to_connect(&self, name: &str) -> String;
}

/// A fixed set of connected accounts, the same for everyone.
#[derive(Debug, Clone, Default)]
pub struct Connected(BTreeSet<String>);

impl Connected {
    /// These and no others.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl Integrations for Connected {
    fn connected(&self, name: &str, _caller: &Caller) -> bool {
        self.0.contains(name)
    }

    fn how_to_connect(&self, name: &str) -> String {
        format!("connect the integration `{name}` in the runtime's configuration")
    }
}
