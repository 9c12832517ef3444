//! What the tools of a server count as: which bring strangers' words or private data, and which send.
//!
//! The operator's word (`tools.facets`) decides. Where there is none, Helve's own table names the tools of the
//! best-known public servers (`known.json`), and of all others Helve assumes what it can see from the outside
//! (`assume.rs`). INVARIANT: what its own server says tools adds facets; see `assume.rs` for the one hint
//! that leaves one out.

mod assume;
mod known;
mod words;

use std::collections::BTreeSet;

use helve::{Assumed, Facet, SendsTo, ToolBuilder};
use serde_json::Value;

use crate::config::ServerConfig;
pub use assume::Account;
pub use known::{KnownServer, known};

/// What a tool counts as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Who says so.
    pub by: By,
    /// The ways that information takes through it.
    pub facets: BTreeSet<Facet>,
    /// Who gets what it is given, where it sends and nobody said so.
    pub sends_to: SendsTo,
}

/// Who says what a tool counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The operator, in `tools.facets`.
    Operator,
    /// Helve's table of well-known servers, under this name.
    Helve(&'static str),
    /// Nobody: it is assumed.
    Nobody,
}

impl Counted {
    /// What a tool of a server counts as, by the server's definition of it.
    pub fn tool(server: &str, config: &ServerConfig, account: Account, definition: &Value) -> Self {
        let own = definition.get("name").and_then(Value::as_str).unwrap_or_default();
        let hints = definition.get("annotations");
        match said(config, own) {
            Some((by, mut facets)) => {
                facets.extend(admitted(hints));
                Self { by, facets, sends_to: SendsTo::Anybody }
            }
            None => {
                let Assumed { mut facets, sends_to } = assume::tool(server, config, account, definition);
                facets.extend(admitted(hints));
                Self { by: By::Nobody, facets, sends_to }
            }
        }
    }

    /// What reading a piece of a server besides its tools counts as: `resources.read`, `prompts.get`.
    pub fn piece(server: &str, config: &ServerConfig, account: Account, piece: &str) -> Self {
        match said(config, piece) {
            Some((by, facets)) => Self { by, facets, sends_to: SendsTo::Anybody },
            None => {
                let Assumed { facets, sends_to } = assume::piece(server, config, account);
                Self { by: By::Nobody, facets, sends_to }
            }
        }
    }

    /// Puts it on a tool.
    pub(crate) fn on(self, tool: ToolBuilder) -> ToolBuilder {
        match self.by {
            By::Operator | By::Helve(_) => tool.facets(self.facets),
            By::Nobody => tool.assumed(Assumed { facets: self.facets, sends_to: self.sends_to }),
        }
    }

    /// In words, for people.
    pub fn words(&self) -> String {
        let words = |facet: &Facet| match facet {
            Facet::ReadsUntrusted => "brings strangers' words",
            Facet::ReadsPrivate => "reads private data",
            Facet::Egress => "sends",
            Facet::Mutates => "changes",
        };
        match self.facets.is_empty() {
            true => "nothing that labels watch".to_owned(),
            false => self.facets.iter().map(words).collect::<Vec<_>>().join(", "),
        }
    }
}

/// What the operator or Helve's table says.
fn said(config: &ServerConfig, own: &str) -> Option<(By, BTreeSet<Facet>)> {
    if let Some(facets) = config.tools.facets_of(own) {
        return Some((By::Operator, facets));
    }
    let known = known(config)?;
    Some((By::Helve(&known.name), known.facets_of(own)?))
}

/// Ways of information that a server admits to. What it denies takes nothing away.
fn admitted(hints: Option<&Value>) -> impl Iterator<Item = Facet> {
    let admits = |name: &str| hints.and_then(|hints| hints.get(name)) == Some(&Value::Bool(true));
    let open = admits("openWorldHint").then_some([Facet::ReadsUntrusted, Facet::Egress]);
    open.into_iter().flatten().chain(admits("destructiveHint").then_some(Facet::Mutates))
}

/// Who says what the tools of a server count as, before anything is known of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A pattern of the operator's names every tool.
    Said,
    /// Patterns of the operator's name some tools; of the others it is assumed.
    PartlySaid,
    /// It is in Helve's table, under this name.
    Known(&'static str),
    /// Nobody: it is assumed of all.
    Assumed,
}

impl Standing {
    /// Of a server as it is configured.
    pub fn of(config: &ServerConfig) -> Self {
        match (config.tools.facets.contains_key("*"), known(config)) {
            (true, _) => Self::Said,
            (false, Some(known)) => Self::Known(&known.name),
            (false, None) if config.tools.facets.is_empty() => Self::Assumed,
            (false, None) => Self::PartlySaid,
        }
    }
}

/// What is assumed of the tools of a server whose facets nobody has said, in words.
pub fn assumed_words(server: &str, config: &ServerConfig) -> String {
    let facets = assume::piece(server, config, Account::Unknown).facets;
    let counted = Counted { by: By::Nobody, facets, sends_to: SendsTo::Anybody };
    counted.words()
}

#[cfg(test)]
mod tests;
