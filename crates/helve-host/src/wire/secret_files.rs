//! Files that hold secrets and lie where their user put them: those of `--token-file`, those that accounts of the
//! office log in with, and those that the configuration takes secrets from.
//!
//! INVARIANT: no tool reads or writes one, from the moment Helve knows of it. Those that no configuration names are
//! remembered: a tool that reads a token file while nothing is served comes in with it later.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::mcp;
use crate::config::{Loaded, document, find};
use crate::error::HostError;

/// Most bytes of the list, and most files in it.
const LIST_BYTES_MAX: usize = 1 << 20;
const FILES_MAX: usize = 1_000;

/// All that this configuration names, and all files that were ever remembered and are still there.
pub(super) fn all(loaded: &Loaded) -> Vec<PathBuf> {
    let servers = mcp::configured(loaded);
    let of_servers = servers.iter().flat_map(|one| one.config.secret_files()).map(Path::to_owned);
    let of_traces = loaded.config.telemetry.headers.values().filter_map(|setting| setting.file());
    let of_traces = of_traces.map(|file| loaded.work_dir.join(file));
    let remembered = find::mcp_state().map(|state| read(&list(&state))).unwrap_or_default();
    of_servers.chain(of_traces).chain(remembered).collect()
}

/// Keeps a file with a secret from all tools of this user, now and later.
pub fn remember(file: &Path) -> Result<(), HostError> {
    let list = list(&mcp::state_folder()?);
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut files: BTreeSet<_> = read(&list).into_iter().filter(|known| known.exists()).collect();
    if !files.insert(file) {
        return Ok(());
    }
    // One too many is not worth serving less.
    while files.len() > FILES_MAX {
        files.pop_first();
    }
    write(&list, &files)
        .map_err(|error| HostError::failed(format!("cannot write {}", list.display())).because(&error))
}

fn list(state: &Path) -> PathBuf {
    state.join("token-files.json")
}

fn read(list: &Path) -> Vec<PathBuf> {
    let text = document::read_text(list, LIST_BYTES_MAX).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// In one step, so that nobody reads half of it.
fn write(list: &Path, files: &BTreeSet<PathBuf>) -> io::Result<()> {
    let new = list.with_extension(format!("{}.new", std::process::id()));
    fs::write(&new, serde_json::to_vec(files)?)?;
    fs::rename(&new, list)
}
