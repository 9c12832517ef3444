//! Keeps text that was made to overflow a stack away from Cedar, whose parser and checker recurse.

use crate::file::{PolicyFile, limits};
use crate::finding::{Finding, Place};

/// Plenty for what the limits let through, also without optimization.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// Runs something that recurses as deep as a policy is nested. Only what is used of the stack takes
/// memory. None: there is no thread to be had.
pub(crate) fn on_a_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("policies".to_owned()).stack_size(STACK_BYTES);
        thread.spawn_scoped(scope, work).ok()?.join().ok()
    })
}

/// Refuses what is nested too deep, in brackets or by a chain of operators, and more policies than are
/// read: Cedar takes minutes for some hundred thousand.
pub(crate) fn check(file: &PolicyFile) -> Result<(), Finding> {
    let (mut brackets, mut operators, mut policies) = (0usize, 0usize, 0usize);
    let mut bytes = file.text.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => {
                while let Some((_, inner)) = bytes.next() {
                    match inner {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
            }
            b'/' if bytes.peek().is_some_and(|(_, next)| *next == b'/') => {
                while bytes.next().is_some_and(|(_, inner)| inner != b'\n') {}
            }
            b'(' | b'[' | b'{' => {
                brackets += 1;
                operators += 1;
            }
            b')' | b']' | b'}' => brackets = brackets.saturating_sub(1),
            b';' => {
                operators = 0;
                policies += 1;
            }
            b'!' | b'-' | b'+' | b'*' | b'.' | b'&' | b'|' | b'=' | b'<' | b'>' => operators += 1,
            // `if` nests without any bracket, and so do words between operators.
            b' ' | b'\n' | b'\t' | b'\r' => {
                let rest = &file.text.as_bytes()[at + 1..];
                operators += usize::from(rest.starts_with(b"if") || rest.starts_with(b"else"));
            }
            _ => {}
        }
        let problem = if brackets > limits::BRACKETS_MAX {
            format!("brackets are nested deeper than {} levels", limits::BRACKETS_MAX)
        } else if operators > limits::OPERATORS_MAX {
            format!("a policy has more than {} operators", limits::OPERATORS_MAX)
        } else if policies > limits::POLICIES_MAX {
            let problem = format!("there are more than {} policies", limits::POLICIES_MAX);
            return Err(Finding::error(Place::of(&file.name, &file.text, at), problem));
        } else {
            continue;
        };
        return Err(Finding::error(Place::of(&file.name, &file.text, at), problem)
            .help(Some("make several policies of it".to_owned())));
    }
    Ok(())
}
