//! Which accounts are connected: those whose environment variable is set.

use helve::Caller;
use helve::ports::Integrations;
use helve_tools::web::{HOW_TO_CONNECT_SEARCH, SEARCH_INTEGRATION};

use crate::config::Config;

/// Accounts that are connected when an environment variable is set.
pub(crate) struct ByVariable(Vec<(String, String)>);

impl ByVariable {
    pub(crate) fn new(config: &Config) -> Self {
        Self(config.integrations.iter().map(|(name, one)| (name.clone(), one.env.clone())).collect())
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, variable)| variable.as_str())
    }
}

impl Integrations for ByVariable {
    fn connected(&self, name: &str, _caller: &Caller) -> bool {
        self.variable(name).is_some_and(is_set)
    }

    fn how_to_connect(&self, name: &str) -> String {
        match self.variable(name) {
            Some(variable) => format!("set the environment variable {variable} to connect `{name}`"),
            None if name == SEARCH_INTEGRATION => HOW_TO_CONNECT_SEARCH.to_owned(),
            None => format!(
                "add `[integrations.{name}]` with `env = \"VARIABLE\"` to helve.toml, and set that variable"
            ),
        }
    }
}

/// Whether a variable holds something.
pub(super) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
