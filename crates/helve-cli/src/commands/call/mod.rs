//! `helve call`: one tool, once, through the whole pipeline.

mod arguments;
mod freshness;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use helve::{Advice, AdvisedAction, Call, Caller, Outcome, Registry, Runtime, Source};
use helve_host::config::Loaded;
use helve_host::wire::mcp::{Attached, Which};
use helve_host::wire::{self, Tools};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::arguments::Unread;
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::hook::BACKGROUND_WAIT;
use crate::commands::outcome::{self, Show};
use crate::commands::person::Person;
use crate::commands::servers;
use crate::commands::{interrupt, progress};
use crate::exit::Exit;
use crate::ui::Ui;

const AFTER_HELP: &str = "\
Arguments:
  '{\"a\": 1}'     one JSON object
  key=value      typed by the tool's schema; repeat a key to fill a list
  a.b=value      a field of an object
  key:=json      raw JSON, as in ids:='[1, 2]'
  @file          JSON from a file
  -              JSON from standard input

Exit codes:
  0 done   1 the tool failed   2 wrong use   3 waiting for approval   4 denied

Examples:
  helve call time-now
  helve call math-eval expression='2^10 / 3'
  helve call text-stats @article.json --json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The tool's full name, alias or provider name
    name: String,
    /// The tool's arguments, in one of the forms below
    #[arg(value_name = "ARGUMENTS")]
    arguments: Vec<String>,
    /// Makes repeating safe: a key that has finished gives the stored outcome
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Allow less time than the tool does
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: Option<u64>,
    /// Call on behalf of this agent
    #[arg(long, value_parser = crate::commands::caller::name)]
    agent: Option<String>,
    /// Call within this session
    #[arg(long)]
    session: Option<String>,
    /// Allow only these tools: names, or `ns/*`
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// What the calling agent decided; the stricter of it and the rules wins
    #[arg(long, value_enum, value_name = "ACTION")]
    advice: Option<AdviceArg>,
    /// Why the agent decided so
    #[arg(long, requires = "advice", value_name = "TEXT")]
    because: Option<String>,
    /// How sure the agent is, from 0 to 1
    #[arg(long, requires = "advice", value_name = "NUMBER", value_parser = sureness)]
    confidence: Option<f64>,
    /// Joins this call with others in the journal
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Where a person must approve, wait for them: as long as it takes, or for so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "31536000")]
    wait: Option<u64>,
    /// Ask again although a person said no a moment ago
    #[arg(long)]
    ask_again: bool,
    /// Write the result to a file instead of the screen
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What an agent can decide about its own call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum AdviceArg {
    Execute,
    RequestApproval,
    Deny,
}

/// A number from 0 to 1.
fn sureness(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "a number from 0 to 1 is expected, as in 0.9".to_owned())
}

impl From<AdviceArg> for AdvisedAction {
    fn from(advice: AdviceArg) -> Self {
        match advice {
            AdviceArg::Execute => Self::Execute,
            AdviceArg::RequestApproval => Self::RequestApproval,
            AdviceArg::Deny => Self::Deny,
        }
    }
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let Tools { registry, broken, .. } = wire::tools(&loaded)?;
    // Where a person reads, all that is wrong; a model is told the place alone.
    let is_person = !app.ui.is_json() && args.allow.is_empty();
    if let Some(one) = broken.iter().find(|one| is_person && one.has(&args.name)) {
        app.note(&[one.remark()]);
    }
    block_on(async {
        // Only servers that the call may need are started.
        let calls_others = args.arguments.iter().any(|word| may_call_tools(word));
        let which = if calls_others { Which::ForCode(&args.name) } else { Which::With(&args.name) };
        let attached = servers::attach(&loaded, &registry, which, app).await?;
        let done = call(args, &loaded, registry, &attached, app).await;
        attached.close().await;
        done
    })
}

/// Whether an argument may be code that calls tools: it names `helve`, or stands elsewhere.
fn may_call_tools(word: &str) -> bool {
    word.contains("helve") || word.starts_with('@') || word == "-"
}

/// The MCP server that a tool is of: the one whose namespace its name is in.
fn server_of(tool: &helve::Tool, loaded: &Loaded) -> Option<String> {
    let namespace = Some(tool.name().namespace()?).filter(|_| tool.definition().source == Source::Mcp)?;
    let mut servers = loaded.config.mcp.servers.iter();
    let found = servers.find(|(name, server)| server.namespace.as_deref().unwrap_or(name) == namespace);
    found.map(|(name, _)| name.clone())
}

