//! The journal's files: which they are, and that none came with a folder.

use std::path::{Path, PathBuf};

use helve_sandbox::Way;
use helve_store::{Audit, SigningKey, Store, StoreError, StoreOptions};

use toml_edit::{DocumentMut, value};

use super::hooks;
use crate::config::file;
use crate::config::origin::short;
use crate::config::{Loaded, adopted, find};
use crate::error::HostError;

/// What stands next to the database, each under its name and this.
const BESIDE: [&str; 13] = [
    "-wal",
    "-shm",
    "-journal",
    ".head",
    ".reserve",
    ".owners",
    ".backups",
    ".sessions",
    ".key",
    ".before",
    ".restoring",
    // As it was before its format changed.
    ".format-1",
    ".format-2",
];

/// A file or folder next to the database.
pub(super) fn beside(loaded: &Loaded, ending: &str) -> PathBuf {
    let mut path = loaded.journal_path.clone().into_os_string();
    path.push(ending);
    path.into()
}

/// The database and all that stands next to it, there or not.
pub(super) fn files(loaded: &Loaded) -> impl Iterator<Item = PathBuf> {
    std::iter::once("").chain(BESIDE).map(|ending| beside(loaded, ending))
}

/// Opens the journal's file, and makes it where there is none.
pub fn open_store(loaded: &Loaded) -> Result<Store, HostError> {
    refuse_brought(loaded)?;
    let path = &loaded.journal_path;
    let store = Store::open(path, StoreOptions::default()).map_err(|error| {
        HostError::failed("the journal cannot be used, and without a record no tool runs")
            .because(&error)
            .hint("name another file: `--set journal.path=FILE`, or in helve.toml")
    })?;
    if loaded.is_in_project() {
        keep_out_of_git(path);
    }
    tell_key(&store);
    Ok(store)
}

/// Makes the folder of this machine's own files, the token and the key, where the ledger itself is a database.
pub(super) fn make_folder(loaded: &Loaded) -> Result<(), HostError> {
    refuse_brought(loaded)?;
    let Some(folder) = loaded.journal_path.parent() else { return Ok(()) };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| {
        HostError::failed(format!("cannot make the folder {}", short(folder))).because(&error)
    })?;
    if loaded.is_in_project() {
        keep_out_of_git(&loaded.journal_path);
    }
    Ok(())
}

/// Tells the journal which key signs for it, where there is one. A key that was replaced is for `helve audit
/// verify` to report: calls run without it.
fn tell_key(store: &Store) {
    if !SigningKey::path(store.path()).exists() {
        return;
    }
    match SigningKey::open(store.path()) {
        Ok(key) => store.tell_key(&key.verifying()),
        Err(error) => tracing::warn!(%error, "the journal's key cannot be used"),
    }
}

/// Writes down that the project goes on with the user's journal, where it does because a `helve up` uses that in
/// its folder: it goes on with it when that server has ended. Says whether it does.
pub fn keep_adopted(loaded: &Loaded) -> Result<bool, HostError> {
    let folder = loaded.project_file.as_deref().and_then(Path::parent);
    let Some(folder) = folder.filter(|_| loaded.is_adopted()) else { return Ok(false) };
    if adopted::kept(folder).is_none()
        && let Some(local) = find::local_file(folder)
    {
        file::change(&local, |text| {
            let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
                HostError::usage(format!("{} is not valid TOML", short(&local))).because(&error)
            })?;
            document["project"] = value(folder.join(find::FILE_NAME).display().to_string());
            document["journal"] = value(loaded.journal_path.display().to_string());
            Ok(document.to_string())
        })?;
    }
    Ok(true)
}

/// The journal that has calls from before the project, or from outside of it, where that is another one.
pub fn outside(loaded: &Loaded) -> Option<PathBuf> {
    if loaded.has_database() {
        return None;
    }
    loaded.project_file.as_ref()?;
    let same = |user: &Path| Way::to(user).end == Way::to(&loaded.journal_path).end;
    find::user_journal().filter(|user| user.exists() && !same(user))
}

/// The file of the record, for who only reads it. One that came with a folder is not even read: SQLite would
/// take its log into the database.
pub fn open_audit(loaded: &Loaded) -> Result<Result<Audit, StoreError>, HostError> {
    refuse_brought(loaded)?;
    Ok(Audit::open(&loaded.journal_path))
}

/// A journal that came with a folder is not used: approvals, keys and rules in it would count as if its
/// user had given them. Helve makes files that only its user can read, and a checkout does not. That holds
/// for each of them: a log of the database's alone is as good as another database, and a repository can
/// bring one to where a journal is already.
pub fn refuse_brought(loaded: &Loaded) -> Result<(), HostError> {
    if !loaded.journal_is_foreign() {
        return Ok(());
    }
    let refuse = |file: &Path, why: &str, way_out: String| {
        let refusal = format!("the journal's {} did not come from Helve: {why}", short(file));
        Err(HostError::denied(refusal)
            .detail("what came with a folder could hold approvals and keys that nobody here gave")
            .hint(way_out))
    };
    // Another folder's journal could have approvals that were meant for that folder.
    let project = hooks::folder(loaded);
    let way = Way::to(&loaded.journal_path);
    if let Some(link) = way.links.iter().find(|link| link.starts_with(&project)) {
        return refuse(link, "it is a link", "delete it, and Helve makes a journal of its own".to_owned());
    }
    match files(loaded).find(|file| !is_private(file)) {
        Some(file) => {
            let shown = short(&file);
            let way_out = format!(
                "delete it and what lies next to it, and Helve makes a new one; if it is yours: `chmod go= {shown}`"
            );
            refuse(&file, "others can read it, or it belongs to another", way_out)
        }
        None => Ok(()),
    }
}

/// Whether a file or folder is this user's alone, or not there.
#[cfg(unix)]
fn is_private(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::symlink_metadata(file) {
        Ok(found) => {
            let is_plain = found.is_file() || found.is_dir();
            is_plain && found.mode() & 0o077 == 0 && found.uid() == rustix::process::geteuid().as_raw()
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

#[cfg(not(unix))]
fn is_private(_: &Path) -> bool {
    true
}

/// What was said to tools should not be committed by accident. Failing at that is no reason not
/// to run one.
fn keep_out_of_git(journal: &Path) {
    let ignore = journal.with_file_name(".gitignore");
    if !ignore.exists()
        && let Err(error) = std::fs::write(&ignore, "*\n")
    {
        tracing::warn!(%error, "cannot write .gitignore next to the journal");
    }
}
