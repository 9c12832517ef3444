//! `helve audit list`: calls, newest first.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use helve::record::Ending;
use helve::run::StepKind;
use helve::{CallId, CodeName, Risk, Stance};
use helve_host::config::Loaded;
use helve_host::config::origin::short;
use helve_host::wire;
use helve_store::{AuditQuery, CallRecord, CallStatus, StepRecord};
use jiff::{Timestamp, Zoned};

use super::show::vote_line;
use crate::app::App;
use crate::commands::mcp::show::quoted;
use crate::commands::runs::words;
use crate::commands::when;
use crate::exit::Exit;
use crate::ui::table::{Cell, Columns, Tone, Yield};
use crate::ui::{Table, Ui, escape};

const AFTER_HELP: &str = "\
Examples:
  helve audit list --status failed --since 1d
  helve audit list --said deny --by policy --details
  helve audit list --tool mail/send --json
  helve audit list --tool '*/resources.read'";

/// How many calls are shown where nobody says.
const LIMIT: usize = 50;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only calls of this tool, or of all whose names fit: `mail/*`, `*/resources.read`
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only calls that ended so
    #[arg(long, value_parser = status())]
    status: Option<CallStatus>,
    /// Only calls with this error code, or a tool's own: `timeout`, `FILE_EXISTS`
    #[arg(long, value_name = "CODE")]
    code: Option<CodeName>,
    /// Only calls that this principal answers for
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Only calls of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only calls of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only calls that were allowed, asked about, or denied
    #[arg(long, value_parser = said())]
    said: Option<Stance>,
    /// Only calls decided by a source with this in its name: `policy`, `rule deny`, `labels`
    #[arg(long, value_name = "TEXT")]
    by: Option<String>,
    /// Only calls of tools of this risk, or a higher one
    #[arg(long, value_parser = risk())]
    risk: Option<Risk>,
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
    #[arg(long, short = 'n', default_value_t = LIMIT, value_name = "COUNT")]
    limit: usize,
    /// Show below each call its arguments, and why it was asked about, denied or failed
    #[arg(long)]
    details: bool,
}

impl Args {
    fn resolve(self) -> AuditQuery {
        let mut query = AuditQuery::default();
        query.tool = self.tool;
        query.status = self.status;
        query.code = self.code;
        query.principal = self.principal;
        query.session = self.session;
        query.agent = self.agent;
        query.said = self.said;
        query.by = self.by;
        query.risk = self.risk;
        query.since = self.since;
        query.until = self.until;
        query.before = self.before;
        query.limit = self.limit;
        query
    }
}

/// The same command for the calls before these.
fn more(query: &AuditQuery, details: bool, last: CallId) -> String {
    let filters = [
        ("tool", query.tool.clone()),
        ("status", query.status.map(|one| one.as_str().to_owned())),
        ("code", query.code.as_ref().map(|one| one.as_str().to_owned())),
        ("principal", query.principal.clone()),
        ("session", query.session.clone()),
        ("agent", query.agent.clone()),
        ("said", query.said.map(|one| one.as_str().to_owned())),
        ("by", query.by.clone()),
        ("risk", query.risk.map(|one| one.as_str().to_owned())),
        ("since", query.since.map(|one| one.to_string())),
        ("until", query.until.map(|one| one.to_string())),
        ("limit", (query.limit != LIMIT).then(|| query.limit.to_string())),
    ];
    let mut command = "helve audit list".to_owned();
    for (name, value) in filters {
        if let Some(value) = value {
            command.push_str(&format!(" --{name} {}", quoted(&value)));
        }
    }
    if details {
        command.push_str(" --details");
    }
    format!("{command} --before {last}")
}

fn status() -> impl TypedValueParser<Value = CallStatus> {
    let all = CallStatus::ALL;
    PossibleValuesParser::new(all.map(CallStatus::as_str)).map(move |text| {
        all.into_iter().find(|one| one.as_str() == text).expect("clap let only these through")
    })
}

fn said() -> impl TypedValueParser<Value = Stance> {
    let all = [Stance::Allow, Stance::Ask, Stance::Deny];
    PossibleValuesParser::new(all.map(Stance::as_str)).map(move |text| {
        all.into_iter().find(|one| one.as_str() == text).expect("clap let only these through")
    })
}

fn risk() -> impl TypedValueParser<Value = Risk> {
    PossibleValuesParser::new(Risk::ALL.map(Risk::as_str)).map(|text| {
        Risk::ALL.into_iter().find(|one| one.as_str() == text).expect("clap let only these through")
    })
}

