//! `helve tools lint`: checks definitions and schemas. Nothing is run, nothing is fetched.

mod definition;
mod fields;
mod named;
mod openapi;
mod toml_file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use helve::{DefinitionError, Problem, Tool};
use helve_host::config::document::read_text;
use helve_host::config::origin::short;
use helve_host::config::{Origin, find};
use helve_tools::openapi::document::DOCUMENT_BYTES_MAX;
use serde::Serialize;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{Ui, count, escape};

const AFTER_HELP: &str = "\
A file is helve.toml (or any other TOML of that form), an OpenAPI document (JSON or YAML), or a JSON
definition: one object, or a list of them, with the keys of [[tool.http]] that every tool shares.

Examples:
  helve tools lint
  helve tools lint helve.toml
  helve tools lint petstore.yaml tools/*.json";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The files to check; without one, the helve.toml that is in use here
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    deny_warnings: bool,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Error,
    Warning,
}

/// One thing that was found.
#[derive(Debug, Serialize)]
struct Finding {
    level: Level,
    file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// The tool concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// The part of it, as in `input_schema/properties/to`.
    #[serde(skip_serializing_if = "str::is_empty")]
    at: String,
    message: String,
}

impl Finding {
    fn error(file: &Path, message: impl Into<String>) -> Self {
        Self {
            level: Level::Error,
            file: file.to_owned(),
            line: None,
            column: None,
            tool: None,
            at: String::new(),
            message: message.into(),
        }
    }

    fn of_tool(level: Level, file: &Path, tool: &str, problem: Problem) -> Self {
        Self { level, tool: Some(tool.to_owned()), at: problem.at, ..Self::error(file, problem.message) }
    }

    /// The tool and the part of it.
    fn subject(&self) -> String {
        let parts = self.tool.iter().chain(Some(&self.at)).filter(|part| !part.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    fn placed(mut self, origin: &Origin) -> Self {
        if let Origin::File { line, column, .. } = origin {
            (self.line, self.column) = (Some(*line), Some(*column));
        }
        self
    }
}

/// What one file gave.
#[derive(Default)]
struct Report {
    tools: usize,
    findings: Vec<Finding>,
    /// Whether its tools could not be looked at, because the keys of the file are wrong.
    is_cut: bool,
}

impl Report {
    fn refused(finding: Finding) -> Self {
        Self { findings: vec![finding], is_cut: true, ..Self::default() }
    }

    /// Takes a tool with its warnings, or the errors of one that was refused.
    fn take(&mut self, file: &Path, made: Result<Tool, DefinitionError>) {
        self.tools += 1;
        let (level, tool, problems) = match made {
            Ok(tool) => (Level::Warning, tool.name().to_string(), tool.warnings()),
            Err(error) => (Level::Error, error.tool, error.problems),
        };
        self.findings
            .extend(problems.into_iter().map(|problem| Finding::of_tool(level, file, &tool, problem)));
    }
}

pub(crate) fn run(args: &Args, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let mut total = Report::default();
    let files = match args.files.is_empty() {
        true => vec![in_use(app)?],
        false => args.files.clone(),
    };
    for file in &files {
        let report = check(file);
        total.tools += report.tools;
        total.is_cut |= report.is_cut;
        total.findings.extend(report.findings);
    }
    let of = |level: Level| total.findings.iter().filter(|finding| finding.level == level).count();
    let (errors, warnings) = (of(Level::Error), of(Level::Warning));
    if app.ui.is_json() {
        app.ui.json(&json!({ "tools": total.tools, "errors": errors, "warnings": warnings, "findings": total.findings }))?;
    } else {
        print(&total, errors, warnings, app.ui)?;
    }
    let failed = errors > 0 || (args.deny_warnings && warnings > 0);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// The configuration file that commands use in this folder.
fn in_use(app: &App<'_>) -> Result<PathBuf, Failure> {
    if let Some(named) = &app.inputs.config {
        return Ok(app.inputs.work_dir.join(named));
    }
    let user = || find::user_file().filter(|file| file.is_file());
    find::project_file(&app.inputs.work_dir)?.or_else(user).ok_or_else(|| {
        Failure::usage("there is no helve.toml here, so there is nothing to check")
            .hint("name a file: `helve tools lint FILE`")
            .hint("`helve init` writes a helve.toml")
    })
}

fn check(file: &Path) -> Report {
    if file.extension().is_some_and(|extension| extension == "toml") {
        return toml_file::check(file);
    }
    let text = match read_text(file, DOCUMENT_BYTES_MAX) {
        Ok(text) => text,
        Err(failure) => return Report::refused(Finding::error(file, failure.lines().join("; "))),
    };
    if openapi::looks_like_one(&text) { openapi::check(file, &text) } else { definition::check(file, &text) }
}

/// How many of a group are named.
const GROUP_SHOWN: usize = 3;

/// Findings to be told together. An imported API can give the same warning for each of a thousand
/// operations, all at one place.
fn groups(findings: &[Finding]) -> Vec<Vec<&Finding>> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    let mut known = HashMap::new();
    for finding in findings {
        let key = (finding.level, &finding.file, finding.line, finding.column, &finding.message);
        let index = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    let (few, many): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.len() <= GROUP_SHOWN);
    few.into_iter().flatten().map(|finding| vec![finding]).chain(many).collect()
}

fn print(report: &Report, errors: usize, warnings: usize, ui: &mut Ui) -> anyhow::Result<()> {
    let paint = ui.paint();
    for group in groups(&report.findings) {
        let finding = group[0];
        let level = match finding.level {
            Level::Error => paint.bad("error"),
            Level::Warning => paint.warn("warning"),
        };
        let place = match (finding.line, finding.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}", short(&finding.file)),
            _ => short(&finding.file),
        };
        let subjects: Vec<_> = group.iter().take(GROUP_SHOWN).map(|finding| finding.subject()).collect();
        let subjects = subjects.join(", ");
        let text = match group.len() {
            1 if subjects.is_empty() => finding.message.clone(),
            1 => format!("{subjects}: {}", finding.message),
            times => format!("{times} times: {} ({subjects}, …)", finding.message),
        };
        let line = escape::one_line(&text, 600);
        ui.line(format!("{}: {level}: {line}", escape::one_line(&place, 300)))?;
    }
    let counts = [count(report.tools, "tool"), count(errors, "error"), count(warnings, "warning")];
    // Nobody has counted the tools of a file that could not be read.
    let known = if report.is_cut && report.tools == 0 { &counts[1..] } else { &counts[..] };
    let summary = known.join(", ");
    ui.line(if errors > 0 {
        paint.bad(format!("✗ {summary}"))
    } else {
        paint.good(format!("✓ {summary}"))
    })?;
    Ok(())
}
