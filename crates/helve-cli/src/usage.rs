//! Reads the command line, and says what is wrong with it: to a person as clap does, to a program as
//! one line of JSON.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind;

use crate::args::{self, Cli};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::help;
use crate::ui::{Colour, Detail, Format, Ui, escape};

/// Longest word of the command line that an error repeats.
const WORD_CHARS_MAX: usize = 200;

/// The command line as typed, or the exit code where there is nothing more to do: help was asked
/// for, or an error was reported.
pub(crate) fn read(words: Vec<OsString>) -> Result<Cli, ExitCode> {
    let words = help_as_flag(words);
    parse(&words).map_err(|error| {
        // Once more with its words made harmless, because the error repeats them.
        let harmless = |word: &OsString| escape::one_line(&word.to_string_lossy(), WORD_CHARS_MAX).into();
        let error = parse(&words.iter().map(harmless).collect::<Vec<_>>()).err().unwrap_or(error);
        let typed = words.iter().take_while(|word| *word != "--");
        if error.use_stderr() && typed.clone().any(|word| word == "--json") {
            let mut ui = Ui::new(Format::Json, Detail::Normal, Colour::Never);
            // Standard error may be closed; there is nobody left to tell.
            let _ = crate::write_failure(&failure(&error), &mut ui);
            return Exit::Usage.into();
        }
        // The reader closed the stream and does not want the rest.
        let _ = help::show(&error);
        if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
    })
}

/// `helve help call` is `helve call --help`.
fn help_as_flag(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = args::command().try_get_matches_from(words)?;
    Cli::from_arg_matches(&matches)
}

/// An error of clap's, whose text comes in paragraphs: what is wrong, tips, the usage.
fn failure(error: &clap::Error) -> Failure {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("a command is missing").hint("`--help` lists them");
    }
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n");
    let mut first = paragraphs.next().unwrap_or_default().lines();
    let message = first.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message).trim_end_matches(':');
    let mut failure = Failure::usage(message).details(first.map(|line| line.trim().to_owned()));
    let about_help = |line: &&str| line.starts_with("For more information");
    let lines = paragraphs.flat_map(str::lines).map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !about_help(line)) {
        failure = failure.hint(line.strip_prefix("tip: ").unwrap_or(line));
    }
    failure
}
