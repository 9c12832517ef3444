//! `helve memory`: what agents remember, seen and changed by people.
//!
//! Working memory is not here: it lives in the process of the agent that uses it.

mod delete;
mod get;
mod list;
mod set;

use helve::memory::{MemoryError, MemoryPlace, MemoryScope, Remembered};
use helve::{Caller, Registry, Runtime};
use helve_host::wire;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};
use serde_json::{Value, json};

use crate::app::App;
use crate::blocking::block_on;
use crate::commands::caller::CallerArgs;
use crate::exit::Exit;
use crate::failure::Failure;

/// See and change what agents remember.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List keys and values, by key
    List(list::Args),
    /// Print the value of a key
    Get(get::Args),
    /// Remember a value
    Set(set::Args),
    /// Forget a value
    Delete(delete::Args),
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list::run(args, app),
        Command::Get(args) => get::run(args, app),
        Command::Set(args) => set::run(args, app),
        Command::Delete(args) => delete::run(args, app),
    }
}

/// Whose memory, as typed.
#[derive(Debug, clap::Args)]
struct OwnerArgs {
    /// Which memory: a session's, or an agent's
    #[arg(long, value_enum, default_value = "short-term", value_name = "SCOPE")]
    scope: ScopeArg,
    #[command(flatten)]
    caller: CallerArgs,
}

/// The scopes that outlive a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ScopeArg {
    ShortTerm,
    LongTerm,
}

impl OwnerArgs {
    fn resolve(self) -> (MemoryScope, Caller) {
        let scope = match self.scope {
            ScopeArg::ShortTerm => MemoryScope::ShortTerm,
            ScopeArg::LongTerm => MemoryScope::LongTerm,
        };
        (scope, self.caller.resolve())
    }

    fn place(self, key: String) -> MemoryPlace {
        let (scope, caller) = self.resolve();
        MemoryPlace::of(&caller, scope, key)
    }
}

/// Does something with the memory of this configuration, through the same door as tools.
fn with_memory<T>(
    app: &mut App<'_>,
    act: impl AsyncFnOnce(&Runtime) -> Result<T, MemoryError>,
) -> anyhow::Result<T> {
    let loaded = app.load_config()?;
    let ledger = wire::open_ledger(&loaded)?;
    // No tools: memory needs none, and a broken one should not keep it from being seen.
    let runtime = Runtime::builder().registry(Registry::default()).ledger(ledger.port()).build();
    let done = block_on(async { Ok(act(&runtime).await) })?;
    ledger.close()?;
    Ok(done.map_err(failure)?)
}

fn failure(error: MemoryError) -> Failure {
    match error {
        MemoryError::BadKey { .. } | MemoryError::Reserved => Failure::usage(error.to_string()),
        other => Failure::failed(other.to_string()),
    }
}

/// A value as programs read it.
fn document(key: &str, found: &Remembered) -> Value {
    let mut document = json!(found);
    document["key"] = json!(key);
    document
}

/// A time in this place's zone.
fn shown(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A time span such as `90s`, `2h` or `7d`.
pub(crate) fn span(text: &str) -> Result<SignedDuration, String> {
    let wrong = || "give a time such as `90s`, `2h` or `7d`".to_owned();
    let span: Span = text.parse().map_err(|_| wrong())?;
    let time = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    if time.is_positive() { Ok(time) } else { Err(wrong()) }
}