async fn call(
    args: Args,
    loaded: &Loaded,
    registry: Registry,
    attached: &Attached,
    app: &mut App<'_>,
) -> anyhow::Result<Exit> {
    let settings = wire::settings(&loaded.config);
    let tool = registry.get(&args.name).map(|registered| registered.tool);
    let input = tool.as_ref().map(helve::Tool::input);
    let (value, refusal) = match arguments::read(&args.arguments, input, settings.arguments) {
        Ok(value) => (value, None),
        Err(Unread::Refused(error)) => (Value::Null, Some(error)),
        Err(Unread::Usage(failure)) => return Err(failure.into()),
    };
    // Of a broken tool the runtime says what is wrong; of a missing tool, the server that may have it.
    let refusal = match (&tool, registry.broken(&args.name)) {
        (Some(_), _) => refusal,
        (None, Some(_)) => None,
        (None, None) => attached.why_not().or(refusal),
    };
    let of_tool = tool.as_ref().and_then(|tool| tool.definition().timeout_ms);
    let allowed = of_tool.unwrap_or(loaded.config.execution.default_timeout_ms);
    let show = Show {
        out: args.out.clone(),
        timeout_ms: args.timeout_ms.filter(|ms| *ms < allowed),
        server: tool.as_ref().and_then(|tool| server_of(tool, loaded)),
    };
    let mut call = resolve(args, value);
    if !app.ui.is_json() {
        call.client = Person::at_terminal();
    }

    let is_json = app.ui.is_json();
    let old = tool.filter(|_| !is_json).map(|tool| freshness::remarks(&tool, &call.caller, loaded));
    let ledger = wire::open_ledger(loaded)?;
    let runtime = wire::runtime(loaded, registry, ledger.port(), settings)?;
    let outcome = match refusal {
        Some(error) => runtime.refuse(call, error).await,
        None => call_until_interrupt(&runtime, call, app.ui).await,
    };
    // Told before hooks that nobody waits for have ended; what cannot be told keeps nothing open.
    let told = outcome::print(&outcome, &show, app.ui)
        .and_then(|()| Ok(old.iter().flatten().try_for_each(|line| app.ui.note(line))?))
        .and_then(|()| Ok(app.ui.flush()?));
    runtime.hooks().stop(BACKGROUND_WAIT).await;
    runtime.flush_traces(wire::TRACES_WAIT).await;
    let closed = ledger.close();
    told?;
    closed.context(if outcome.attempts > 0 {
        "the tool did run, but its record may not be on disk"
    } else {
        "no tool ran, and the record of that may not be on disk"
    })?;
    Ok(Exit::from(&outcome))
}

fn resolve(args: Args, value: Value) -> Call {
    let mut caller = Caller::clone(&Caller::local()).channel(helve::Channel::Cli);
    caller.agent = args.agent;
    caller.session = args.session;
    if !args.allow.is_empty() {
        caller = caller.allow_only(args.allow);
    }
    let mut call = Call::new(args.name, value).by(caller);
    if let Some(action) = args.advice {
        let advice = Advice::new(action.into());
        call = call.advised(Advice { confidence: args.confidence, reasoning: args.because, ..advice });
    }
    if let Some(key) = args.idempotency_key {
        call = call.idempotency_key(key);
    }
    if let Some(ms) = args.timeout_ms {
        call = call.timeout(Duration::from_millis(ms));
    }
    if let Some(seconds) = args.wait {
        call = call.wait_for_approval(Duration::from_secs(seconds));
    }
    if args.ask_again {
        call = call.ask_again();
    }
    if let Some(id) = args.correlation_id {
        call = call.correlation_id(id);
    }
    call
}

/// Ctrl-C takes the call back: the tool is told, what a composed one did is undone where it wants
/// that, and the journal says so. One that does not listen is stopped after
/// `execution.cancel_grace_ms`.
async fn call_until_interrupt(runtime: &Runtime, call: Call, ui: &mut Ui) -> Outcome {
    let cancellation = CancellationToken::new();
    let line = progress::Line::new(ui);
    let line = if call.approval_wait.is_some() { line.telling_questions(ui) } else { line };
    let running = Box::pin(runtime.call(call.cancellation(cancellation.clone())));
    let watched = progress::watched(runtime, line, running);
    interrupt::until_interrupt(watched, ui, async || cancellation.cancel()).await
}
