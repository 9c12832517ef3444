//! Programs that behave, misbehave, and leave children behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod bare;
mod boxes;
mod hostile;
mod ordinary;
mod plain;
mod refusals;
mod unconfined;
mod witness;

use std::path::PathBuf;
use std::time::Duration;

use helve_core::ports::{Access, Exit, LaunchError, Launcher, Program};
use helve_sandbox::PlainLauncher;
use tokio_util::sync::CancellationToken;

/// A shell script as a program with roomy limits. `$1` and so on are `args`.
fn shell(script: &str, args: &[&str]) -> Program {
    let mut all = vec!["-c".to_owned(), script.to_owned(), "sh".to_owned()];
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    Program { args: all, ..program("/bin/sh") }
}

fn program(command: impl Into<PathBuf>) -> Program {
    Program {
        command: command.into(),
        args: Vec::new(),
        env: Vec::new(),
        work_dir: None,
        stdin: Vec::new(),
        timeout: Duration::from_secs(30),
        output_bytes_max: 1 << 20,
        access: Access::default(),
    }
}

async fn launch(program: Program) -> Result<Exit, LaunchError> {
    PlainLauncher::default().launch(program, CancellationToken::new()).await
}
