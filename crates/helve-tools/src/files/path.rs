//! Paths as models write them.

use std::path::{Component, Path, PathBuf};

use helve::ToolError;

use crate::builtin::wrong_argument;

/// What Linux takes.
const PATH_BYTES_MAX: usize = 4_095;
const NAME_BYTES_MAX: usize = 255;
const NAMES_MAX: usize = 128;

/// A path of plain names: no `.`, no `..`, no NUL. Empty for a root itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GivenPath {
    /// To be looked for in the roots.
    Relative(PathBuf),
    /// To be found below one of them.
    Absolute(PathBuf),
}

impl GivenPath {
    /// Reads a path, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, ToolError> {
        let refuse = |problem: &str| Err(wrong_argument("path", "a path below a root", text, problem));
        if text.is_empty() {
            return refuse("it is empty; use `.` for the root folder");
        }
        if text.contains('\0') {
            return refuse("it contains a NUL character");
        }
        if text.len() > PATH_BYTES_MAX {
            return refuse(&format!("it is longer than {PATH_BYTES_MAX} bytes"));
        }
        let mut plain = PathBuf::new();
        let mut names = 0;
        for component in Path::new(text).components() {
            match component {
                Component::Normal(name) if name.len() > NAME_BYTES_MAX => {
                    return refuse(&format!("it has a name of more than {NAME_BYTES_MAX} bytes"));
                }
                Component::Normal(name) => plain.push(name),
                Component::RootDir | Component::Prefix(_) => plain.push(component),
                Component::CurDir => continue,
                // Not resolved here: what `..` means depends on links, and a plain path says the same.
                Component::ParentDir => {
                    return refuse("`..` is not used here; write the path from the root down");
                }
            }
            names += 1;
        }
        if names > NAMES_MAX {
            return refuse(&format!("it is nested deeper than {NAMES_MAX} folders"));
        }
        Ok(if plain.is_absolute() { Self::Absolute(plain) } else { Self::Relative(plain) })
    }
}

/// For the fuzz targets: a path as tools read it.
#[cfg(fuzzing)]
pub fn read_path(text: &str) -> Option<PathBuf> {
    match GivenPath::parse(text).ok()? {
        GivenPath::Relative(path) | GivenPath::Absolute(path) => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_are_read() {
        for (text, plain) in [
            ("a/b.txt", "a/b.txt"),
            ("./a//b.txt", "a/b.txt"),
            ("a/./b/", "a/b"),
            (".", ""),
            ("...", "..."),
            ("a\\b", "a\\b"),
            ("-rf", "-rf"),
            ("a\nb", "a\nb"),
        ] {
            assert_eq!(GivenPath::parse(text).unwrap(), GivenPath::Relative(plain.into()), "{text}");
        }
        assert_eq!(GivenPath::parse("//etc/./x").unwrap(), GivenPath::Absolute("/etc/x".into()));
    }

    #[test]
    fn what_is_no_path_is_refused_with_the_reason() {
        let (long, name, deep) = ("a/".repeat(3_000), "n".repeat(256), "a/".repeat(129));
        for (text, reason) in [
            ("", "empty"),
            ("a\0b", "NUL"),
            ("..", "`..`"),
            ("a/../b", "`..`"),
            ("/tmp/../etc", "`..`"),
            (long.as_str(), "longer"),
            (name.as_str(), "256"),
            (deep.as_str(), "deeper"),
        ] {
            let error = GivenPath::parse(text).unwrap_err();
            let reason = if reason == "256" { "255" } else { reason };
            assert!(error.message().contains(reason), "{error}");
            assert!(error.message().len() < 200, "{error}");
        }
    }
}
