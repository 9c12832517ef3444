//! The file tools together, and what they share.

use std::path::PathBuf;
use std::sync::Arc;

use helve::{Annotations, Category, Source, Tool, ToolBuilder};
use helve_sandbox::Unwritable;

use super::backup::Backups;
use super::config::FilesConfig;
use super::root::{Own, Root, Roots};
use super::{edit, list, read, search, write};

/// What all file tools share: the roots, the limits, and where former contents are kept.
pub struct Files {
    pub(super) roots: Roots,
    pub(super) config: FilesConfig,
    pub(super) backups: Option<Backups>,
}

/// [`Files`] in the making.
pub struct FilesBuilder {
    config: FilesConfig,
    backups: Option<PathBuf>,
    own: Own,
}

impl Files {
    /// File tools over these roots. Relative ones start at the current folder.
    pub fn builder(config: FilesConfig) -> FilesBuilder {
        FilesBuilder { config, backups: None, own: Own::default() }
    }

    /// The largest former content that is kept for an undo.
    pub(super) fn kept_bytes_max(&self) -> u64 {
        self.backups.as_ref().map_or(0, |backups| {
            if backups.takes(KEPT_BYTES_MAX) { KEPT_BYTES_MAX } else { self.config.backup_bytes / 2 }
        })
    }
}

/// Larger files are replaced without a copy.
const KEPT_BYTES_MAX: u64 = 64 << 20;

impl FilesBuilder {
    /// Keeps former contents in this folder, so that changes can be undone. Without it they cannot.
    pub fn backups(mut self, folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        self.backups = Some(folder.clone());
        self.private(folder)
    }

    /// Keeps all file tools away from a file or folder, though it is below a root.
    pub fn private(mut self, path: impl Into<PathBuf>) -> Self {
        self.own.private.push(path.into());
        self
    }

    /// Lets these files be read, and not written, though they are below a root.
    pub fn unwritable(mut self, files: Unwritable) -> Self {
        self.own.unwritable = files;
        self
    }

    /// What the tools share.
    pub fn build(self) -> Arc<Files> {
        let Self { config, backups, own } = self;
        let roots = config.roots.iter().map(|root| Root::new(root.path(), root.is_read_only())).collect();
        let backups = backups.map(|folder| Backups::new(folder, config.backup_bytes));
        Arc::new(Files { roots: Roots::new(roots, own), config, backups })
    }
}

/// All file tools.
pub fn file_tools(files: &Arc<Files>) -> Vec<Tool> {
    let one_file = [read::tool(files), write::tool(files), edit::tool(files)];
    let all_below = [list::tool(files), search::tool(files)];
    let one_file = one_file.into_iter().map(|builder| common(builder, files, Means::OneFile));
    let all_below = all_below.into_iter().map(|builder| common(builder, files, Means::AllBelow));
    one_file.chain(all_below).map(|builder| builder.build().expect("a test builds every file tool")).collect()
}

/// What the path of a call means.
#[derive(Clone, Copy)]
enum Means {
    OneFile,
    /// A folder is all that is in it.
    AllBelow,
}

fn common(builder: ToolBuilder, files: &Arc<Files>, means: Means) -> ToolBuilder {
    let files = Arc::clone(files);
    // Written out for rules that deny or ask: the same file has a path from each root and one from `/`, and
    // a search of `secrets` looks at `secrets/*`.
    let spellings = move |text: &str| {
        let mut spellings = files.roots.spellings(text);
        if let Means::AllBelow = means {
            let folders: Vec<_> = spellings.iter().map(|path| format!("{path}/")).collect();
            spellings.extend(folders);
        }
        spellings
    };
    builder.source(Source::Builtin).category(Category::File).spellings(spellings)
}

/// For tools that look and do not touch.
pub(super) fn reads() -> Annotations {
    Annotations::pure()
}

/// For tools that change a file: what they overwrite can be brought back.
pub(super) fn writes() -> Annotations {
    Annotations { title: None, read_only: false, destructive: true, idempotent: false, open_world: false }
}
