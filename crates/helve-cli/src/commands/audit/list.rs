//! `helve audit list`: calls, newest first.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use helve::{CallId, ErrorCode};
use helve_store::{Audit, AuditQuery, CallRecord, CallStatus, StoreError};
use jiff::Timestamp;

use super::when;
use crate::app::App;
use crate::exit::Exit;
use crate::ui::Table;
use crate::ui::table::{Cell, Tone};

const AFTER_HELP: &str = "\
Examples:
  helve audit list --status failed --since 1d
  helve audit list --tool mail/send --json";

/// As typed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls that ended so
    #[arg(long, value_parser = status())]
    status: Option<CallStatus>,
    /// Only calls with this error code
    #[arg(long, value_parser = code(), hide_possible_values = true)]
    code: Option<ErrorCode>,
    /// Only calls that this principal answers for
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only calls of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only calls from this time on: `2026-11-15 10:00`, or an age such as `2h`
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    since: Option<Timestamp>,
    /// Only calls before this time
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    until: Option<Timestamp>,
    /// Only calls older than this one: the last of the page before
    #[arg(long, value_name = "ID")]
    before: Option<CallId>,
    /// Show at most this many
    #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT")]
    limit: usize,
}

impl Args {
    fn resolve(self) -> AuditQuery {
        let mut query = AuditQuery::default();
        query.tool = self.tool;
        query.status = self.status;
        query.code = self.code;
        query.principal = self.principal;
        query.session = self.session;
        query.since = self.since;
        query.until = self.until;
        query.before = self.before;
        query.limit = self.limit;
        query
    }
}

fn status() -> impl TypedValueParser<Value = CallStatus> {
    let all = CallStatus::ALL;
    PossibleValuesParser::new(all.map(CallStatus::as_str)).map(move |text| {
        all.into_iter().find(|one| one.as_str() == text).expect("clap let only these through")
    })
}

fn code() -> impl TypedValueParser<Value = ErrorCode> {
    PossibleValuesParser::new(ErrorCode::ALL.iter().map(|one| one.as_str())).map(|text| {
        *ErrorCode::ALL.iter().find(|one| one.as_str() == text).expect("clap let only these through")
    })
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let query = args.resolve();
    let limit = query.limit;
    let loaded = app.load_config()?;
    let calls = match Audit::open(&loaded.journal_path).and_then(|audit| audit.list(&query)) {
        Ok(calls) => calls,
        // Nothing was ever recorded, which is an answer too.
        Err(StoreError::Missing(_)) => Vec::new(),
        Err(error) => return Err(super::unreadable(&error).into()),
    };
    if app.ui.is_json() {
        app.ui.json(&calls)?;
        return Ok(Exit::Done);
    }
    if calls.is_empty() {
        app.ui.note("no call fits; try `helve call time-now`, then look again")?;
        return Ok(Exit::Done);
    }
    app.ui.table(table(&calls))?;
    if calls.len() == limit
        && let Some(last) = calls.last()
    {
        app.ui.note(format!("\nmore: helve audit list --before {}", last.facts.call_id))?;
    }
    Ok(Exit::Done)
}

fn table(calls: &[CallRecord]) -> Table {
    let mut table =
        Table::new(["when", "call", "tool", "status", "took", "caller"]).one_line_rows().whole_column(1);
    for call in calls {
        let took = call.ending.as_ref().map(|ending| when::duration(ending.timings.total_nanos()));
        table.row([
            Cell::new(when::shown(call.facts.received_at), Tone::Dim),
            Cell::from(call.facts.call_id.to_string()),
            Cell::new(&call.facts.tool, Tone::Strong),
            status_cell(call),
            Cell::from(took.unwrap_or_default()),
            Cell::from(super::show::caller(&call.facts.caller)),
        ]);
    }
    table
}

/// The status, with the error's code where there is one.
pub(super) fn status_cell(call: &CallRecord) -> Cell {
    let tone = match call.status {
        CallStatus::Done => Tone::Good,
        CallStatus::Started | CallStatus::Pending => Tone::Warn,
        CallStatus::Returned | CallStatus::Failed | CallStatus::Denied => Tone::Bad,
    };
    let text = match call.ending.as_ref().and_then(|ending| ending.code) {
        Some(code) => format!("{} ({code})", call.status.as_str()),
        None => call.status.as_str().to_owned(),
    };
    Cell::new(text, tone)
}
