//! How the texts of `--help` lie on a screen.

use std::io;

use clap::builder::StyledStr;

/// Stands for a space at which no line is broken, until the text is shown. It is in no text of ours.
const GLUE: char = '\u{e000}';

/// Lets paragraphs below the options flow: they are written in lines, and clap would wrap each of these once more where
/// the terminal is narrower. Commands to copy stand whole: those in backticks, and every line of the examples.
pub(crate) fn set(command: clap::Command) -> clap::Command {
    let command = match command.get_after_help().map(|text| glued(&unwrapped(&text.to_string()))) {
        Some(text) => command.after_help(text),
        None => command,
    };
    let command =
        command.mut_args(|argument| match argument.get_help().map(|text| quoted(&text.to_string())) {
            Some(text) => argument.help(text),
            None => argument,
        });
    command.mut_subcommands(set)
}

/// A text of clap's as it is to be seen.
pub(crate) fn seen(text: &StyledStr) -> String {
    text.ansi().to_string().replace(GLUE, " ")
}

/// Writes what clap has to say to where it belongs.
pub(crate) fn show(error: &clap::Error) -> io::Result<()> {
    let text = seen(&error.render());
    let (mut out, mut errors) = (anstream::stdout(), anstream::stderr());
    let stream: &mut dyn io::Write = if error.use_stderr() { &mut errors } else { &mut out };
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Joins lines of one paragraph. What is indented is laid out, and stays as it is.
fn unwrapped(text: &str) -> String {
    /// A line shorter than this ends where its author wanted it to.
    const WRAPPED_CHARS_MIN: usize = 60;
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(char::is_whitespace);
    let (mut joined, mut goes_on) = (String::new(), false);
    for line in text.lines() {
        match goes_on && is_prose(line) {
            true => joined.push(' '),
            false if joined.is_empty() => {}
            false => joined.push('\n'),
        }
        joined.push_str(line);
        goes_on = is_prose(line) && line.chars().count() >= WRAPPED_CHARS_MIN;
    }
    joined
}

/// Examples line by line, and what stands in backticks, without a space to break them at.
fn glued(text: &str) -> String {
    let mut is_example = false;
    let lines = text.lines().map(|line| {
        if !line.starts_with(' ') {
            is_example = line.starts_with("Example");
            return quoted(line);
        }
        let laid_out = line.trim_start();
        let indent = &line[..line.len() - laid_out.len()];
        let whole = if is_example { laid_out.replace(' ', &GLUE.to_string()) } else { quoted(laid_out) };
        format!("{indent}{whole}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn quoted(text: &str) -> String {
    let mut is_open = false;
    let glue = |letter: char| {
        is_open ^= letter == '`';
        if is_open && letter == ' ' { GLUE } else { letter }
    };
    text.chars().map(glue).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;

    #[test]
    fn paragraphs_flow_and_what_is_laid_out_stays() {
        let long = "a word and another ".repeat(4);
        let text = format!("{long}\nends here.\n\nExamples:\n  helve up\n  {long}\n  helve init");
        let expected = format!("{long} ends here.\n\nExamples:\n  helve up\n  {long}\n  helve init");
        assert_eq!(unwrapped(&text), expected);
    }

    fn plain(text: &StyledStr) -> String {
        anstream::adapter::strip_str(&seen(text)).to_string()
    }

    #[test]
    fn help_fits_a_narrow_terminal() {
        let mut command = args::command().term_width(60);
        command.build();
        let accept = command.find_subcommand("store").and_then(|one| one.find_subcommand("restore"));
        let help = plain(&accept.unwrap().clone().term_width(60).render_help());
        let prose: Vec<_> = help.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).collect();
        // Wrapped twice, every second line would be a few words.
        let short =
            prose.windows(2).filter(|pair| pair[0].len() < 25 && pair[1].starts_with(char::is_lowercase));
        assert_eq!(short.count(), 0, "{help}");
        assert!(prose.iter().all(|line| line.chars().count() <= 60), "{help}");
    }

    /// Every line of every example, and every command in backticks.
    fn to_copy(command: &clap::Command) -> Vec<String> {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default().replace(GLUE, " ");
        let (mut found, mut is_example) = (Vec::new(), false);
        for line in unwrapped(&text).lines() {
            match line.strip_prefix(' ') {
                Some(example) if is_example => found.push(example.trim().to_owned()),
                Some(_) | None => found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
            }
            is_example = line.starts_with("Example") || is_example && line.starts_with(' ');
        }
        found
    }

    fn check(command: &clap::Command, width: usize, count: &mut usize) {
        let help = plain(&command.clone().term_width(width).render_help());
        for whole in to_copy(command) {
            assert!(help.lines().any(|line| line.contains(&whole)), "{width} columns, `{whole}`:\n{help}");
            *count += 1;
        }
        command.get_subcommands().for_each(|one| check(one, width, count));
    }

    #[test]
    fn examples_and_commands_in_help_stand_whole_at_any_width() {
        let mut command = args::command();
        command.build();
        for width in [20, 40, 60, 80, 100] {
            let mut count = 0;
            check(&command, width, &mut count);
            assert!(count > 150, "{count}");
        }
    }
}
