//! `helve call`: one tool, once, through the whole pipeline.

mod arguments;
mod result;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use helve::{Advice, AdvisedAction, Call, Caller, Outcome, Runtime};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::exit::Exit;
use crate::wire;

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

/// As typed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The tool's full name, alias or provider name
    name: String,
    /// Its arguments; see below
    #[arg(value_name = "ARGUMENTS")]
    arguments: Vec<String>,
    /// Makes repeating safe: a key that has finished gives the stored outcome
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Allow less time than the tool does
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: Option<u64>,
    /// Call on behalf of this agent
    #[arg(long)]
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
    /// Why it decided so
    #[arg(long, requires = "advice", value_name = "TEXT")]
    because: Option<String>,
    /// Joins this call with others in the journal
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
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
    let registry = wire::registry(&loaded)?;
    let settings = wire::settings(&loaded.config);
    let tool = registry.get(&args.name).map(|registered| registered.tool);
    let value = arguments::read(&args.arguments, tool.as_ref().map(helve::Tool::input), settings.arguments)?;
    let out = args.out.clone();
    let call = resolve(args, value);

    let store = Arc::new(wire::open_store(&loaded)?);
    let runtime = wire::runtime(&loaded, registry, store.clone(), settings);
    let outcome = wire::block_on(async { Ok(call_until_interrupt(&runtime, call).await) })?;
    result::print(&outcome, out.as_deref(), app.ui)?;
    store.close().context("the call is done, but its record may not be on disk")?;
    Ok(Exit::from(&outcome))
}

fn resolve(args: Args, value: serde_json::Value) -> Call {
    let mut caller = Caller::clone(&Caller::local());
    caller.agent = args.agent;
    caller.session = args.session;
    if !args.allow.is_empty() {
        caller = caller.allow_only(args.allow);
    }
    let mut call = Call::new(args.name, value).by(caller);
    if let Some(action) = args.advice {
        let advice = Advice::new(action.into());
        call = call.advised(match args.because {
            Some(reason) => advice.because(reason),
            None => advice,
        });
    }
    if let Some(key) = args.idempotency_key {
        call = call.idempotency_key(key);
    }
    if let Some(ms) = args.timeout_ms {
        call = call.timeout(Duration::from_millis(ms));
    }
    if let Some(id) = args.correlation_id {
        call = call.correlation_id(id);
    }
    call
}

/// Ctrl-C takes the call back: the tool is told, and the journal says so. A second one is left to
/// the system, for a tool that does not listen.
async fn call_until_interrupt(runtime: &Runtime, call: Call) -> Outcome {
    let cancellation = CancellationToken::new();
    let running = runtime.call(call.cancellation(cancellation.clone()));
    tokio::pin!(running);
    tokio::select! {
        outcome = &mut running => return outcome,
        _ = interrupted() => cancellation.cancel(),
    }
    running.await
}

/// Waits for Ctrl-C or a polite request to end.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
        tokio::select! {
            result = tokio::signal::ctrl_c() => if result.is_err() { std::future::pending().await },
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
