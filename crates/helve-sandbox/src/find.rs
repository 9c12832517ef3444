//! From a command to the file that runs.

use std::fs;
use std::path::{Component, Path, PathBuf};

use helve_core::ports::LaunchError;
use rustix::fs::{Access, access};

/// The executable that `command` names: an absolute path as it stands, a bare name as found in
/// the folders of `path`.
pub(crate) fn find(command: &Path, path: &[PathBuf]) -> Result<PathBuf, LaunchError> {
    let refuse = |reason: String| LaunchError { command: command.to_owned(), reason };
    if command.is_absolute() {
        return check(command).map(|()| command.to_owned()).map_err(refuse);
    }
    if !is_bare_name(command) {
        // Relative to what? Helve's own folder differs between a terminal and a service.
        return Err(refuse("the path is relative; give the full path or a bare name".to_owned()));
    }
    let mut unfit = None;
    for folder in path {
        let file = folder.join(command);
        match check(&file) {
            Ok(()) => return Ok(file),
            Err(reason) if file.is_file() => unfit = unfit.or(Some(reason)),
            Err(_) => {}
        }
    }
    // Each once: a user's own `PATH` often has the usual ones, too.
    let mut folders: Vec<String> = Vec::new();
    for folder in path.iter().map(|folder| folder.display().to_string()) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let absent =
        || format!("no such program in {}; install it there or give its full path", folders.join(", "));
    Err(refuse(unfit.unwrap_or_else(absent)))
}

fn is_bare_name(command: &Path) -> bool {
    // `components` forgets a trailing slash, so compare with the whole.
    matches!(command.components().next(), Some(Component::Normal(first)) if first == command.as_os_str())
}

fn check(file: &Path) -> Result<(), String> {
    let metadata = fs::metadata(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file; check the path".to_owned(),
        _ => format!("the file cannot be looked at: {error}"),
    })?;
    if !metadata.is_file() {
        return Err("it is not a file; give the program itself".to_owned());
    }
    let shown = file.display();
    access(file, Access::EXEC_OK)
        .map_err(|_| format!("`{shown}` is not executable; try `chmod +x '{shown}'`"))
}
