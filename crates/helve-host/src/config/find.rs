//! Where files are looked for: configuration, and the journal where nobody says.

use std::path::{Path, PathBuf};

use super::origin::short;
use crate::error::HostError;

/// The name of a configuration file.
pub const FILE_NAME: &str = "helve.toml";

/// The user's own file, whether it exists or not.
pub fn user_file() -> Option<PathBuf> {
    base_dir("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("helve").join(FILE_NAME))
}

/// The project's file: the nearest one from `start` upward, not beyond the repository.
pub fn project_file(start: &Path) -> Result<Option<PathBuf>, HostError> {
    for dir in start.ancestors() {
        let file = dir.join(FILE_NAME);
        if is_there(&file)? {
            refuse_strangers(&file)?;
            return Ok(Some(file));
        }
        if dir.join(".git").exists() {
            break;
        }
    }
    Ok(None)
}

/// Whether there is a configuration file. What has its name and is no file is an error: it
/// is meant to be read.
pub fn is_there(file: &Path) -> Result<bool, HostError> {
    if file.is_file() {
        return Ok(true);
    }
    let Ok(found) = std::fs::symlink_metadata(file) else { return Ok(false) };
    let what = if found.is_symlink() {
        "it is a symbolic link that leads to no file"
    } else if found.is_dir() {
        "it is a folder"
    } else {
        "it is not a regular file"
    };
    Err(HostError::usage(format!("cannot read {}", short(file)))
        .detail(what)
        .hint("remove it, or name another file: `--config FILE`"))
}

/// The journal of a user without a project.
pub fn user_journal() -> Option<PathBuf> {
    base_dir("XDG_STATE_HOME", ".local/state").map(|dir| dir.join("helve").join("helve.db"))
}

/// Where Helve keeps what it knows about MCP servers: trust, pins, logins, logs. Never in a project:
/// what came with a project must not say that it is trusted.
pub(crate) fn mcp_state() -> Option<PathBuf> {
    base_dir("XDG_STATE_HOME", ".local/state").map(|dir| dir.join("helve").join("mcp"))
}

/// All that Helve keeps for a user outside of projects: the folder around the others.
pub(crate) fn state_dir() -> Option<PathBuf> {
    base_dir("XDG_STATE_HOME", ".local/state").map(|dir| dir.join("helve"))
}

/// What this machine alone knows of a project. Not in the project: what came with it must not say
/// that it is trusted.
pub(crate) fn local_file(project_dir: &Path) -> Option<PathBuf> {
    let real = project_dir.canonicalize().unwrap_or_else(|_| project_dir.to_owned());
    // Written so that two paths never become one, UTF-8 or not.
    let name = &helve::json::sha256_hex(format!("{real:?}").as_bytes())[..32];
    let state = base_dir("XDG_STATE_HOME", ".local/state")?;
    Some(state.join("helve").join("projects").join(format!("{name}.toml")))
}

/// The journal of a project.
pub(crate) fn project_journal(project_dir: &Path) -> PathBuf {
    project_dir.join(".helve").join("helve.db")
}

/// Where things are kept that can be fetched again.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    base_dir("XDG_CACHE_HOME", ".cache").map(|dir| dir.join("helve"))
}

fn base_dir(variable: &str, below_home: &str) -> Option<PathBuf> {
    // The XDG rule: a relative path is invalid and ignored.
    let named = std::env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
    named.or_else(|| std::env::home_dir().map(|home| home.join(below_home)))
}

/// A file that another user put in a shared folder above us would decide what our tools run.
#[cfg(unix)]
fn refuse_strangers(file: &Path) -> Result<(), HostError> {
    use std::os::unix::fs::MetadataExt;
    let owner = std::fs::metadata(file)
        .map_err(|error| HostError::usage(format!("cannot read {}", file.display())).because(&error))?
        .uid();
    if owner == 0 || owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(HostError::usage(format!("{} belongs to another user", file.display()))
        .detail("its tools would run as you, so it is not used unasked")
        .hint(format!("if you trust it: `--config {}`", file.display())))
}

#[cfg(not(unix))]
fn refuse_strangers(_file: &Path) -> Result<(), HostError> {
    Ok(())
}
