//! What a name that nobody has may have been meant to be.

use helve_core::{Tool, ToolName};

use super::Snapshot;

/// A longer name is no typing mistake.
const NAME_BYTES_MAX: usize = 128;
/// From here on, two names are alike.
const ALIKE: f64 = 0.7;
/// Below this, not even the closest name is of any help.
const CLOSE: f64 = 0.35;

/// Names that are alike, then the closest where none is, then what means the like; only of tools that are `seen`.
pub(super) fn near(
    snapshot: &Snapshot,
    name: &str,
    limit: usize,
    seen: impl Fn(&Tool) -> bool,
) -> Vec<ToolName> {
    if name.len() > NAME_BYTES_MAX {
        return Vec::new();
    }
    let wanted = fold(name);
    let mut found: Vec<(f64, &Tool)> = snapshot
        .sorted()
        .iter()
        .map(|registered| (likeness(&wanted, registered.name()), &registered.tool))
        .filter(|(likeness, _)| *likeness >= CLOSE)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Asked last and in order: whether a tool may be seen can take a policy.
    let mut found = found.into_iter().filter(|(_, tool)| seen(tool)).peekable();
    let mut names: Vec<ToolName> = Vec::new();
    while names.len() < limit
        && let Some((_, tool)) = found.next_if(|(likeness, _)| *likeness >= ALIKE)
    {
        names.push(tool.name().clone());
    }
    if !names.is_empty() {
        return names;
    }
    // Nothing is spelled quite like it; perhaps something means it.
    let hits = snapshot.search(name, limit).into_iter().map(|hit| hit.registered.tool);
    names.extend(hits.filter(|tool| seen(tool)).map(|tool| tool.name().clone()));
    if let Some((_, closest)) = found.next().filter(|(_, tool)| !names.contains(tool.name())) {
        names.truncate(limit.saturating_sub(1));
        names.push(closest.name().clone());
    }
    names.truncate(limit);
    names
}

/// How alike two names are, from 0 to 1: the whole of it, or what stands after the last slash.
fn likeness(wanted: &str, candidate: &ToolName) -> f64 {
    let whole = score(wanted, &fold(candidate.as_str()));
    let simple = score(wanted, &fold(candidate.simple())) * 0.98;
    whole.max(simple)
}

fn score(a: &str, b: &str) -> f64 {
    let (a_chars, b_chars) = (a.chars().count(), b.chars().count());
    let longest = a_chars.max(b_chars).max(1) as f64;
    // Names of very different length cannot be close; do not measure them.
    if 1.0 - a_chars.abs_diff(b_chars) as f64 / longest < CLOSE {
        return 0.0;
    }
    1.0 - strsim::osa_distance(a, b) as f64 / longest
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
