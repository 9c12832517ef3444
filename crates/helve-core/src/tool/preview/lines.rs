//! The lines of a preview, by what they are: so that a page and a terminal show them alike.

/// Longest name of a fact, in characters.
const NAME_CHARS_MAX: usize = 32;

/// A line of a preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewLine<'t> {
    /// `To: ada@example.com`, at the beginning.
    Fact {
        /// What stands before the colon. Empty: the value above goes on.
        name: &'t str,
        /// What stands after it.
        value: &'t str,
    },
    /// A line of a diff that would be there afterwards, with its `+`.
    Added(&'t str),
    /// A line of a diff that would be gone afterwards, with its `-`.
    Removed(&'t str),
    /// Where the next lines of a diff stand: `@@ -1 +1 @@`, or the name of a file.
    Place(&'t str),
    /// Any other line.
    Plain(&'t str),
}

impl PreviewLine<'_> {
    /// Whether only diffs have such a line.
    pub fn is_of_diff(&self) -> bool {
        match self {
            Self::Added(_) | Self::Removed(_) | Self::Place(_) => true,
            Self::Fact { .. } | Self::Plain(_) => false,
        }
    }
}

/// The lines of a preview: facts, then a body, which may be or hold a unified diff.
///
/// Facts are `Name: value` lines up to the first blank line, which is left out; a value goes on in lines that begin with
/// a space. Where another line is among them, or none has a value, there are no facts. Lines that begin with `+` or `-`
/// belong to a diff after `@@`, or in a paragraph where every line begins with `+`, `-` or a space, and one with `+`.
///
/// ```
/// use helve_core::preview::{PreviewLine, lines};
/// let found = lines("Event: Standup\n\n- 09:00\n+ 10:00");
/// assert_eq!(found[0], PreviewLine::Fact { name: "Event", value: "Standup" });
/// assert_eq!(found[1..], [PreviewLine::Removed("- 09:00"), PreviewLine::Added("+ 10:00")]);
/// assert_eq!(lines("- milk\n- eggs")[0], PreviewLine::Plain("- milk"));
/// ```
pub fn lines(text: &str) -> Vec<PreviewLine<'_>> {
    let all: Vec<_> = text.lines().collect();
    let end = all.iter().position(|line| line.is_empty()).unwrap_or(all.len());
    let facts: Option<Vec<_>> = all[..end].iter().enumerate().map(|(at, line)| fact(line, at)).collect();
    let says = |line: &PreviewLine<'_>| matches!(line, PreviewLine::Fact { value, .. } if !value.is_empty());
    let facts = facts.filter(|facts| facts.iter().any(says));
    let Some(mut found) = facts else { return body(&all) };
    found.extend(body(all.get(end + 1..).unwrap_or_default()));
    found
}

fn fact(line: &str, at: usize) -> Option<PreviewLine<'_>> {
    if line.starts_with(' ') && at > 0 {
        return Some(PreviewLine::Fact { name: "", value: line.trim_matches(' ') });
    }
    let (name, value) = line.split_once(':')?;
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let is_name = name.starts_with(char::is_alphabetic)
        && !name.ends_with(' ')
        && name.chars().count() <= NAME_CHARS_MAX
        && name.chars().all(is_inner);
    let is_apart = value.is_empty() || value.starts_with(' ');
    (is_name && is_apart).then(|| PreviewLine::Fact { name, value: value.trim_matches(' ') })
}

fn body<'t>(lines: &[&'t str]) -> Vec<PreviewLine<'t>> {
    let mut found = Vec::with_capacity(lines.len());
    let (mut within, mut is_whole, mut begins) = (false, false, true);
    for (at, line) in lines.iter().enumerate() {
        if begins {
            is_whole = is_diff(&lines[at..]);
            within = is_whole;
        }
        begins = line.is_empty();
        let is_place = line.starts_with("@@") || names_file(lines, at);
        found.push(match line.bytes().next() {
            Some(_) if is_place => PreviewLine::Place(line),
            Some(b'+') if within => PreviewLine::Added(line),
            Some(b'-') if within => PreviewLine::Removed(line),
            Some(_) | None => PreviewLine::Plain(line),
        });
        within = match line.bytes().next() {
            Some(b'@') if is_place => true,
            Some(b'+' | b'-' | b' ' | b'\\') => (within && !is_place) || is_whole,
            Some(_) | None => is_whole,
        };
    }
    found
}

