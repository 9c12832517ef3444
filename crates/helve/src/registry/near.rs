//! What a name that nobody has may have been meant to be.

use helve_core::ToolName;

use super::Snapshot;

/// A longer name is no typing mistake.
const NAME_BYTES_MAX: usize = 128;

pub(super) fn near(snapshot: &Snapshot, name: &str, limit: usize) -> Vec<ToolName> {
    if name.len() > NAME_BYTES_MAX {
        return Vec::new();
    }
    let wanted = fold(name);
    let mut found: Vec<(f64, &ToolName)> = snapshot
        .sorted()
        .iter()
        .filter_map(|registered| {
            let candidate = registered.name();
            let likeness = likeness(&wanted, candidate);
            (likeness >= 0.7).then_some((likeness, candidate))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut names: Vec<_> = found.into_iter().take(limit).map(|(_, name)| name.clone()).collect();
    if names.is_empty() {
        // Nothing is spelled like it; perhaps something means it.
        names = snapshot.search(name, limit).into_iter().map(|hit| hit.registered.name().clone()).collect();
    }
    names
}

/// How alike two names are, from 0 to 1: the whole of it, or what stands after the last slash.
fn likeness(wanted: &str, candidate: &ToolName) -> f64 {
    let whole = score(wanted, &fold(candidate.as_str()));
    let simple = score(wanted, &fold(candidate.simple())) * 0.98;
    whole.max(simple)
}

fn score(a: &str, b: &str) -> f64 {
    // Names of very different length cannot be alike; do not measure them.
    if a.len().abs_diff(b.len()) * 3 > a.len().max(b.len()) {
        return 0.0;
    }
    1.0 - strsim::osa_distance(a, b) as f64 / a.chars().count().max(b.chars().count()).max(1) as f64
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
