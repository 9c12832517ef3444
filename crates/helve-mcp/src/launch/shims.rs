//! From a shim of pyenv to the program that it starts.
//!
//! A shim is a script that asks pyenv which version to use. No box has pyenv, and a shim that fails there names
//! pyenv's own files, one after the other. What it would find can be read from files.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Machine, is_program};

/// Most that is read of a file that names versions.
const VERSIONS_BYTES_MAX: u64 = 4_096;

/// The program behind a shim; nothing where `program` is no shim, or nothing is behind it. `folder` is where the
/// program starts: a `.python-version` there or above it comes first.
pub(super) fn behind(program: &Path, folder: Option<&Path>, machine: &Machine) -> Option<PathBuf> {
    let shims = program.parent().filter(|folder| folder.ends_with("shims"))?;
    let versions = shims.parent()?.join("versions");
    if !versions.is_dir() {
        return None;
    }
    let name = program.file_name()?;
    let of_version = |version: &String| match version.as_str() {
        // The first that is not a shim.
        "system" => machine.find_beyond(name, shims),
        version => installed(&versions, version).map(|folder| folder.join("bin").join(name)),
    };
    let chosen = chosen(folder, shims.parent()?);
    chosen.iter().filter_map(of_version).find(|file| is_program(file))
}

/// The versions that the nearest file names; without any, pyenv takes the system's.
fn chosen(folder: Option<&Path>, root: &Path) -> Vec<String> {
    let near = folder.into_iter().flat_map(Path::ancestors).map(|folder| folder.join(".python-version"));
    let mut named = near.chain([root.join("version")]).filter_map(|file| named_in(&file));
    named.find(|versions| !versions.is_empty()).unwrap_or_else(|| vec!["system".to_owned()])
}

fn named_in(file: &Path) -> Option<Vec<String>> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(file).ok()?.take(VERSIONS_BYTES_MAX).read_to_string(&mut text).ok()?;
    let words = text.lines().filter_map(|line| line.split('#').next()).flat_map(str::split_whitespace);
    Some(words.map(str::to_owned).collect())
}

/// The folder of a version. `3.12` means the newest 3.12 that is installed.
fn installed(versions: &Path, version: &str) -> Option<PathBuf> {
    // A version is a name, and leads nowhere else.
    if version.contains('/') || version.starts_with('.') {
        return None;
    }
    let exact = versions.join(version);
    if exact.is_dir() {
        return Some(exact);
    }
    let number =
        |name: &str| name.split('.').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>();
    let names =
        fs::read_dir(versions).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let fitting = names.filter(|name| name.strip_prefix(version).is_some_and(|rest| rest.starts_with('.')));
    let newest = fitting.filter_map(|name| Some((number(&name)?, name))).max()?;
    Some(versions.join(newest.1))
}
