//! `helve hook fire`: an agent outside tells of an event, and hears what hooks say to it.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use helve::hook::{HookEvent, HookInput};
use helve::hooks::Fired;
use helve::json::{JsonLimits, parse};
use helve::ports::Ledger;
use helve::{Caller, VolatileLedger};
use helve_host::wire;
use helve_host::wire::mcp::Which;
use serde_json::{Value, json};

use super::caller::local;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::servers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

/// How long background hooks have, once the answer is out, before the process ends. The agent that
/// started the process waits for that end.
pub(super) const BACKGROUND_WAIT: Duration = Duration::from_secs(2);
/// The exit code that agents take for: no.
const BLOCKED: u8 = 2;

const AFTER_HELP: &str = "\
Prints the joint answer of the hooks in the form of one hook, so that Claude Code can use this as a hook command.
Helve's own calls fire their events by themselves.

Exit codes:
  0 no hook objects   2 a hook forbids it; standard error says why

Examples:
  helve hook fire SessionStart --input '{\"session_id\": \"s-1\", \"source\": \"startup\"}'
  helve hook fire UserPromptSubmit --input @event.json
  echo '{\"tool_name\": \"Bash\", \"tool_input\": {\"command\": \"ls\"}}' | helve hook fire PreToolUse --input -";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run the hooks of an event
    Fire(Args),
}

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The event, such as SessionStart
    event: String,
    /// The event's fields: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
}

/// The event of this name. One that Helve does not know may be an agent's own, or mistyped.
pub(super) fn read_event(name: &str, app: &mut App<'_>) -> anyhow::Result<HookEvent> {
    let event: HookEvent = name.parse().map_err(|error| Failure::usage(format!("{error}")))?;
    if let Some(meant) = helve_host::config::hooks::meant(&event) {
        app.ui.note(format!("note: Helve knows no event `{event}`; did you mean `{meant}`?"))?;
    }
    Ok(event)
}

pub(crate) fn run(command: &Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Command::Fire(args) = command;
    let event = read_event(&args.event, app)?;
    let input = read_input(event, args.input.as_deref())?;
    let mut caller = Caller::clone(&local());
    caller.session = Some(input.session_id.clone()).filter(|session| !session.is_empty());
    fire(input, Behalf::Caller(caller.into()), app, tell)
}

fn tell(fired: &Fired, app: &mut App<'_>) -> anyhow::Result<Exit> {
    app.ui.json(&fired.to_output())?;
    for (by, failure) in fired.failures() {
        app.ui.note(format!(
            "note: {} failed: {}",
            escape::one_line(by, 120),
            escape::one_line(&failure.to_string(), 600)
        ))?;
    }
    let Some(why) = fired.refusal() else { return Ok(Exit::Done) };
    app.ui.error_line(escape::visible(why))?;
    Ok(Exit::Program(BLOCKED))
}

/// On whose behalf hooks are told, and so with whose rights those run that are tools.
pub(super) enum Behalf {
    /// As Helve tells them of its own calls.
    Helve,
    /// A caller raises the event.
    Caller(Arc<Caller>),
}

/// Tells the configured hooks of an event, and `tell`s what they say before those that nobody waits for
/// have ended.
pub(super) fn fire(
    input: HookInput,
    behalf: Behalf,
    app: &mut App<'_>,
    tell: impl FnOnce(&Fired, &mut App<'_>) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let registry = wire::registry(&loaded)?;
    block_on(async {
        let attached = servers::attach(&loaded, &registry, Which::OfHooks, app).await?;
        // The user of this command runs Helve, so the event itself leaves no record; a tool that a
        // hook calls does.
        let opened = match wire::hooks::tools_called(&loaded).is_empty() {
            true => None,
            false => Some(wire::open_ledger(&loaded)?),
        };
        let ledger: Arc<dyn Ledger> = match &opened {
            Some(ledger) => ledger.port(),
            None => Arc::new(VolatileLedger::default()),
        };
        let runtime = wire::runtime(&loaded, registry, ledger, wire::settings(&loaded.config))?;
        let fired = match behalf {
            Behalf::Helve => runtime.fire(input).await,
            Behalf::Caller(caller) => runtime.fire_for(input, caller).await,
        };
        let told = tell(&fired, app).and_then(|exit| {
            app.ui.flush()?;
            Ok(exit)
        });
        runtime.hooks().stop(BACKGROUND_WAIT).await;
        runtime.flush_traces(wire::TRACES_WAIT).await;
        attached.close().await;
        if let Some(ledger) = opened {
            ledger.close().context("the record of what hooks called may not be on disk")?;
        }
        told
    })
}

/// What goes with an event, as typed.
pub(super) fn read_input(event: HookEvent, given: Option<&str>) -> Result<HookInput, Failure> {
    let mut value = match given {
        None => json!({}),
        Some("-") => read_json(&read_at_most(std::io::stdin().lock(), "standard input")?)?,
        Some(text) => match text.strip_prefix('@') {
            Some(path) => {
                let file = std::fs::File::open(path)
                    .map_err(|error| Failure::usage(format!("cannot read `{path}`")).because(&error))?;
                read_json(&read_at_most(file, path)?)?
            }
            None => read_json(text.as_bytes())?,
        },
    };
    let fields = value.as_object_mut().ok_or_else(|| {
        Failure::usage("the input is no JSON object; give the event's fields as `{\"…\": …}`")
    })?;
    if fields.get("hook_event_name").is_some_and(|name| name != event.as_str()) {
        return Err(Failure::usage(format!("the input is of another event than {event}")));
    }
    fields.insert("hook_event_name".to_owned(), event.as_str().into());
    serde_json::from_value(value)
        .map_err(|error| Failure::usage(format!("the input cannot be used: {error}")))
}

fn read_at_most(reader: impl Read, what: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too much.
    let most = JsonLimits::default().bytes as u64 + 1;
    let read = reader.take(most).read_to_end(&mut bytes);
    read.map_err(|error| Failure::usage(format!("cannot read {what}")).because(&error))?;
    Ok(bytes)
}

pub(super) fn read_json(text: &[u8]) -> Result<Value, Failure> {
    parse(text, JsonLimits::default())
        .map_err(|error| Failure::usage(format!("the input cannot be used: {error}")))
}
