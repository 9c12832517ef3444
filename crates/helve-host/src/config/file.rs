//! Changing a helve.toml: its comments stay, and it is replaced in one step.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use toml_edit::DocumentMut;

use crate::config::origin::short;
use crate::config::{Loaded, find};
use crate::error::HostError;

/// The file to write to: the person's own, or the project's, which is here where there is none yet.
pub fn target(loaded: &Loaded, user: bool, work_dir: &Path) -> Result<PathBuf, HostError> {
    if !user {
        return Ok(loaded.project_file.clone().unwrap_or_else(|| work_dir.join(find::FILE_NAME)));
    }
    find::user_file().ok_or_else(|| {
        HostError::usage("you have no configuration folder: neither HOME nor XDG_CONFIG_HOME is set")
    })
}

/// Changes a file. One that is not there is made.
pub(crate) fn change(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, HostError>,
) -> Result<(), HostError> {
    try_change(path, change)
}

/// The same for a change that fails in words of its own.
pub fn try_change<E: From<HostError>>(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, E>,
) -> Result<(), E> {
    let refuse =
        |error: std::io::Error| HostError::failed(format!("cannot write {}", short(path))).because(&error);
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => {
            let unreadable = HostError::failed(format!("cannot read {}", short(path)));
            return Err(unreadable.because(&error).into());
        }
    };
    let changed = change(&text)?;
    // A link to the file stays one.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = real.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(refuse)?;
    let new = real.with_extension(format!("toml.{}.new", std::process::id()));
    let written = write(&new, &changed, &real).and_then(|()| fs::rename(&new, &real));
    written.map_err(|error| {
        // Nobody misses a file that was not made.
        let _ = fs::remove_file(&new);
        refuse(error).into()
    })
}

/// Takes the comments that end a document, so that they stay behind what they were written for when
/// something new comes last.
pub fn take_ending(document: &mut DocumentMut) -> String {
    let ending = document.trailing().as_str().unwrap_or_default().to_owned();
    document.set_trailing("");
    ending
}

fn write(new: &Path, text: &str, like: &Path) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(new)?;
    if let Ok(metadata) = fs::metadata(like) {
        file.set_permissions(metadata.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
