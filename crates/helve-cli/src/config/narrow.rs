//! What a project's file may not do: make the gate laxer than its user has it. What came with a
//! folder could come from anybody.

use helve::Risk;
use serde_json::Value;

use super::document::{Document, at};
use crate::remark::Remark;

/// Whether the project's value counts, or why not. `before` is what counts without it.
pub(super) fn refusal(pointer: &str, value: &Value, before: &Value, document: &Document) -> Option<Remark> {
    // Who hears of calls, and with what out of the user's environment; who says whom callers and those
    // who decide are; and where people enter the secret that they decide with.
    let places = ["/approvals/webhook/", "/telemetry/", "/identity/"];
    let own_only = places.iter().any(|place| pointer.starts_with(place))
        || matches!(pointer, "/approvals/ask_url" | "/approvals/page_url");
    let laxer = match pointer {
        "/security/ask_from" => risk(value) > risk(before),
        "/security/require_authentication" => before == true && value == false,
        "/labels/when_met" => rank(value, &["off", "ask", "deny"]) < rank(before, &["off", "ask", "deny"]),
        "/labels/unlabelled" => rank(value, &UNLABELLED) < rank(before, &UNLABELLED),
        "/labels/principal_ttl_s" => value.as_u64() < before.as_u64(),
        "/sandbox/min_level" => rank(value, &LEVELS) < rank(before, &LEVELS),
        "/journal/durability" => rank(value, &["changes", "all"]) < rank(before, &["changes", "all"]),
        // Lists that take something away must keep all that they take away.
        "/net/deny" | "/redact/names" | "/limits/calls" => lacks(value, before),
        // One that lets only these through must not grow, and an empty one lets everything through.
        "/net/only" => !is_empty(before) && (is_empty(value) || lacks(before, value)),
        _ => false,
    };
    if !own_only && !laxer {
        return None;
    }
    let key = pointer.trim_start_matches('/').replace('/', ".");
    let why = if own_only { "only your own helve.toml may say it" } else { "it would make the gate laxer" };
    Some(Remark {
        found: format!("`{key}` of the project does not count: {why} ({})", at(&document.origin(pointer))),
        fix: "if you want it, write it into your own helve.toml, or give `--set`".to_owned(),
    })
}

/// What a tool counts as whose facets nobody has said, the laxest first.
const UNLABELLED: [&str; 3] = ["ignored", "assumed", "all"];
/// Levels of confinement, the weakest first.
const LEVELS: [&str; 5] = ["L0", "L1", "L2p", "L2", "L3"];

/// Whether a list is without something that another one has.
fn lacks(list: &Value, other: &Value) -> bool {
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let list = items(list);
    items(other).iter().any(|one| !list.contains(one))
}

fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

fn risk(value: &Value) -> Option<Risk> {
    serde_json::from_value(value.clone()).ok()
}

/// Where a word stands among others, the laxest first. A word that is none is refused elsewhere.
fn rank(value: &Value, words: &[&str]) -> Option<usize> {
    words.iter().position(|word| value == word)
}
