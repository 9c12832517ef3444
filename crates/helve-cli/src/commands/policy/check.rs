//! `helve policy check`: every mistake in the policies, with its place.

use std::path::PathBuf;

use helve_host::config::Loaded;
use helve_host::wire;
use helve_host::wire::mcp::Which;
use helve_policy::{Finding, PolicyFile, Severity};
use serde_json::json;

use crate::app::App;
use crate::commands::servers;
use crate::exit::Exit;
use crate::ui::table::{Cell, Tone};
use crate::ui::{Table, count};

const AFTER_HELP: &str = "\
Exit codes:
  0 nothing is wrong   1 something is, and every call is denied until it is mended   2 wrong use

Examples:
  helve policy check
  helve policy check policy.cedar team.cedar
  helve policy check --connect";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Check these files instead of those in force
    files: Vec<PathBuf>,
    /// Connect MCP servers first, to check against their tools too
    #[arg(long)]
    connect: bool,
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let loaded = app.load_config()?;
    let registry = wire::registry(&loaded)?;
    let which = if args.connect { Which::All } else { Which::Named("") };
    servers::with_tools(&loaded, &registry, which, app, |app| {
        let files = files(args, &loaded)?;
        let (findings, policies) = match wire::policy::checked(&loaded, &registry, &files) {
            Ok(policies) => (policies.warnings().to_vec(), Some(policies.statements().len())),
            Err(findings) => (findings, None),
        };
        print(&findings, policies, app)
    })
}

fn files(args: &Args, loaded: &Loaded) -> anyhow::Result<Vec<PolicyFile>> {
    if args.files.is_empty() {
        return Ok(wire::policy::read(loaded)?);
    }
    let read = |path: &PathBuf| {
        Ok(PolicyFile::new(helve_host::config::origin::short(path), wire::policy::read_file(path)?))
    };
    args.files.iter().map(read).collect()
}

fn print(findings: &[Finding], policies: Option<usize>, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let exit = if policies.is_some() { Exit::Done } else { Exit::Failed };
    if app.ui.is_json() {
        app.ui.json(&json!({ "usable": policies.is_some(), "policies": policies, "findings": findings }))?;
        return Ok(exit);
    }
    if !findings.is_empty() {
        let mut table = Table::bare();
        for finding in findings {
            let (sign, tone) = match finding.severity {
                Severity::Error => ("✗", Tone::Bad),
                Severity::Warning => ("!", Tone::Warn),
            };
            let place = format!("{}:{}:{}", finding.file, finding.line, finding.column);
            table.row([Cell::new(sign, tone), Cell::new(place, Tone::Strong), Cell::from(&finding.message)]);
            if let Some(help) = &finding.help {
                table.row(["".into(), "".into(), Cell::new(help, Tone::Dim)]);
            }
        }
        app.ui.table(table)?;
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    app.ui.note(match policies {
        Some(policies) => format!("{} can be used", count(policies, "policy")),
        None => format!("{}: until they are mended, every call is denied", count(errors, "mistake")),
    })?;
    Ok(exit)
}
