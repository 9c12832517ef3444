//! MCP servers as the files have them: one takes the place of another as a whole, and a wrong one is set
//! aside.

use std::collections::{BTreeMap, HashMap};

use helve_mcp::config::ServerConfig;
use serde_json::Value;

use super::Origin;
use super::document::Document;
use super::parts::{Problem, is_below, server_pointer};

/// An MCP server that cannot be used.
#[derive(Debug, Clone)]
pub struct BrokenServer {
    /// Where it stands.
    pub origin: Origin,
    pub problems: Vec<Problem>,
}

/// A server of a later file takes the place of one of the same name as a whole: a project must not
/// put its address next to a person's own credentials.
pub(super) fn replace(document: &Document, merged: &mut Value, origins: &mut HashMap<String, Origin>) {
    let named = document.value.pointer("/mcp/servers").and_then(Value::as_object);
    for name in named.into_iter().flat_map(|servers| servers.keys()) {
        remove(name, merged, origins);
    }
}

/// Takes note of the servers of a file that are wrong, and forgets those of an earlier file that these replace.
pub(super) fn set_aside(
    document: &Document,
    wrong: &BTreeMap<String, Vec<Problem>>,
    broken: &mut BTreeMap<String, BrokenServer>,
) {
    let named = document.value.pointer("/mcp/servers").and_then(Value::as_object);
    for name in named.into_iter().flat_map(|servers| servers.keys()) {
        broken.remove(name);
        let pointer = server_pointer(name);
        if let Some(problems) = wrong.get(&pointer) {
            let origin = document.origin(&pointer);
            broken.insert(name.clone(), BrokenServer { origin, problems: problems.clone() });
        }
    }
}

/// Sets aside servers whose shape is right and whose values are not, such as a host that is none. One that a
/// flag or a variable has a word in is refused with everything else: who typed it is there to mend it.
pub(super) fn untype(
    merged: &mut Value,
    origins: &mut HashMap<String, Origin>,
    broken: &mut BTreeMap<String, BrokenServer>,
) {
    let servers = merged.pointer("/mcp/servers").and_then(Value::as_object);
    let wrong: Vec<_> = servers
        .into_iter()
        .flatten()
        .filter_map(|(name, server)| {
            let error = unusable(server)?;
            let pointer = server_pointer(name);
            let below = origins.iter().filter(|(one, _)| is_below(one, &pointer));
            let from: Vec<_> = below.map(|(_, origin)| origin.clone()).collect();
            let is_of_file = |origin: &Origin| matches!(origin, Origin::File { .. });
            let first = from.iter().min_by_key(|origin| line(origin))?.clone();
            from.iter().all(is_of_file).then(|| (name.clone(), first, error))
        })
        .collect();
    for (name, origin, message) in wrong {
        remove(&name, merged, origins);
        let problems = vec![Problem { origin: origin.clone(), message: format!("`{name}`: {message}") }];
        broken.insert(name, BrokenServer { origin, problems });
    }
}

/// Why a server of the right shape is none. There would be nothing to trust, and nothing to start.
fn unusable(server: &Value) -> Option<String> {
    match serde_json::from_value::<ServerConfig>(server.clone()) {
        Ok(config) if config.place().is_some() => None,
        Ok(_) => Some("a server has either `command` or `url`".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn remove(name: &str, merged: &mut Value, origins: &mut HashMap<String, Origin>) {
    if let Some(servers) = merged.pointer_mut("/mcp/servers").and_then(Value::as_object_mut) {
        servers.remove(name);
    }
    let pointer = server_pointer(name);
    origins.retain(|one, _| !is_below(one, &pointer));
}

fn line(origin: &Origin) -> usize {
    match origin {
        Origin::File { line, .. } => *line,
        Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => usize::MAX,
    }
}
