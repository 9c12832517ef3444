//! Which accounts are connected: those whose environment variable is set, and those of the office.

use helve::Caller;
use helve::ports::Integrations;
use helve_tools::web::{HOW_TO_CONNECT_SEARCH, SEARCH_INTEGRATION};

use crate::config::Config;

/// What the office brings, by name, and the command that connects it. Its account `local` is everybody's and has
/// all of them, so that nothing has to be opened to know that they are there.
const OFFICE: [(&str, &str); 4] = [
    ("mail", "helve connect mail"),
    ("calendar", "helve connect calendar"),
    ("tasks", "helve connect calendar"),
    ("contacts", "helve connect contacts"),
];

/// Accounts that are connected when an environment variable is set, and those of the office.
pub(crate) struct Connected {
    variables: Vec<(String, String)>,
    has_office: bool,
}

impl Connected {
    pub(crate) fn new(config: &Config) -> Self {
        let variables = config.integrations.iter().map(|(name, one)| (name.clone(), one.env.clone()));
        Self { variables: variables.collect(), has_office: config.office.enabled }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, variable)| variable.as_str())
    }
}

impl Integrations for Connected {
    fn connected(&self, name: &str, _caller: &Caller) -> bool {
        match self.variable(name) {
            Some(variable) => is_set(variable),
            None => self.has_office && command(name).is_some(),
        }
    }

    fn how_to_connect(&self, name: &str) -> String {
        match (self.variable(name), command(name)) {
            (Some(variable), _) => format!("set the environment variable {variable} to connect `{name}`"),
            (None, Some(command)) if self.has_office => format!("run `{command}` to connect `{name}`"),
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

/// The command that connects what the office brings under this name.
fn command(name: &str) -> Option<&'static str> {
    OFFICE.iter().find(|(known, _)| *known == name).map(|(_, command)| *command)
}

/// Whether a variable holds something.
pub(super) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
