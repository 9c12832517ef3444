//! What no tool changes, wherever it lies: what says which tools there are, what they may do, who checks
//! that, and what runs without a box.
//!
//! INVARIANT: whatever of this Helve takes up is on the list before it counts; file tools, downloads and
//! boxes share the one list, and ask it at every write and every start.

use std::path::{Path, PathBuf};

use helve_sandbox::{Sandbox, Unwritable};

use super::{brought, builtin, hooks, mcp};
use crate::config::{Loaded, find};

/// The list, with all that this configuration names.
pub fn unwritable(loaded: &Loaded) -> Unwritable {
    // The user's file counts from the next start on, so nobody else makes it either.
    let files = loaded.project_file.iter().chain(&loaded.user_file).cloned().chain(find::user_file());
    let policies = loaded.policy_files.iter().map(|policy| policy.path.clone());
    let scripts = hooks::scripts(loaded).into_iter().chain(brought::scripts(loaded));
    let files = files.chain(policies).chain(scripts).chain(mcp::scripts(loaded));
    loaded.unwritable.add(files.chain(of_git(loaded)));
    loaded.unwritable.clone()
}

/// What git starts by itself, as its user and without a box: hooks, and commands in its configuration. All of
/// `.git`, because a file in it (`commondir`), or the file that `.git` is in a worktree, says where git finds
/// those. A clone brings none of it, and a tool that may write there must not either.
fn of_git(loaded: &Loaded) -> impl Iterator<Item = PathBuf> {
    let folders = [loaded.folder().to_owned(), loaded.work_dir.clone()].into_iter();
    folders.chain(builtin::roots(loaded)).map(|folder| folder.join(".git"))
}

/// The files that a program without a box is made of, as far as its words name them: what another tool
/// could change, or put where nothing is yet, would run with all that the user may do.
pub(super) fn scripts_of(command: &Path, args: &[String], folder: &Path) -> Vec<PathBuf> {
    let program = Sandbox::default().locate(command).unwrap_or_else(|_| folder.join(command));
    let words = args.iter().flat_map(|word| {
        let whole = (!word.starts_with('-')).then_some(word.as_str());
        whole.into_iter().chain(word.split_once('=').map(|(_, value)| value))
    });
    let named = words.filter_map(|word| {
        let file = folder.join(word);
        // Where nothing is, a plain word is a name for something else: what to build, whom to greet.
        let is_awaited = || word.contains(['/', '.']) && !file.exists();
        (file.is_file() || is_awaited()).then_some(file)
    });
    std::iter::once(program).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_is_made_of_is_found_in_its_words() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        for name in ["plain", "sub/a.sh"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |command: &str, args: &[&str]| {
            let args: Vec<_> = args.iter().map(|&word| word.to_owned()).collect();
            let found = scripts_of(Path::new(command), &args, folder.path());
            let shown =
                |path: PathBuf| path.strip_prefix(folder.path()).unwrap_or(&path).display().to_string();
            found.into_iter().map(shown).collect::<Vec<_>>()
        };
        let sh = Sandbox::default().locate(Path::new("sh")).unwrap().display().to_string();
        let cases: [(&[&str], &[&str]); 7] = [
            (&["plain"], &["plain"]),
            (&["sub/a.sh", "sub", "."], &["sub/a.sh"]),
            (&["gen/run.py"], &["gen/run.py"]),
            (&["run.py"], &["run.py"]),
            (&["deploy", "--now", "-v", ""], &[]),
            (&["--file=plain", "--rules=gone.json", "-x=1"], &["plain", "gone.json"]),
            (&["/gone/for/good"], &["/gone/for/good"]),
        ];
        for (args, expected) in cases {
            assert_eq!(found("sh", args)[1..], *expected, "{args:?}");
            assert_eq!(found("sh", args)[0], sh);
        }
        assert_eq!(found("gone/program", &[]), ["gone/program"]);
    }
}
