//! What a project brings and a person must have seen before it counts: tools and settings that ask for more
//! than the project's own folder, MCP servers, hooks, and rules that allow.
//!
//! Each kind is kept in a file of the state folder, and rules in a line of what this machine alone knows of
//! the project.

use std::path::PathBuf;

use helve::Layer;
use helve::permission::PermissionSet;
use helve_mcp::trust::{Scope, Trust, Verdict};
use serde_json::{Value, json};

use super::brought::{self, BroughtTool};
use super::mcp::Configured;
use super::{hooks, mcp};
use crate::config::asked::{self, AskedSettings};
pub use crate::config::trusted::{Store, look};
use crate::config::{Loaded, Origin, find, rules};
use crate::error::HostError;
use crate::wire::rules::RuleFiles;

/// What is trusted, to change it.
pub fn open(store: Store) -> Result<Trust, HostError> {
    let trust = Trust::open(store.file(&mcp::state_folder()?));
    match trust.problem() {
        Some(problem) => Err(HostError::failed("what was trusted cannot be read").because(problem)),
        None => Ok(trust),
    }
}

/// The files that say what is trusted.
pub(super) fn files() -> impl Iterator<Item = PathBuf> {
    find::mcp_state().into_iter().flat_map(|state| Store::ALL.map(|store| store.file(&state)))
}

/// The project whose things are trusted.
pub fn scope(loaded: &Loaded) -> Scope {
    Scope::Project(hooks::folder(loaded))
}

/// What is known of a thing, in a word for programs.
pub fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Trusted => "trusted",
        Verdict::Changed { .. } => "changed",
        Verdict::Unknown => "unknown",
    }
}

/// Something that a project brings.
pub struct Brought {
    /// As people call it; the one list of hooks or rules is called by its kind.
    pub name: String,
    pub origin: Option<Origin>,
    pub verdict: Verdict,
    pub what: What,
}

/// What it is, exactly as it would be trusted.
pub enum What {
    /// A tool or an API that asks for something, and what counts of it.
    Tool(Box<BroughtTool>, Option<Value>),
    /// All settings that ask for something, and what counts of them.
    Settings(AskedSettings, Value),
    /// An MCP server.
    Server(Box<Configured>),
    /// All hooks together.
    Hooks(Value),
    /// What the rules allow, and all of them as they are trusted.
    Rules { held: PermissionSet, all: PermissionSet },
    /// What was trusted once and is not there any more.
    Gone(Store),
}

impl Brought {
    /// The word for its kind.
    pub fn kind(&self) -> &'static str {
        match &self.what {
            What::Tool(..) | What::Gone(Store::Tools) => "tool",
            What::Settings(..) | What::Gone(Store::Settings) => "settings",
            What::Server(_) | What::Gone(Store::Servers) => "server",
            What::Hooks(_) | What::Gone(Store::Hooks) => "hooks",
            What::Rules { .. } => "rules",
        }
    }

    /// Whether a person must see it first.
    pub fn waits(&self) -> bool {
        self.verdict != Verdict::Trusted && !matches!(self.what, What::Gone(_))
    }

    /// What it would run or allow, as JSON without secrets.
    pub fn definition(&self) -> Value {
        match &self.what {
            What::Tool(_, pinned) => json!(pinned),
            What::Settings(_, pinned) => pinned.clone(),
            What::Server(one) => json!(helve_mcp::trust::shown(&one.config)),
            What::Hooks(hooks) => hooks.clone(),
            What::Rules { held, .. } => json!(held),
            What::Gone(_) => Value::Null,
        }
    }

    /// Trusts it as it is here, which is as it was shown.
    pub fn accept(&self, loaded: &Loaded) -> Result<(), HostError> {
        let kept = match &self.what {
            What::Tool(one, Some(pinned)) => {
                open(Store::Tools)?.accept_value(&one.scope, &one.name, pinned.clone())
            }
            What::Tool(one, None) => {
                return Err(HostError::usage(format!(
                    "`{}` cannot be trusted: a path in its definition is not UTF-8",
                    one.name
                )));
            }
            What::Settings(settings, pinned) => {
                open(Store::Settings)?.accept_value(&settings.scope(), asked::NAME, pinned.clone())
            }
            What::Server(one) => open(Store::Servers)?.accept(&one.scope, &one.name, &one.config),
            What::Hooks(hooks) => {
                open(Store::Hooks)?.accept_value(&scope(loaded), hooks::NAME, hooks.clone())
            }
            What::Rules { all, .. } => return RuleFiles::of(loaded).trust(all),
            What::Gone(_) => return Ok(()),
        };
        kept.map_err(|error| HostError::failed("what is trusted cannot be written down").because(&error))
    }

    /// Trusts it no longer. Says whether it was trusted.
    pub fn revoke(&self, loaded: &Loaded) -> Result<bool, HostError> {
        let (store, name) = match &self.what {
            What::Tool(one, _) => (Store::Tools, one.name.as_str()),
            What::Settings(..) => (Store::Settings, asked::NAME),
            What::Server(one) => (Store::Servers, one.name.as_str()),
            What::Hooks(_) => (Store::Hooks, hooks::NAME),
            What::Gone(store) => (*store, self.name.as_str()),
            What::Rules { .. } => return RuleFiles::of(loaded).distrust(),
        };
        open(store)?
            .revoke(&scope(loaded), name)
            .map_err(|error| HostError::failed("what is trusted cannot be written down").because(&error))
    }
}

