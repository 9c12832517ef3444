//! What a command needs that its box does not give by itself, as far as its text says so.
//!
//! Claude Code runs hooks as the person, with all that they may do. Here each gets what it shows that
//! it needs, and the person who imports it sees what that is.

use std::path::{Path, PathBuf};

use helve::hook::HookEvent;

/// Files and folders, as a hook names them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Needs {
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
}

/// Where Claude Code keeps scripts of hooks.
const SCRIPTS: &str = "~/.claude/hooks";

pub(super) fn needs(event: &HookEvent, command: &str) -> Needs {
    let words = words(command);
    let mut write: Vec<_> = written(&words).filter_map(place).collect();
    // Hooks after a tool mend what it has done: formatters, generators, caches of linters.
    if *event == HookEvent::PostToolUse {
        write.push(PathBuf::from("."));
    }
    let read = words.iter().flat_map(|word| word.text.split(['=', ':'])).filter_map(home);
    let read = read.map(|rest| match rest.starts_with(".claude/hooks") {
        true => PathBuf::from(SCRIPTS),
        false => PathBuf::from(format!("~/{rest}")),
    });
    let mut read: Vec<_> = read.filter(|path| !write.contains(path)).collect();
    for list in [&mut read, &mut write] {
        list.sort();
        list.dedup();
    }
    Needs { read, write }
}

/// Endings of programs that others read.
const SCRIPT_ENDINGS: [&str; 9] = ["sh", "bash", "py", "js", "mjs", "ts", "rb", "pl", "jq"];

/// The scripts that a command is made of, also those that are not there yet. A tool that could write one would
/// be their own judge.
pub fn scripts(command: &str, folder: &Path) -> Vec<PathBuf> {
    let is_script = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        !path.is_dir() && (SCRIPT_ENDINGS.contains(&ending) || (path.is_file() && is_executable(path)))
    };
    let words = words(command).into_iter().filter(|word| !word.redirected);
    let named = words.filter_map(|word| {
        let at = [
            "$CLAUDE_PROJECT_DIR/",
            "${CLAUDE_PROJECT_DIR}/",
            "$HELVE_PROJECT_DIR/",
            "${HELVE_PROJECT_DIR}/",
        ];
        let rest = at.iter().find_map(|at| word.text.strip_prefix(at)).unwrap_or(&word.text).to_owned();
        Some(match home(&word.text) {
            Some(rest) => std::env::home_dir()?.join(rest),
            None => folder.join(rest),
        })
    });
    named.filter(|path| is_script(path)).collect()
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

/// A word of a command line, as a shell would see it.
#[derive(Debug, Default)]
struct Word {
    text: String,
    /// Whether `>` or `>>` stands before it.
    redirected: bool,
}

/// The words of a line. Quotes are taken off, and what they hold is one word.
fn words(command: &str) -> Vec<Word> {
    let (mut words, mut word) = (Vec::new(), Word::default());
    let mut quote = None;
    let mut end = |word: &mut Word, redirected: bool| {
        let ended = std::mem::replace(word, Word { redirected, ..Word::default() });
        if !ended.text.is_empty() {
            words.push(ended);
        } else if ended.redirected && !redirected {
            // Blanks between `>` and its target.
            word.redirected = true;
        }
    };
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.text.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '>') => end(&mut word, true),
            (None, c) if c.is_whitespace() => end(&mut word, false),
            (None, ';' | '|' | '&' | '(' | ')' | '<') if !word.text.ends_with('$') => {
                end(&mut word, false);
                word.redirected = false;
            }
            (None, c) => word.text.push(c),
        }
    }
    end(&mut word, false);
    words
}

/// What a line writes to: behind `>`, and what `tee` is given.
fn written(words: &[Word]) -> impl Iterator<Item = &str> {
    let tee = words.iter().position(|word| word.text == "tee").map_or(words.len(), |at| at + 1);
    let given =
        words[tee..].iter().take_while(|word| !word.redirected).find(|word| !word.text.starts_with('-'));
    let redirected = words.iter().filter(|word| word.redirected);
    redirected.chain(given).map(|word| word.text.as_str())
}

