//! The tools that ship with Helve, set up as the configuration says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::{Tool, ToolBuilder};
use helve_office::tools::office_tools;
use helve_office::{Office, OfficeSettings};
use helve_sandbox::{Limits, Sandbox};
use helve_store::office::OfficeDb;
use helve_tools::code::{CodeOptions, code_tool};

use super::{journal, office, secret_files};
use crate::config::{Loaded, find};

/// Every tool that ships with Helve.
pub(super) fn builtin(loaded: &Loaded, sandbox: &Sandbox) -> Vec<Tool> {
    let mut tools = helve_tools::builtin_tools();
    tools.extend(files(loaded));
    tools.push(code(loaded, sandbox));
    tools
}

/// The same as they are without any configuration, for looking at and not for calling.
pub fn builtin_as_shipped() -> Vec<Tool> {
    let mut tools = helve_tools::builtin_tools();
    #[cfg(unix)]
    tools.extend(helve_tools::files::file_tools(
        &helve_tools::files::Files::builder(Default::default()).build(),
    ));
    tools.push(built(code_tool(CodeOptions::default(), Sandbox::default(), Limits::default())));
    let office = Office::new(OfficeDb::later(Path::new("office.db")), OfficeSettings::default());
    tools.extend(office_tools(&Arc::new(office)));
    tools
}

/// The tool that runs code.
fn code(loaded: &Loaded, sandbox: &Sandbox) -> Tool {
    let mut options = loaded.config.code.clone();
    for path in &mut options.read {
        *path = loaded.start_of("/code/read").join(&path);
    }
    options.sessions = Some(match options.sessions {
        Some(folder) => loaded.start_of("/code/sessions").join(folder),
        None => journal::beside(loaded, ".sessions"),
    });
    built(code_tool(options, sandbox.clone(), super::limits(&loaded.config)))
}

fn built(builder: ToolBuilder) -> Tool {
    builder.build().expect("a test builds every built-in tool")
}

/// What Helve keeps for itself, and no tool reads or writes. Our own folder as a whole; in another's,
/// what is ours; and wherever they are, files that secrets are taken from.
pub(super) fn own_files(loaded: &Loaded) -> Vec<PathBuf> {
    let mut own: Vec<PathBuf> = find::state_dir().into_iter().collect();
    own.extend(secret_files::all(loaded));
    own.extend(office::files(loaded));
    if loaded.is_set("/journal/path") {
        own.extend(journal::files(loaded));
        own.push(loaded.journal_path.with_file_name("token"));
        return own;
    }
    own.extend(loaded.journal_path.parent().map(Path::to_owned));
    own
}

/// The folders that file tools may use.
pub(super) fn roots(loaded: &Loaded) -> Vec<PathBuf> {
    let folder = roots_start_at(loaded);
    loaded.config.files.roots.iter().map(|root| folder.join(root.path())).collect()
}

/// Where relative roots start. Where nobody names a root it is the project's folder, or without a project
/// the one that all of this was loaded for.
fn roots_start_at(loaded: &Loaded) -> &Path {
    match loaded.is_set("/files/roots") {
        true => loaded.start_of("/files/roots"),
        false => loaded.folder(),
    }
}

/// The file tools, over the roots that are configured; none where there are no roots.
#[cfg(unix)]
fn files(loaded: &Loaded) -> Vec<Tool> {
    use helve_tools::files::{Files, file_tools};

    if loaded.config.files.roots.is_empty() {
        return Vec::new();
    }
    let config = loaded.config.files.clone().relative_to(roots_start_at(loaded));
    let mut builder = Files::builder(config).backups(journal::beside(loaded, ".backups"));
    for path in own_files(loaded) {
        builder = builder.private(path);
    }
    file_tools(&builder.unwritable(super::judges::unwritable(loaded)).build())
}

#[cfg(not(unix))]
fn files(_: &Loaded) -> Vec<Tool> {
    Vec::new()
}
