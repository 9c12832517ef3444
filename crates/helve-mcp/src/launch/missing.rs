//! What a server that did not start was not granted, read out of its last words.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::ServerConfig;

/// Something that a server's box does not let it do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Read a file or a folder.
    Read(PathBuf),
    /// Change a file or a folder.
    Write(PathBuf),
    /// Reach a host.
    Network(String),
}

impl fmt::Display for Grant {
    /// As the flag that gives it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path) => write!(f, "--read {}", quoted(&path.display().to_string())),
            Self::Write(path) => write!(f, "--write {}", quoted(&path.display().to_string())),
            Self::Network(host) => write!(f, "--network {}", quoted(host)),
        }
    }
}

fn quoted(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// What a confined server lacked, by what it wrote. What it writes is no order: nothing is granted by this, and
/// the person sees what they would give.
pub fn missing(config: &ServerConfig, words: &[String]) -> Vec<Grant> {
    const GRANTS_MAX: usize = 4;
    if !config.confined || config.command.is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for line in words {
        let grant = path_lacked(config, line).or_else(|| host_lacked(line));
        if let Some(grant) = grant.filter(|grant| !found.contains(grant) && found.len() < GRANTS_MAX) {
            found.push(grant);
        }
    }
    found
}

fn path_lacked(config: &ServerConfig, line: &str) -> Option<Grant> {
    let says = |words: &[&str]| words.iter().any(|word| line.contains(word));
    let is_unwritable = says(&["Read-only file system", "EROFS", "readonly database"]);
    let is_unseen = says(&[
        "No such file",
        "ENOENT",
        "Permission denied",
        "PermissionError",
        "EACCES",
        "EPERM",
        "not found",
        "can't open",
        "cannot open",
        "unable to open",
        "does not exist",
        "Cannot find module",
    ]);
    if !is_unwritable && !is_unseen {
        return None;
    }
    let path = paths(line).find(|path| path.exists() || path.parent().is_some_and(Path::is_dir))?;
    let is_in = |list: &[PathBuf]| list.iter().any(|folder| path.starts_with(folder));
    let is_shown = is_in(&config.read) || config.cwd.as_ref().is_some_and(|cwd| path.starts_with(cwd));
    match (is_in(&config.write), is_unwritable || is_shown, path.exists()) {
        (true, ..) => None,
        (false, true, true) => Some(Grant::Write(path)),
        // What is not there yet is to be made, so its folder changes.
        (false, _, false) => path.parent().map(|folder| Grant::Write(folder.to_owned())),
        (false, false, true) => Some(Grant::Read(path)),
    }
}

/// The absolute paths in a line.
fn paths(line: &str) -> impl Iterator<Item = PathBuf> {
    let is_end = |c: char| c.is_whitespace() || "'\"`(),;<>[]{}".contains(c);
    let words = line.split(is_end).map(|word| word.trim_end_matches([':', '.']));
    words.filter(|word| word.len() > 1 && word.starts_with('/')).map(PathBuf::from)
}

fn host_lacked(line: &str) -> Option<Grant> {
    let signs = [
        "ENOTFOUND",
        "EAI_AGAIN",
        "getaddrinfo",
        "Name or service not known",
        "name resolution",
        "ECONNREFUSED",
        "Network is unreachable",
        "ENETUNREACH",
        "ConnectError",
        "Failed to establish a new connection",
    ];
    if !signs.iter().any(|sign| line.contains(sign)) {
        return None;
    }
    let is_end = |c: char| c.is_whitespace() || "'\"`(),;<>[]{}=".contains(c);
    let is_host = |word: &&str| {
        let name = word.rsplit_once(':').map_or(*word, |(name, _)| name);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        let ends_in_letters = name
            .rsplit('.')
            .next()
            .is_some_and(|end| end.len() > 1 && end.chars().all(|c| c.is_ascii_lowercase()));
        name.contains('.') && name.chars().all(is_name) && ends_in_letters
    };
    let words = line.split(is_end).map(|word| {
        let word = word.trim_start_matches("https://").trim_start_matches("http://");
        word.split('/').next().unwrap_or(word).trim_end_matches(['.', ':'])
    });
    let files = [".py", ".js", ".mjs", ".ts"];
    let host =
        words.into_iter().find(|word| is_host(word) && !files.iter().any(|end| word.ends_with(end)))?;
    Some(Grant::Network(if host.contains(':') { host.to_owned() } else { format!("{host}:443") }))
}
