//! What is Helve's own, and every name that leads to it.
//!
//! One place says it, for boxes and for everything else that writes files on behalf of an agent: a link that is
//! replaced is as good as a file that is changed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;

/// How many links are followed, as in the kernel.
const LINKS_MAX: usize = 40;

/// Files and folders that no program and no tool changes, whatever else was granted: what Helve is told to
/// do. Clones share one list, which only grows: what is added holds at once for those that run already,
/// and what once judged a tool may be in use somewhere for as long as the process lives.
#[derive(Debug, Clone, Default)]
pub struct Unwritable(Arc<ArcSwap<BTreeSet<PathBuf>>>);

impl Unwritable {
    /// Adds files and folders. One that is not there yet counts from the moment it is.
    pub fn add(&self, paths: impl IntoIterator<Item = PathBuf>) {
        let paths: BTreeSet<_> = paths.into_iter().collect();
        if !paths.is_subset(&self.0.load()) {
            self.0.rcu(|known| known.union(&paths).cloned().collect::<BTreeSet<_>>());
        }
    }

    /// The way to each of them, as it is at this moment.
    pub fn ways(&self) -> Vec<Way> {
        self.0.load().iter().map(|path| Way::to(path)).collect()
    }
}

impl FromIterator<PathBuf> for Unwritable {
    fn from_iter<I: IntoIterator<Item = PathBuf>>(paths: I) -> Self {
        let list = Self::default();
        list.add(paths);
        list
    }
}

/// How a path leads to a file. Each part of it is a name in a folder whose own path has no links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The links that are followed, in order.
    pub links: Vec<PathBuf>,
    /// Where they lead; there need be nothing.
    pub end: PathBuf,
}

impl Way {
    /// Follows a path. A relative one starts at the current folder.
    pub fn to(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut way = Self { links: Vec::new(), end: PathBuf::new() };
        let mut ahead = parts(&path);
        while let Some(part) = ahead.pop() {
            match part {
                Part::Root => way.end = PathBuf::from("/"),
                Part::Up => drop(way.end.pop()),
                Part::Name(name) => {
                    let here = way.end.join(name);
                    match fs::read_link(&here) {
                        Ok(target) if way.links.len() < LINKS_MAX => {
                            ahead.extend(parts(&target));
                            way.links.push(here);
                        }
                        // It is no link, there is nothing, or it leads in a circle.
                        Ok(_) | Err(_) => way.end = here,
                    }
                }
            }
        }
        way
    }

    /// Every name whose change would let the path lead to something else.
    pub fn names(&self) -> impl Iterator<Item = &Path> {
        self.links.iter().chain([&self.end]).map(PathBuf::as_path)
    }
}

enum Part {
    Root,
    Up,
    Name(OsString),
}

/// The parts of a path, the first one last.
fn parts(path: &Path) -> Vec<Part> {
    let part = |component: Component<'_>| match component {
        Component::RootDir | Component::Prefix(_) => Some(Part::Root),
        Component::ParentDir => Some(Part::Up),
        Component::Normal(name) => Some(Part::Name(name.to_owned())),
        Component::CurDir => None,
    };
    path.components().rev().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_on_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::write(root.join("real/deep/file"), "").unwrap();
        symlink("real", root.join("a")).unwrap();
        symlink("../a/deep/file", root.join("real/b")).unwrap();
        symlink(root.join("a/b"), root.join("c")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let check = |path: &str, links: &[&str], end: &str| {
            let way = Way::to(&root.join(path));
            let links: Vec<_> = links.iter().map(|link| root.join(link)).collect();
            assert_eq!(way, Way { links, end: root.join(end) }, "{path}");
        };
        check("real/deep/file", &[], "real/deep/file");
        check("./real/../real//deep/file", &[], "real/deep/file");
        check("a/deep/file", &["a"], "real/deep/file");
        check("c", &["c", "a", "real/b", "a"], "real/deep/file");
        check("a/gone/x", &["a"], "real/gone/x");
        let circle = Way::to(&root.join("loop"));
        assert_eq!((circle.links.len(), circle.end), (LINKS_MAX, root.join("loop")));
    }

    #[test]
    fn clones_are_one_list_that_grows() {
        let one = Unwritable::from_iter([PathBuf::from("/a")]);
        let other = one.clone();
        other.add([PathBuf::from("/b"), PathBuf::from("/a")]);
        let ends: Vec<_> = one.ways().into_iter().map(|way| way.end).collect();
        assert_eq!(ends, [PathBuf::from("/a"), PathBuf::from("/b")]);
    }
}
