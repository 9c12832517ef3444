//! One journal for a folder: a project that comes to a folder in which a `helve up` runs already goes on with the
//! journal of that server.
//!
//! INVARIANT: it is this machine that says so, in its own state and never in the project: what came with a folder
//! must not choose the journal of the person who works there.

use std::path::{Path, PathBuf};

use super::{find, rules};
use crate::running;

/// The journal that a project goes on with, if it is not one of its own.
pub(super) fn journal(project_file: &Path) -> Option<PathBuf> {
    let folder = project_file.parent()?;
    if let Some(kept) = kept(folder) {
        return Some(kept);
    }
    // Calls were recorded here before: nobody must look for them elsewhere.
    if find::project_journal(folder).exists() {
        return None;
    }
    let journal = find::user_journal()?;
    let note = running::note(&journal)?;
    let found = find::project_file(&note.work_dir).ok()??;
    let is_same = found.canonicalize().ok()? == project_file.canonicalize().ok()?;
    is_same.then_some(journal)
}

/// Whether this machine knows the project: its user made it here, or decided something about it. What came to the
/// folder in another way is not known, and neither is what a program in a box wrote.
pub fn is_known(project_file: &Path) -> bool {
    project_file.parent().and_then(find::local_file).is_some_and(|file| file.is_file())
}

/// What this machine has written down.
pub fn kept(folder: &Path) -> Option<PathBuf> {
    rules::of_machine(&find::local_file(folder)?).ok()?.journal
}
