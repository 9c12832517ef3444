//! `helve mcp serve`: everything there is, for one client on standard input and output.

use helve::Channel;

use crate::app::App;
use crate::commands::caller::CallerArgs;
use crate::commands::serve;
use crate::exit::Exit;

const AFTER_HELP: &str = "\
Nothing but messages goes to standard output; the log goes to standard error.

Examples:
  claude mcp add helve -- helve mcp serve
  helve mcp serve --agent reviewer --allow 'files/*' --allow time-now";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    caller: CallerArgs,
    /// Show and allow only these tools: names, or `ns/*`
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let mut caller = args.caller.resolve().channel(Channel::Stdio);
    if !args.allow.is_empty() {
        caller = caller.allow_only(args.allow);
    }
    serve::stdio(caller, app)
}