/// All that this project brings and that counts only once it is trusted.
pub fn brought(loaded: &Loaded) -> Result<Vec<Brought>, HostError> {
    if !loaded.is_foreign(Layer::Project) {
        return Ok(Vec::new());
    }
    let mut all: Vec<Brought> = settings(&loaded.settings).into_iter().collect();
    all.extend(brought::all(loaded).into_iter().map(tool));
    let servers = mcp::configured(loaded).into_iter().filter(|one| matches!(one.scope, Scope::Project(_)));
    all.extend(servers.map(server));
    all.extend(hooks::of_project(loaded).map(|value| Brought {
        name: hooks::NAME.to_owned(),
        origin: loaded.hooks.iter().find(|one| one.layer == Layer::Project).map(|one| one.origin()),
        verdict: hooks::verdict(loaded),
        what: What::Hooks(value),
    }));
    all.extend(rules::brought(loaded)?.map(|brought| Brought {
        name: "rules".to_owned(),
        origin: Some(brought.origin),
        verdict: brought.verdict,
        what: What::Rules { held: brought.held, all: brought.all },
    }));
    Ok(all)
}

/// What waits for a person.
pub fn waiting(loaded: &Loaded) -> Result<Vec<Brought>, HostError> {
    Ok(brought(loaded)?.into_iter().filter(Brought::waits).collect())
}

/// What was trusted in this project and is not there any more.
pub fn gone(loaded: &Loaded, there: &[Brought]) -> Vec<Brought> {
    let scope = scope(loaded);
    let of = |store: Store| {
        let names = look(store).map(|trust| trust.names(&scope)).unwrap_or_default();
        names.into_iter().map(move |name| Brought {
            name,
            origin: None,
            verdict: Verdict::Trusted,
            what: What::Gone(store),
        })
    };
    let is_there =
        |one: &Brought| there.iter().any(|there| (there.kind(), &there.name) == (one.kind(), &one.name));
    Store::ALL.into_iter().flat_map(of).filter(|one| !is_there(one)).collect()
}

fn settings(settings: &AskedSettings) -> Option<Brought> {
    let first = settings.asked.first()?;
    Some(Brought {
        name: asked::NAME.to_owned(),
        origin: Some(first.origin.clone()),
        verdict: settings.verdict(),
        what: What::Settings(settings.clone(), settings.pinned()),
    })
}

fn tool(one: BroughtTool) -> Brought {
    let pinned = one.pinned();
    Brought {
        name: one.name.clone(),
        origin: Some(one.origin.clone()),
        verdict: one.verdict(),
        what: What::Tool(Box::new(one), pinned),
    }
}

fn server(one: Configured) -> Brought {
    Brought {
        name: one.name.clone(),
        origin: Some(one.origin.clone()),
        verdict: one.verdict.clone(),
        what: What::Server(Box::new(one)),
    }
}
