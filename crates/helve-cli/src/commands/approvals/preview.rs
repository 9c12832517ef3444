//! What a tool says it would do, on a terminal: names dim and in a column, the lines of a diff in colour.

use helve::preview::{PreviewLine, lines};

use crate::ui::escape::visible;
use crate::ui::paint::Paint;

/// The lines of a preview, with everything in them that hides made visible.
pub(super) fn shown(text: &str, paint: Paint) -> Vec<String> {
    let all = lines(text);
    let width = all.iter().filter_map(name).map(|name| name.chars().count() + 1).max().unwrap_or_default();
    let facts = all.iter().take_while(|line| name(line).is_some()).count();
    let mut shown: Vec<_> = all.iter().map(|line| one(line, width, paint)).collect();
    if facts > 0 && facts < shown.len() {
        shown.insert(facts, String::new());
    }
    shown
}

fn name<'t>(line: &PreviewLine<'t>) -> Option<&'t str> {
    match line {
        PreviewLine::Fact { name, .. } => Some(name),
        PreviewLine::Added(_) | PreviewLine::Removed(_) | PreviewLine::Place(_) | PreviewLine::Plain(_) => {
            None
        }
    }
}

fn one(line: &PreviewLine<'_>, width: usize, paint: Paint) -> String {
    match line {
        PreviewLine::Fact { name, value } => {
            let colon = if name.is_empty() { "" } else { ":" };
            let name = paint.dim(format!("{:width$}", format!("{name}{colon}")));
            format!("{name} {}", visible(value))
        }
        PreviewLine::Added(line) => paint.good(visible(line)),
        PreviewLine::Removed(line) => paint.bad(visible(line)),
        PreviewLine::Place(line) => paint.dim(visible(line)),
        PreviewLine::Plain(line) => visible(line).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_stand_in_a_column_and_the_text_below() {
        let text = "To: ada\nAttachments: a.pdf\n  b\u{202e}.pdf\n\nHi\n- one";
        let expected =
            ["To:          ada", "Attachments: a.pdf", "             b\\u{202e}.pdf", "", "Hi", "- one"];
        assert_eq!(shown(text, Paint::Plain), expected);
        assert_eq!(shown("To: ada", Paint::Plain), ["To: ada"]);
    }

    #[test]
    fn only_the_lines_of_a_diff_are_coloured_and_nothing_else_steers_the_terminal() {
        let lines = shown("@@\n-a\n+b\u{1b}[2J\n same", Paint::Colour);
        assert_eq!(lines[1], Paint::Colour.bad("-a"));
        assert_eq!(lines[2], Paint::Colour.good("+b\\u{1b}[2J"));
        assert_eq!(lines[3], " same");
    }
}
