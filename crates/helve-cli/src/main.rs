//! The `helve` binary: commands and what they print. `helve-host` makes a running Helve of the configuration.

mod args;
mod exit;

mod app;
mod blocking;
mod checks;
mod commands;
mod failure;
mod help;
mod ui;
mod usage;

use std::io;
use std::process::ExitCode;

use helve_host::HostError;

use crate::app::App;
use crate::args::{Cli, Command, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::{Detail, Format, Ui, escape, json, log};

/// A fifth less work in a call than with the system's, which is slow with what another thread frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match usage::read(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let mut ui = ui_for(&cli.global);
    let result = run_command(cli, &mut ui).and_then(|exit| {
        ui.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit.into(),
        Err(error) => report(&error, &mut ui).into(),
    }
}

fn ui_for(global: &Global) -> Ui {
    let format = if global.json { Format::Json } else { Format::Text };
    let detail = match (global.quiet, global.verbose) {
        (true, _) => Detail::Quiet,
        (false, true) => Detail::Verbose,
        (false, false) => Detail::Normal,
    };
    Ui::new(format, detail, global.color)
}

fn run_command(cli: Cli, ui: &mut Ui) -> anyhow::Result<Exit> {
    log::start(ui.detail(), ui.error_paint()).map_err(Failure::usage)?;
    let mut app = App::new(ui, cli.global)?;
    match cli.command {
        Command::Up(args) => commands::up::run(args, &mut app),
        Command::Init(args) => commands::init::run(&args, &mut app),
        Command::Tools(command) => commands::tools::run(command, &mut app),
        Command::Call(args) => commands::call::run(args, &mut app),
        Command::Trust(args) => commands::trust::run(&args, &mut app),
        Command::Mcp(command) => commands::mcp::run(command, &mut app),
        Command::Hooks(command) => commands::hooks::run(command, &mut app),
        Command::Hook(command) => commands::hook::run(&command, &mut app),
        Command::Memory(command) => commands::memory::run(command, &mut app),
        Command::Connect(command) => commands::connect::run(*command, &mut app),
        Command::Office(command) => commands::office::run(command, &mut app),
        Command::Sandbox(command) => commands::sandbox::run(command, &mut app),
        Command::Rules(command) => commands::rules::run(command, &mut app),
        Command::Session(command) => commands::session::run(command, &mut app),
        Command::Approvals(command) => commands::approvals::run(command, &mut app),
        Command::Keys(command) => commands::keys::run(command, &mut app),
        Command::Runs(command) => commands::runs::run(command, &mut app),
        Command::Policy(command) => commands::policy::run(command, &mut app),
        Command::Audit(command) => commands::audit::run(command, &mut app),
        Command::Store(command) => commands::store::run(command, &mut app),
        Command::Net(command) => commands::net::run(command, &mut app),
        Command::Doctor(args) => commands::doctor::run(&args, &mut app),
        Command::Config(command) => commands::config::run(&command, &mut app),
        Command::Completions(args) => commands::completions::run(&args, &mut app),
    }
}

/// Says what went wrong on standard error, and gives the exit code for it.
fn report(error: &anyhow::Error, ui: &mut Ui) -> Exit {
    // `helve tools list | head -1`: the reader has what it wanted.
    let broken_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref().is_some_and(broken_pipe)) {
        return Exit::Done;
    }
    let of_host = || error.downcast_ref::<HostError>().cloned().map(Failure::from);
    let failure = match error.downcast_ref::<Failure>().cloned().or_else(of_host) {
        Some(failure) => failure,
        None => {
            let causes = error.chain().skip(1).map(ToString::to_string);
            Failure::failed(error.to_string()).details(causes)
        }
    };
    // Standard error may be closed as well; there is nobody left to tell.
    let _ = write_failure(&failure, ui);
    failure.exit
}

fn write_failure(failure: &Failure, ui: &mut Ui) -> io::Result<()> {
    if ui.is_json() {
        let document = json::compact(&serde_json::json!({ "error": failure }))?;
        return ui.error_line(document);
    }
    let paint = ui.error_paint();
    ui.error_line(format!("{} {}", paint.bad("error:"), escape::visible(&failure.message)))?;
    for detail in &failure.details {
        for line in escape::visible(detail).lines() {
            ui.error_line(format!("  {line}"))?;
        }
    }
    for hint in &failure.hints {
        ui.error_line(format!("{} {}", paint.accent("hint:"), escape::visible(hint)))?;
    }
    Ok(())
}
