//! `helve policy test`: given this call, expect that.

use std::path::{Path, PathBuf};

use helve::ports::Policy as _;
use helve::{Caller, LabelSet, Registry, Stance};
use helve_host::config::origin::short;
use helve_host::wire;
use helve_host::wire::mcp::Which;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asked::{self, About, PolicyQuestion};
use crate::app::App;
use crate::commands::servers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, count};

const AFTER_HELP: &str = "\
A file of cases, TOML or JSON:

  [[case]]
  name = \"agents may not write files\"
  caller = { principal = \"planner\", kind = \"agent\", roles = [\"reader\"] }
  action = \"call\"                     # the default
  tool = \"file-write\"
  arguments = { path = \"a.txt\", content = \"x\" }
  labels = [\"untrusted\"]
  expect = \"deny\"                     # allow, ask or deny
  by = \"read-only-agents\"             # the policy that decides; optional

Exit codes:
  0 all as expected   1 something was not   2 wrong use

Examples:
  helve policy test policy.test.toml
  helve policy test cases.json --json";

/// The longest file of cases.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Files of cases
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// A file of cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: Option<String>,
    #[serde(default)]
    caller: CaseCaller,
    action: Option<String>,
    tool: Option<String>,
    /// `SERVER/NAME` of a resource or a prompt.
    resource: Option<String>,
    #[serde(default = "empty")]
    arguments: Value,
    #[serde(default)]
    labels: Vec<String>,
    /// When, for policies on time.
    now: Option<jiff::Timestamp>,
    expect: Stance,
    by: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseCaller {
    principal: Option<String>,
    kind: Option<helve::PrincipalKind>,
    #[serde(default)]
    roles: Vec<String>,
    agent: Option<String>,
    session: Option<String>,
    channel: Option<helve::Channel>,
}

fn empty() -> Value {
    json!({})
}

/// How a case went.
struct Tried {
    name: String,
    expected: String,
    got: String,
    reason: Option<String>,
    passed: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let mut cases = Vec::new();
    for file in &args.files {
        cases.extend(read(file)?);
    }
    if cases.is_empty() {
        return Err(Failure::usage("there are no cases").hint("`helve policy test --help` shows one").into());
    }
    let loaded = app.load_config()?;
    let registry = wire::registry(&loaded)?;
    // Servers are started only for the sake of a tool that nobody else has.
    let known = cases.iter().filter_map(|case| case.tool.as_deref()).all(|tool| registry.get(tool).is_some());
    let which = if known { Which::Named("") } else { Which::All };
    servers::with_tools(&loaded, &registry, which, app, |app| {
        let policies = wire::policy::policies(&loaded, &registry);
        let mut tried = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let name = case.name.clone().unwrap_or_else(|| format!("case {}", index + 1));
            let expected = match &case.by {
                Some(by) => format!("{} by {by}", case.expect),
                None => case.expect.to_string(),
            };
            tried.push(match asked(case, &registry) {
                Ok(asked) => {
                    let vote = policies.rule(&asked.request());
                    let by = vote.by.strip_prefix("policy ").unwrap_or_default();
                    let as_named =
                        case.by.as_deref().is_none_or(|wanted| by.split(", ").any(|one| one == wanted));
                    let got = if by.is_empty() {
                        vote.stance.to_string()
                    } else {
                        format!("{} by {by}", vote.stance)
                    };
                    Tried {
                        name,
                        expected,
                        got,
                        reason: vote.reason,
                        passed: vote.stance == case.expect && as_named,
                    }
                }
                Err(failure) => {
                    let hints = failure.hints.into_iter().next();
                    Tried { name, expected, got: failure.message, reason: hints, passed: false }
                }
            });
        }
        print(&tried, app)
    })
}

fn read(path: &Path) -> Result<Vec<Case>, Failure> {
    let unreadable =
        |why: String| Failure::usage(format!("cannot read the cases in {}", short(path))).detail(why);
    let found = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Err(unreadable(format!("it is not a file of at most {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let cases: Result<Cases, String> = if is_json {
        serde_json::from_str(&text).map_err(|error| error.to_string())
    } else {
        toml::from_str(&text).map_err(|error| error.to_string())
    };
    cases
        .map(|cases| cases.case)
        .map_err(|error| unreadable(error).hint("`helve policy test --help` shows a case"))
}

fn asked(case: &Case, registry: &Registry) -> Result<PolicyQuestion, Failure> {
    let action = asked::action(case.action.as_deref().unwrap_or("call"))?;
    let of = &case.caller;
    let mut caller = of.principal.as_ref().map_or_else(Caller::anonymous, Caller::principal).roles(&of.roles);
    caller.kind = of.kind.unwrap_or_default();
    caller.channel = of.channel.unwrap_or_default();
    caller.agent.clone_from(&of.agent);
    caller.session.clone_from(&of.session);
    let asked = PolicyQuestion {
        caller,
        action,
        about: About::find(action, case.tool.as_deref().or(case.resource.as_deref()), registry)?,
        arguments: case.arguments.clone(),
        labels: case.labels.iter().map(|label| asked::label(label)).collect::<Result<LabelSet, _>>()?,
        now: case.now.unwrap_or_else(jiff::Timestamp::now),
    };
    // A case that could never happen proves nothing.
    match asked.misfit() {
        Some(why) => Err(Failure::usage(why)),
        None => Ok(asked),
    }
}

fn print(tried: &[Tried], app: &mut App<'_>) -> anyhow::Result<Exit> {
    let failed = tried.iter().filter(|one| !one.passed).count();
    let exit = if failed == 0 { Exit::Done } else { Exit::Failed };
    if app.ui.is_json() {
        let cases: Vec<_> = tried
            .iter()
            .map(|one| {
                json!({ "name": one.name, "passed": one.passed, "expected": one.expected, "got": one.got, "reason": one.reason })
            })
            .collect();
        app.ui.json(&json!({ "passed": tried.len() - failed, "failed": failed, "cases": cases }))?;
        return Ok(exit);
    }
    let mut table = Table::new(["", "case", "expected", "got", "why"]);
    for one in tried {
        table.row([
            if one.passed { Cell::new("✓", Tone::Good) } else { Cell::new("✗", Tone::Bad) },
            Cell::from(&one.name),
            Cell::from(&one.expected),
            Cell::new(&one.got, if one.passed { Tone::Plain } else { Tone::Bad }),
            Cell::new(one.reason.as_deref().unwrap_or_default(), Tone::Dim),
        ]);
    }
    app.ui.table(table)?;
    app.ui.note(match failed {
        0 => format!("{} as expected", count(tried.len(), "case")),
        _ => format!("{failed} of {} not as expected", count(tried.len(), "case")),
    })?;
    Ok(exit)
}