pub(crate) fn run(args: Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let details = args.details;
    let query = args.resolve();
    let limit = query.limit;
    let loaded = app.load_config()?;
    let calls = match wire::open_trail(&loaded)?.and_then(|audit| audit.list(&query)) {
        Ok(calls) => calls,
        // Nothing was ever recorded, which is an answer too.
        Err(error) if error.is_missing() => Vec::new(),
        Err(error) => return Err(super::unreadable(&error).into()),
    };
    if app.ui.is_json() {
        app.ui.json(&calls)?;
        return Ok(Exit::Done);
    }
    if calls.is_empty() {
        if !is_empty(&loaded) {
            app.ui.note("no call fits; `helve audit list` without filters shows the latest")?;
            return Ok(Exit::Done);
        }
        app.ui.note("no call was recorded yet; try `helve call time-now`, then look again")?;
        if let Some(other) = wire::journal::outside(&loaded).map(|other| short(&other)) {
            let here = short(&loaded.journal_path);
            app.ui.note(format!(
                "this project's journal is {here}; calls without a project are in another one:"
            ))?;
            app.ui.note(format!("  helve audit list --set journal.path={}", quoted(&other)))?;
        }
        return Ok(Exit::Done);
    }
    let form = if app.ui.width().is_some_and(|width| width < WIDE) { Form::Short } else { Form::Whole };
    match details {
        true => print_with_details(&calls, form, app.ui)?,
        false => app.ui.table(table(&calls, &ids(&calls, form), form))?,
    }
    if calls.len() == limit
        && let Some(last) = calls.last()
    {
        app.ui.note(format!("\nmore: {}", more(&query, details, last.facts.call_id)))?;
    }
    Ok(Exit::Done)
}

fn is_empty(loaded: &Loaded) -> bool {
    let mut query = AuditQuery::default();
    query.limit = 1;
    let audit = wire::open_trail(loaded).ok().and_then(Result::ok);
    audit.and_then(|audit| audit.list(&query).ok()).unwrap_or_default().is_empty()
}

/// From this width on, times and ids are shown whole.
const WIDE: u16 = 130;

/// Longest argument or reason in a list. `audit show` has all of it.
const DETAIL_CHARS_MAX: usize = 400;

/// How times and ids are shown.
#[derive(Clone, Copy)]
enum Form {
    Whole,
    /// Times without what goes without saying, and of ids what `audit show` needs.
    Short,
}

/// Each call as a row, and below it what was said.
fn print_with_details(calls: &[CallRecord], form: Form, ui: &mut Ui) -> anyhow::Result<()> {
    let (ids, mut columns) = (ids(calls, form), Columns::default());
    // The whole table tells how wide its columns are, and has the headings.
    let whole = table(calls, &ids, form).render_page(ui.paint(), ui.width(), &mut columns);
    if let Some(headings) = whole.first().filter(|_| columns.is_later()) {
        ui.line(headings)?;
    }
    for (call, id) in calls.iter().zip(&ids) {
        ui.table_page(table(std::slice::from_ref(call), std::slice::from_ref(id), form), &mut columns)?;
        for (name, text) in details_of(call) {
            let name = ui.paint().dim(format!("{name:<9}"));
            ui.line(format!("    {name}  {}", escape::one_line(&text, DETAIL_CHARS_MAX)))?;
        }
    }
    Ok(())
}

/// What was said in a call, and about it.
fn details_of(call: &CallRecord) -> Vec<(&'static str, String)> {
    let arguments = call.payload.arguments.iter().map(|arguments| ("arguments", arguments.get().to_owned()));
    let votes = call.payload.votes.iter().filter_map(vote_line).map(|reason| ("because", reason));
    let steps = call.steps.iter().filter_map(|step| said_in(call, step));
    let error = call.payload.error.iter().map(|error| ("error", error.message().to_owned()));
    arguments.chain(votes).chain(steps).chain(error).collect()
}

/// What a person was asked, where no vote says it already, and what they answered.
fn said_in(call: &CallRecord, step: &StepRecord) -> Option<(&'static str, String)> {
    let said = words::said(&step.kind, step.payload.as_ref());
    match &step.kind {
        StepKind::Decided { decision, by, .. } => {
            let by = by.as_ref().map(|by| format!(" by {}", escape::one_line(by, 100))).unwrap_or_default();
            let said = said.map(|said| format!(": {said}")).unwrap_or_default();
            Some(("decided", format!("{decision}{by}{said}")))
        }
        _ => {
            let reasons = call.payload.votes.iter().filter_map(|vote| vote.reason.as_deref());
            let reasons: Vec<_> = reasons.map(|reason| escape::one_line(reason, 400)).collect();
            let is_new = |said: &String| !reasons.contains(said);
            said.filter(is_new).map(|said| ("because", said))
        }
    }
}

