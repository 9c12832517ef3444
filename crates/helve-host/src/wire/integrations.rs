//! Which accounts are connected: those whose environment variable is set, and those of the office.

use std::sync::Arc;

use helve::Caller;
use helve::ports::Integrations;
use helve_office::Office;
use helve_tools::web::{HOW_TO_CONNECT_SEARCH, SEARCH_INTEGRATION};

use super::office;
use crate::config::Loaded;

/// Accounts that are connected when an environment variable is set, and those of the office.
pub struct Connected {
    variables: Vec<(String, String)>,
    office: Option<Arc<Office>>,
}

impl Connected {
    pub fn new(loaded: &Loaded) -> Self {
        let config = &loaded.config;
        let variables = config.integrations.iter().map(|(name, one)| (name.clone(), one.env.clone()));
        let office = config.office.enabled.then(|| office::office(loaded).ok()).flatten();
        Self { variables: variables.collect(), office }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, variable)| variable.as_str())
    }
}

impl Integrations for Connected {
    fn connected(&self, name: &str, caller: &Caller) -> bool {
        match self.variable(name) {
            Some(variable) => is_set(variable),
            None => self.office.as_ref().is_some_and(|office| office.connected(name, caller)),
        }
    }

    fn how_to_connect(&self, name: &str) -> String {
        match (self.variable(name), Office::command(name)) {
            (Some(variable), _) => format!("set the environment variable {variable} to connect `{name}`"),
            (None, Some(command)) if self.office.is_some() => format!("run `{command}` to connect `{name}`"),
            (None, Some(command)) => {
                format!("set `office.enabled = true` in helve.toml and run `{command}` to connect `{name}`")
            }
            (None, None) if name == SEARCH_INTEGRATION => HOW_TO_CONNECT_SEARCH.to_owned(),
            (None, None) => format!(
                "add `[integrations.{name}]` with `env = \"VARIABLE\"` to helve.toml, and set that variable"
            ),
        }
    }
}

/// Whether a variable holds something.
pub(super) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
