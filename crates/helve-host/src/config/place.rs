//! The project's own folder, and where paths in its files lead.

use std::fmt;
use std::path::{Path, PathBuf};

use helve_sandbox::Way;

use super::load::expand_home;

/// The folder of a project's file, links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnFolder(PathBuf);

impl OwnFolder {
    pub(crate) fn of(file: &Path) -> Self {
        Self(Way::to(file.parent().unwrap_or(Path::new("/"))).end)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a path without links lies in it. A folder that holds the user's home is not the project's
    /// own, and nothing does.
    fn has(&self, end: &Path) -> bool {
        let home = std::env::home_dir().map(|home| Way::to(&home).end);
        end.starts_with(&self.0) && !home.is_some_and(|home| home.starts_with(&self.0))
    }

    /// Where a path leads at this moment. A relative one starts here.
    pub(crate) fn lead(&self, named: &Path) -> Lead {
        let end = Way::to(&self.0.join(expand_home(named))).end;
        Lead { named: named.to_owned(), is_inside: self.has(&end), end }
    }
}

/// A path as a file has it, and where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    pub named: PathBuf,
    /// The path with all links followed.
    pub end: PathBuf,
    /// Whether that is in the project's own folder.
    pub(crate) is_inside: bool,
}

impl fmt::Display for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { named, end, .. } = self;
        match named == end {
            true => write!(f, "{}", end.display()),
            false => write!(f, "{} -> {}", named.display(), end.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_inside_where_it_leads_and_not_where_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("project/real")).unwrap();
        std::os::unix::fs::symlink(&root, root.join("project/out")).unwrap();
        std::os::unix::fs::symlink("real", root.join("project/in")).unwrap();
        let own = OwnFolder::of(&root.join("project/helve.toml"));
        for (named, is_inside) in [
            (".", true),
            ("real/new", true),
            ("in", true),
            ("out", false),
            ("out/project", true),
            ("..", false),
            ("out/x", false),
            ("~/x", false),
            ("/etc", false),
        ] {
            assert_eq!(own.lead(Path::new(named)).is_inside, is_inside, "{named}");
        }
        let lead = own.lead(Path::new("out"));
        assert_eq!(lead.to_string(), format!("out -> {}", root.display()));
    }
}
