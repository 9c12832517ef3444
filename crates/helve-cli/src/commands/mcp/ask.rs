//! A question to the person at the terminal.

use std::io::{BufRead, IsTerminal, Write};

use crate::app::App;

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Yes,
    No,
    /// Nobody is there to be asked.
    Nobody,
}

/// Whether a person is there to be asked.
pub(crate) fn somebody_is_there(app: &App<'_>) -> bool {
    std::io::stdin().is_terminal() && app.ui.errors_on_terminal() && !app.ui.is_json()
}

/// Asks, unless the answer was given on the command line.
pub(crate) fn ask(question: &str, yes: bool, app: &mut App<'_>) -> anyhow::Result<Confirmation> {
    if yes {
        return Ok(Confirmation::Yes);
    }
    if !somebody_is_there(app) {
        return Ok(Confirmation::Nobody);
    }
    app.ui.flush()?;
    let mut errors = std::io::stderr();
    write!(errors, "{question} [y/N] ")?;
    errors.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let said = line.trim().to_ascii_lowercase();
    Ok(if matches!(said.as_str(), "y" | "yes") { Confirmation::Yes } else { Confirmation::No })
}
