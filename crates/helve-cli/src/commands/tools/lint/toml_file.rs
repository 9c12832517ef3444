//! Checks a helve.toml: its keys, then each tool in it.

use std::path::Path;
use std::rc::Rc;

use helve::Layer;
use helve_net::NetPolicy;

use super::{Finding, Level, Report, openapi};
use crate::config::document::Document;
use crate::config::{problems_of, schema, tool_entries};
use crate::wire::Maker;

pub(super) fn check(file: &Path) -> Report {
    let document = match Document::read(file) {
        Ok(document) => Rc::new(document),
        Err(failure) => return Report::refused(Finding::error(file, failure.details.join("; "))),
    };
    let mut report = Report::default();
    let problems = problems_of(&document, &schema::compiled());
    report.findings.extend(problems.into_iter().map(|one| Finding::error(file, one.message).placed(&one.origin)));
    if !report.findings.is_empty() {
        // Its tools cannot be read before its keys are right.
        return report;
    }
    let maker = Maker::offline(NetPolicy::default());
    for entry in tool_entries(Layer::Project, &document) {
        match maker.make(&entry) {
            Ok(made) => {
                report.tools += made.tools.len();
                report.findings.extend(openapi::skipped(file, made.skipped).map(|one| one.placed(&entry.origin())));
                for tool in made.tools {
                    report.findings.extend(tool.warnings().into_iter().map(|problem| {
                        let origin = entry.origin_of(&problem.at);
                        Finding::of_tool(Level::Warning, file, tool.name().as_str(), problem).placed(&origin)
                    }));
                }
            }
            Err(error) => {
                report.tools += 1;
                report.findings.extend(error.problems.into_iter().map(|problem| {
                    let origin = entry.origin_of(&problem.at);
                    Finding::of_tool(Level::Error, file, &error.tool, problem).placed(&origin)
                }));
            }
        }
    }
    report
}