/// What to grant so that a target can be written.
fn place(target: &str) -> Option<PathBuf> {
    // What only a shell knows is left to the folder above.
    let known = match target.strip_prefix("$HOME").or(target.strip_prefix("${HOME}")) {
        Some(rest) => format!("~{rest}"),
        None => target.to_owned(),
    };
    let in_project =
        ["$CLAUDE_PROJECT_DIR", "${CLAUDE_PROJECT_DIR"].iter().any(|place| known.starts_with(place));
    if in_project {
        return Some(PathBuf::from("."));
    }
    let folder = match known.find(['$', '`', '*']) {
        Some(at) => known[..at].rfind('/').map(|end| known[..end].to_owned())?,
        None => known,
    };
    match folder.chars().next()? {
        '~' if folder.len() > 2 && folder.starts_with("~/") => Some(PathBuf::from(folder)),
        // A box has its own.
        '/' if ["/dev/", "/tmp", "/proc/"].iter().any(|own| folder.starts_with(own)) => None,
        '/' if folder.len() > 1 => Some(PathBuf::from(folder)),
        c if c.is_ascii_digit() && folder.len() == 1 => None,
        '~' | '/' => None,
        _ => Some(PathBuf::from(".")),
    }
}

/// What a word names in the person's home.
fn home(word: &str) -> Option<&str> {
    let rest = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|place| word.strip_prefix(place))?;
    (!rest.is_empty() && !rest.contains(['$', '`', '*', ' '])).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_a_command_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["check.sh", "rules.py", "notes.txt", "log.sh"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |command: &str| {
            let found = scripts(command, folder.path()).into_iter();
            found.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found("\"$CLAUDE_PROJECT_DIR\"/check.sh"), ["check.sh"]);
        assert_eq!(found("cat notes.txt | python3 ./rules.py >> log.sh; later.sh"), ["rules.py", "later.sh"]);
        assert_eq!(found("bash ${CLAUDE_PROJECT_DIR}/check.sh && exit 2"), ["check.sh"]);
        assert_eq!(found("jq -r .tool_input"), [""; 0]);
    }

    #[test]
    fn a_command_gets_what_it_shows_that_it_needs() {
        let check = |event: HookEvent, command: &str, read: &[&str], write: &[&str]| {
            let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
            assert_eq!(needs(&event, command), Needs { read: paths(read), write: paths(write) }, "{command}");
        };
        let before = || HookEvent::PreToolUse;
        check(before(), "jq -r '.a > 3' | grep -q x && exit 2 || exit 0", &[], &[]);
        check(before(), "jq .x >> ~/.claude/log.txt", &[], &["~/.claude/log.txt"]);
        check(before(), "jq .x >>\"$HOME/.claude/log.txt\" 2>&1", &[], &["~/.claude/log.txt"]);
        check(before(), "cat > ${HOME}/a/b-$(date +%F).log", &[], &["~/a"]);
        check(before(), "date >> log/calls.txt; echo no >&2; exit 2", &[], &["."]);
        check(before(), "cat >> \"$CLAUDE_PROJECT_DIR\"/.claude/x.log", &[], &["."]);
        check(before(), "cat > /dev/null 2>/dev/null; cat >/tmp/x", &[], &[]);
        check(before(), "jq . | tee -a ~/audit.jsonl >/dev/null", &[], &["~/audit.jsonl"]);
        check(before(), "cat >> /var/log/agent.log", &[], &["/var/log/agent.log"]);
        check(
            before(),
            "python3 ~/.claude/hooks/check.py --rules=~/rules.json",
            &["~/.claude/hooks", "~/rules.json"],
            &[],
        );
        check(before(), "echo x > ~", &[], &[]);
        check(before(), "echo x > /", &[], &[]);
        check(before(), "'", &[], &[]);
        check(before(), ">", &[], &[]);
        check(HookEvent::PostToolUse, "prettier --write \"$(jq -r .tool_input.file_path)\"", &[], &["."]);
    }
}
