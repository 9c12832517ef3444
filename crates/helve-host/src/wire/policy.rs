//! The policies in force.

use std::io::Read as _;
use std::path::Path;

use helve::{Filter, Registry, Tool};
use helve_policy::{Finding, Policies, PolicyFile, Vocabulary, limits};

use super::mcp;
use crate::config::origin::short;
use crate::config::{Loaded, PolicyPath};
use crate::error::HostError;
use crate::words::count;

/// The policies in force. Where they cannot be read or are wrong, everything is denied, and says why:
/// a command that calls nothing works all the same.
pub fn policies(loaded: &Loaded, registry: &Registry) -> Policies {
    if loaded.policy_files.is_empty() {
        return Policies::default_policy();
    }
    let fix = "`helve policy check` shows what to mend";
    match read(loaded) {
        Ok(files) => checked(loaded, registry, &files).unwrap_or_else(|findings| {
            let first = findings.first().map(ToString::to_string).unwrap_or_default();
            let problems = count(findings.len(), "problem");
            Policies::broken(format!(
                "the policies have {problems}, and so nothing is allowed: {first}; {fix}"
            ))
        }),
        Err(failure) => {
            let why = failure.lines().join(", ");
            Policies::broken(format!("{}, and so nothing is allowed: {why}; {fix}", failure.message))
        }
    }
}

/// The same from text, or all that is wrong with it.
pub fn checked(loaded: &Loaded, registry: &Registry, files: &[PolicyFile]) -> Result<Policies, Vec<Finding>> {
    let tools = tools(registry);
    Policies::load(files, Vocabulary { tools: &tools, awaited: &awaited(loaded) })
}

/// All tools that are here, and the one that stands for events from outside.
pub fn tools(registry: &Registry) -> Vec<Tool> {
    let listed = registry.list(&Filter::default()).into_iter().map(|registered| registered.tool);
    listed.chain([helve::hooks::raise_definition().clone()]).collect()
}

/// Namespaces of servers, connected or not.
fn awaited(loaded: &Loaded) -> Vec<String> {
    let servers = mcp::configured(loaded);
    servers.iter().map(|one| one.config.namespace(&one.name).to_string()).collect()
}

/// The text of the files that the configuration names.
pub fn read(loaded: &Loaded) -> Result<Vec<PolicyFile>, HostError> {
    let read = |PolicyPath { path, narrows, waits }: &PolicyPath| {
        if *waits {
            return Err(HostError::usage(format!("the policies in {} are not read", short(path)))
                .detail("they lie outside of the project that names them, and nobody has trusted that")
                .hint("`helve trust` shows where they lie, and asks"));
        }
        let text = read_file(path)?;
        let name = short(path);
        Ok(if *narrows { PolicyFile::narrowing(name, text) } else { PolicyFile::new(name, text) })
    };
    loaded.policy_files.iter().map(read).collect()
}

/// The text of one file of policies.
pub fn read_file(path: &Path) -> Result<String, HostError> {
    let unreadable = |why: &str| {
        HostError::usage(format!("the policies in {} cannot be read", short(path)))
            .detail(why)
            .hint("`helve config show policy` says which file names it")
    };
    // Opening a pipe would wait for a writer.
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Err(unreadable("it is not a file")),
        Ok(_) => {}
        Err(error) => return Err(unreadable(&error.to_string())),
    }
    let file = std::fs::File::open(path).map_err(|error| unreadable(&error.to_string()))?;
    let mut text = String::new();
    file.take(limits::BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(&error.to_string()))?;
    // Some editors begin with a mark that says nothing here.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
