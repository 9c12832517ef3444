//! What of the office is connected, as the tools name what they need.

use helve::Caller;
use helve::ports::Integrations;

use crate::{Account, Office};

/// What tools need, and the command that connects it.
const COMMANDS: [(&str, &str); 4] = [
    ("mail", "helve connect mail"),
    ("calendar", "helve connect calendar"),
    ("tasks", "helve connect calendar"),
    ("contacts", "helve connect contacts"),
];

impl Office {
    /// The command that connects what the office brings under this name.
    pub fn command(name: &str) -> Option<&'static str> {
        COMMANDS.iter().find(|(known, _)| *known == name).map(|(_, command)| *command)
    }
}

/// For programs that have no other integrations: `Runtime::builder().integrations(office)`.
impl Integrations for Office {
    fn connected(&self, name: &str, caller: &Caller) -> bool {
        // A new file begins with the account `local`, which is everybody's and has everything. Nothing is made to know it.
        if Self::command(name).is_none() || !self.db().path().exists() {
            return Self::command(name).is_some();
        }
        let accounts = self.accounts();
        let has = |account: &Account| match name {
            "mail" => account.mails.is_some(),
            _ => account.objects.is_some(),
        };
        // Without any account the file could not be read: the tool itself says why.
        accounts.is_empty() || accounts.iter().any(|account| account.is_for(caller) && has(account))
    }

    fn how_to_connect(&self, name: &str) -> String {
        match Self::command(name) {
            Some(command) => format!("run `{command}` to connect `{name}`"),
            None => format!("nothing here connects `{name}`"),
        }
    }
}
