//! `helve approvals approve`: let a call run, once.

use std::path::Path;
use std::time::Duration;

use helve::Approval;
use helve::approval::Same;
use helve::approvals::{Decision, Remember};
use helve_host::wire;
use helve_host::wire::mcp::Which;
use serde_json::Value;

use super::{Desk, decider, failure, missing};
use crate::app::App;
use crate::blocking::block_on;
use crate::commands::memory::span;
use crate::commands::servers;
use crate::exit::Exit;
use crate::failure::Failure;

const AFTER_HELP: &str = "\
Exit codes:
  0 approved   1 another person decided first, or it has expired   2 wrong use

Examples:
  helve approvals approve apr_01K9
  helve approvals approve apr_01K9 --edit '{\"to\": \"ada@example.com\"}'
  helve approvals approve apr_01K9 --always --same to --for 2h";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The approval's id, or the beginning of it
    id: String,
    /// Let it run with these arguments instead: JSON, or a file with it
    #[arg(long, value_name = "JSON|FILE")]
    edit: Option<String>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do not ask again for the like in this session: the same tool, the same caller, the same
    /// arguments
    #[arg(long)]
    always: bool,
    /// With `--always`: only these arguments must be the same (a name, or a JSON Pointer)
    #[arg(long, value_name = "FIELD", requires = "always")]
    same: Vec<String>,
    /// With `--always`: whatever the arguments
    #[arg(long, requires = "always", conflicts_with = "same")]
    any_arguments: bool,
    /// With `--always`: for so long at most, as in `2h`
    #[arg(long = "for", value_name = "TIME", requires = "always", value_parser = span)]
    time: Option<jiff::SignedDuration>,
}

impl Args {
    fn decision(&self) -> Result<Decision, Failure> {
        let edited = self.edit.as_deref().map(read).transpose()?;
        let pointer = |field: &String| match field.starts_with('/') {
            true => field.clone(),
            // As in a JSON Pointer, where these two have a meaning.
            false => format!("/{}", field.replace('~', "~0").replace('/', "~1")),
        };
        let same = match (self.any_arguments, self.same.is_empty()) {
            (true, _) => Same::Fields(Vec::new()),
            (false, true) => Same::Everything,
            (false, false) => Same::Fields(self.same.iter().map(pointer).collect()),
        };
        let ttl = self.time.and_then(|time| Duration::try_from(time).ok());
        let remember = self.always.then_some(Remember { same, ttl });
        Ok(Decision::Approve { edited, remember, reason: self.reason.clone() })
    }
}

/// JSON, or what is in a file.
fn read(text: &str) -> Result<Value, Failure> {
    /// Far more than any tool takes.
    const BYTES_MAX: u64 = 64 << 20;
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|error| Failure::usage("`--edit` is not JSON").because(&error));
    }
    let path = Path::new(text.strip_prefix('@').unwrap_or(text));
    let wrong = || Failure::usage(format!("`{}` is neither JSON nor a file with it", path.display()));
    let size = std::fs::metadata(path).map_err(|error| wrong().because(&error))?.len();
    if size > BYTES_MAX {
        return Err(wrong().detail(format!("it has {size} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong().because(&error))?;
    serde_json::from_str(&text).map_err(|error| wrong().because(&error))
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let (decision, decider) = (args.decision()?, decider()?);
    let loaded = app.load_config()?;
    // Tools are needed to see whether one has changed, and to check what was edited. A broken one
    // is no reason not to decide about another.
    let registry = match (wire::registry(&loaded), &args.edit) {
        (Ok(registry), _) => registry,
        (Err(error), Some(_)) => return Err(error.into()),
        (Err(_), None) => helve::Registry::default(),
    };
    let desk = Desk::with(&loaded, registry.clone())?.ok_or_else(|| missing(&loaded))?;
    let approved = block_on(async {
        let asked = desk.find(&args.id).await?;
        if args.edit.is_none() {
            return Ok(desk.runtime.approvals().decide(asked.id, decision, &decider).await);
        }
        let attached = servers::attach(&loaded, &registry, Which::With(&asked.tool), app).await?;
        let decided = desk.runtime.approvals().decide(asked.id, decision, &decider).await;
        attached.close().await;
        Ok(decided)
    })?;
    let rules = approved.as_ref().ok().and_then(|approval| approval.ruling.as_ref()?.rule);
    desk.ledger.close()?;
    let approval = approved.map_err(|error| failure(&error))?;
    if app.ui.is_json() {
        app.ui.json(&approval)?;
        return Ok(Exit::Done);
    }
    app.ui.line(format!("approved: `{}` may run once", approval.tool))?;
    if let Some(rule) = rules {
        app.ui.note(format!(
            "the like is not asked again in this session; `helve approvals revoke {rule}` takes that back"
        ))?;
    }
    app.ui.note(goes_on(&approval))?;
    Ok(Exit::Done)
}

/// How the call goes on.
fn goes_on(approval: &Approval) -> String {
    match &approval.part {
        Some(part) => {
            format!("a caller that waits goes on; `helve runs resume {}` resumes the run now", part.run)
        }
        None => "a caller that waits goes on; others make the same call again".to_owned(),
    }
}
