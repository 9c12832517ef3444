//! Questions to the person at the terminal.

use std::io::{BufRead, Write};

use secrecy::SecretString;

use crate::app::App;
use crate::commands::mcp::ask::somebody_is_there;
use crate::failure::Failure;

/// Asks for a line, where somebody is there and it was not given as a flag.
pub(super) fn text(
    given: Option<String>,
    question: &str,
    flag: &str,
    app: &mut App<'_>,
) -> Result<String, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    let missing = || Failure::usage(format!("{question} is missing")).hint(format!("give it as {flag}"));
    if !somebody_is_there(app) {
        return Err(missing());
    }
    let line = read_line(&format!("{question}: ")).map_err(|_| missing())?;
    let line = line.trim();
    if line.is_empty() { Err(missing()) } else { Ok(line.to_owned()) }
}

/// Asks for a secret, which is not shown while it is typed.
pub(super) fn hidden(question: &str, app: &mut App<'_>) -> Result<SecretString, Failure> {
    let missing = || {
        Failure::usage(format!("{question} is missing"))
            .hint("`--password-stdin` reads it from standard input")
            .hint("`--secret env:NAME`, `--secret file:PATH` or `--secret keyring:SERVICE/USER` says where it lies")
    };
    if !somebody_is_there(app) {
        return Err(missing());
    }
    let _dark = Dark::new();
    let line = read_line(&format!("{question} (not shown): ")).map_err(|_| missing())?;
    let _ = writeln!(std::io::stderr());
    let line = line.trim_end_matches(['\n', '\r']);
    if line.is_empty() { Err(missing()) } else { Ok(line.into()) }
}

fn read_line(prompt: &str) -> std::io::Result<String> {
    let mut errors = std::io::stderr();
    write!(errors, "{prompt}")?;
    errors.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// A terminal that does not show what is typed, until it is dropped.
struct Dark(#[cfg(unix)] Option<rustix::termios::Termios>);

impl Dark {
    #[cfg(unix)]
    fn new() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut dark) = before.clone() {
            dark.local_modes.remove(LocalModes::ECHO);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &dark);
        }
        Self(before)
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self()
    }
}

impl Drop for Dark {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.0 {
            use rustix::termios::{OptionalActions, tcsetattr};
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