/// Whether the paragraph at the beginning of these lines is a diff though no `@@` says so. Lists like to begin with `-`.
fn is_diff(lines: &[&str]) -> bool {
    let paragraph = || lines.iter().take_while(|line| !line.is_empty());
    paragraph().any(|line| line.starts_with('+')) && paragraph().all(|line| line.starts_with(['+', '-', ' ']))
}

/// Whether a line is one of the two that name the files of a diff.
fn names_file(lines: &[&str], at: usize) -> bool {
    let begins = |at: Option<usize>, mark: &str| {
        at.and_then(|at| lines.get(at)).is_some_and(|line| line.starts_with(mark))
    };
    let is_pair = |first: Option<usize>| begins(first, "--- ") && begins(first.map(|at| at + 1), "+++ ");
    is_pair(Some(at)) || is_pair(at.checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> String {
        let kind = |line: &PreviewLine<'_>| match line {
            PreviewLine::Fact { name: "", .. } => '.',
            PreviewLine::Fact { .. } => 'f',
            PreviewLine::Added(_) => '+',
            PreviewLine::Removed(_) => '-',
            PreviewLine::Place(_) => '@',
            PreviewLine::Plain(_) => ' ',
        };
        lines(text).iter().map(kind).collect()
    }

    #[test]
    fn facts_stand_at_the_beginning_and_nowhere_else() {
        for (text, expected) in [
            ("To: ada\nSubject: Hi\n\nTo: eve", "ff "),
            ("To: ada\r\nCc:\r\n\r\nHi", "ff "),
            ("Attachments: a.pdf\n  b.pdf\n\nHi", "f. "),
            ("To: ada", "f"),
            ("Dear Ada,\nTo: eve\n\nHi", "    "),
            ("To: ada\nand so on\n\nHi", "    "),
            ("https://example.com/", " "),
            (" To: ada", " "),
            ("\nTo: ada", "  "),
            ("- a: b", " "),
            ("", ""),
        ] {
            assert_eq!(kinds(text), expected, "{text:?}");
        }
        let long = format!("{}: x", "n".repeat(33));
        assert_eq!(kinds(&long), " ");
        assert_eq!(lines("Zeit – ab: 5")[0], PreviewLine::Plain("Zeit – ab: 5"));
        assert_eq!(lines("Größe: 5")[0], PreviewLine::Fact { name: "Größe", value: "5" });
    }

    #[test]
    fn diffs_are_told_from_lists() {
        for (text, expected) in [
            ("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n\\ No newline", "@@@-+  "),
            ("Event: x\n\n- 9\n+ 10", "f-+"),
            ("- milk\n- eggs", "  "),
            ("- milk\nand\n+ eggs", "   "),
            ("@@\n-a\n+b\nover\n- milk", "@-+  "),
            ("@@\n-a\n\n- milk", "@-  "),
            ("Change all of:\n\n  Title: x\n- When: 9\n+ When: 10\n\nCalendar: Work\n- milk", "   -+   "),
            ("New event:\n\n+ Title: x\n    | more\n\nCalendar: Work", "  +   "),
            ("+ a\nand\n- b", "   "),
            ("-- \nAda", "  "),
            ("--- a", " "),
        ] {
            assert_eq!(kinds(text), expected, "{text:?}");
        }
    }

    #[test]
    fn nothing_of_a_text_is_lost() {
        let text = "A: 1\n\n@@\n-x\n+y\n\nend";
        let said: Vec<_> = lines(text)
            .into_iter()
            .map(|line| match line {
                PreviewLine::Fact { name, value } => format!("{name}: {value}"),
                PreviewLine::Added(line)
                | PreviewLine::Removed(line)
                | PreviewLine::Place(line)
                | PreviewLine::Plain(line) => line.into(),
            })
            .collect();
        assert_eq!(said, ["A: 1", "@@", "-x", "+y", "", "end"]);
    }
}
