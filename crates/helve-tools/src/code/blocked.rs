//! Commands that are refused whatever the box would make of them.

/// The first of the blocked commands that the code holds.
///
/// Spaces do not matter, and a command must stand by itself: `rm -rf /tmp/x` is not `rm -rf /`. This
/// stops accidents and makes intentions visible; it is not what keeps the machine safe.
pub(super) fn find<'b>(code: &str, blocked: &'b [String]) -> Option<&'b str> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let tight = |text: &str| text.split_whitespace().collect::<String>();
    let (code_words, code_tight) = (words(code), tight(code));
    blocked.iter().map(String::as_str).find(|command| {
        let has_words = command.chars().any(char::is_alphanumeric);
        match has_words {
            true => stands_alone(&code_words, &words(command)),
            // A spell of signs means the same with spaces and without.
            false => !tight(command).is_empty() && code_tight.contains(&tight(command)),
        }
    })
}

fn stands_alone(code: &str, command: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    !command.is_empty()
        && code.match_indices(command).any(|(at, found)| {
            let before = code[..at].chars().next_back();
            let after = code[at + found.len()..].chars().next();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-')
                && !after.is_some_and(is_inside)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_command_and_not_its_look_alikes() {
        let blocked = ["rm -rf /", "sudo", ":(){:|:&};:"].map(str::to_owned);
        let refused = [
            "rm -rf /",
            "cd x && rm  -rf   / ; echo",
            "rm -rf /*",
            "sudo ls",
            "x=1; sudo\tid",
            "os.system('sudo ls')",
            ":(){ :|:& };:",
            ":() { : | : & } ; :",
            "/usr/bin/sudo id",
        ];
        for code in refused {
            assert!(find(code, &blocked).is_some(), "{code}");
        }
        for code in ["rm -rf /tmp/x", "rm -rf ./", "pseudo code", "sudoku", "visudo_x", "echo a:b", ""] {
            assert_eq!(find(code, &blocked), None, "{code}");
        }
    }
}