/// The ids as they are shown.
fn ids(calls: &[CallRecord], form: Form) -> Vec<String> {
    let ids: Vec<_> = calls.iter().map(|call| call.facts.call_id.to_string()).collect();
    let chars = match form {
        Form::Whole => return ids,
        Form::Short => unique_chars(&ids),
    };
    ids.iter().map(|id| id.get(..chars).unwrap_or(id).to_owned()).collect()
}

fn table(calls: &[CallRecord], ids: &[String], form: Form) -> Table {
    const YIELDS: &[Yield] = &[Yield::Cut(5, 12), Yield::Drop(5), Yield::Drop(4), Yield::Cut(2, 8)];
    let mut table = Table::new(["when", "call", "tool", "status", "took", "caller"]).one_line_rows(YIELDS);
    let now = Zoned::now();
    for (call, id) in calls.iter().zip(ids) {
        let when = match form {
            Form::Whole => when::shown(call.facts.received_at),
            Form::Short => when::brief(call.facts.received_at, &now),
        };
        let took = call.ending.as_ref().map(|ending| when::duration(ending.timings.total_nanos()));
        table.row([
            Cell::new(when, Tone::Dim),
            Cell::from(id),
            Cell::new(tool(call), Tone::Strong),
            status_cell(call),
            Cell::from(took.unwrap_or_default()),
            Cell::from(super::show::caller(&call.facts.caller)),
        ]);
    }
    table
}

/// The tool, what of an MCP server it read, and where the call stands within a bigger one. A call that was answered
/// from the record of an earlier one ran nothing.
fn tool(call: &CallRecord) -> String {
    let facts = &call.facts;
    if call.ending.as_ref().is_some_and(|ending| ending.replay_of.is_some()) {
        return format!("{} (replay)", facts.tool);
    }
    if let Some(read) = read(call) {
        return format!("{} {read}", facts.tool);
    }
    match (&facts.part, facts.undo_of) {
        (Some(part), _) => format!("{} (part `{}`)", facts.tool, part.path),
        (None, Some(_)) => format!("{} (undo)", facts.tool),
        (None, None) => facts.tool.to_string(),
    }
}

/// The address of the resource, or the name of the prompt, that was read.
fn read(call: &CallRecord) -> Option<String> {
    const CHARS_MAX: usize = 80;
    let field = match call.facts.tool.rsplit_once('/')?.1 {
        "resources.read" => "uri",
        "prompts.get" => "name",
        _ => return None,
    };
    let arguments: serde_json::Value = serde_json::from_str(call.payload.arguments.as_ref()?.get()).ok()?;
    let what = arguments.get(field)?.as_str()?;
    let mut shown: String = what.chars().take(CHARS_MAX).collect();
    if shown.len() < what.len() {
        shown.push('…');
    }
    Some(shown)
}

/// How much of an id tells it from the others, and from calls of other times.
fn unique_chars(ids: &[String]) -> usize {
    // `call_`, ten characters of time to the millisecond, and two of chance.
    const LEAST: usize = 17;
    let mut sorted: Vec<_> = ids.iter().collect();
    sorted.sort();
    let shared = |pair: &[&String]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    sorted.windows(2).map(|pair| shared(pair) + 1).max().unwrap_or(0).max(LEAST)
}

/// The status, with the error's code where there is one.
pub(crate) fn status_cell(call: &CallRecord) -> Cell {
    if call.damaged.is_some() {
        return Cell::new("damaged", Tone::Bad);
    }
    let tone = match call.status {
        CallStatus::Done => Tone::Good,
        CallStatus::Started | CallStatus::Pending => Tone::Warn,
        CallStatus::Returned | CallStatus::Failed | CallStatus::Denied => Tone::Bad,
    };
    let text = match call.ending.as_ref().and_then(Ending::error_name) {
        Some(code) => format!("{} ({code})", call.status.as_str()),
        None => call.status.as_str().to_owned(),
    };
    Cell::new(text, tone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_tells_its_call_from_the_others() {
        let ids = |endings: &[&str]| -> Vec<String> {
            endings.iter().map(|ending| format!("call_01M7GRVVXS{ending}")).collect()
        };
        assert_eq!(unique_chars(&ids(&["TA6W7Y2D1YZZG633"])), 17);
        assert_eq!(unique_chars(&ids(&["TA6W7Y2D1YZZG633", "5A6W7Y2D1YZZG633"])), 17);
        assert_eq!(unique_chars(&ids(&["TA6W7Y2D1YZZG633", "AAAA", "TA6W8Y2D1YZZG633"])), 20);
    }
}
