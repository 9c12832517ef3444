//! Questions to the person at the terminal.

use std::io::{BufRead, ErrorKind, Write};

use secrecy::SecretString;

use crate::app::App;
use crate::commands::mcp::ask::somebody_is_there;
use crate::failure::Failure;

/// Longest secret that may be typed.
const BYTES_MAX: usize = 64 << 10;

/// Asks for a line, where a person is there and it was not given as a flag.
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
    let read = {
        let dark = Dark::new();
        read_hidden(&format!("{question} (not shown): "), dark.interrupt())
    };
    let _ = writeln!(std::io::stderr());
    let line = read.map_err(|error| match error.kind() {
        ErrorKind::Interrupted => Failure::denied("nothing was connected"),
        _ => missing(),
    })?;
    let line = line.trim_end_matches('\r');
    if line.is_empty() { Err(missing()) } else { Ok(line.into()) }
}

/// A line up to its end, without it. Interrupted where it has the byte that the terminal sends for Ctrl-C.
fn read_hidden(prompt: &str, interrupt: Option<u8>) -> std::io::Result<String> {
    say(prompt)?;
    let mut line = Vec::new();
    let mut input = std::io::stdin().lock();
    loop {
        let chunk = input.fill_buf()?;
        let end = chunk.iter().position(|byte| *byte == b'\n' || Some(*byte) == interrupt);
        if end.is_some_and(|end| chunk[end] != b'\n') {
            return Err(ErrorKind::Interrupted.into());
        }
        line.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
        let (read, is_last) = (end.map_or(chunk.len(), |end| end + 1), end.is_some() || chunk.is_empty());
        input.consume(read);
        if is_last || line.len() > BYTES_MAX {
            return String::from_utf8(line).map_err(|_| ErrorKind::InvalidData.into());
        }
    }
}

fn say(prompt: &str) -> std::io::Result<()> {
    let mut errors = std::io::stderr();
    write!(errors, "{prompt}")?;
    errors.flush()
}

fn read_line(prompt: &str) -> std::io::Result<String> {
    say(prompt)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// A terminal that does not show what is typed, until it is dropped. Ctrl-C ends the line instead of the process, which
/// would leave the terminal dark.
struct Dark(#[cfg(unix)] Option<rustix::termios::Termios>);

impl Dark {
    #[cfg(unix)]
    fn new() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut dark) = before.clone() {
            dark.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
            dark.special_codes[SpecialCodeIndex::VEOL] = dark.special_codes[SpecialCodeIndex::VINTR];
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &dark);
        }
        Self(before)
    }

    /// What Ctrl-C is read as.
    #[cfg(unix)]
    fn interrupt(&self) -> Option<u8> {
        self.0.as_ref().map(|before| before.special_codes[rustix::termios::SpecialCodeIndex::VINTR])
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self()
    }

    #[cfg(not(unix))]
    fn interrupt(&self) -> Option<u8> {
        None
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
