//! `helve sandbox run`: any program, in a box.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use helve_host::wire;
use helve_sandbox::{Attendance, End, Finished, Job, Level, Limits, Policy, RunningBox, Stream};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::blocking::block_on;
use crate::commands::interrupt::until_interrupt;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::escape;

/// Programs in boxes.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run any program in a box
    Run(Args),
}

const AFTER_HELP: &str = "\
Inside, the program sees the system's programs and libraries, an empty folder /box to work in,
and what you grant; nothing else of this machine, and no network.

Exit codes:
  the program's own; 128 and the signal's number if one ended it; 124 at the time limit,
  137 at another limit; 2 if it could not be started

Examples:
  helve sandbox run -- python3 -c 'print(1 + 1)'
  helve sandbox run --read . --timeout-ms 5000 -- ls -la $PWD
  helve sandbox run --net api.example.com:443 --json -- curl -s https://api.example.com/";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A file or folder that the program may read
    #[arg(long, value_name = "DIR")]
    read: Vec<PathBuf>,
    /// A file or folder that the program may change
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,
    /// Hosts that it may reach, as in `api.example.com:443,*.example.org:443`, or `none`
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    net: Vec<String>,
    /// A variable of its environment
    #[arg(long, value_name = "K=V")]
    env: Vec<String>,
    /// How long it may run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    timeout_ms: Option<u64>,
    /// Memory of all its processes together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    memory_mb: Option<u64>,
    /// Processes and threads at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32_768))]
    pids: Option<u32>,
    /// Time on a processor of all its processes together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    cpu_s: Option<u64>,
    /// How much it may write, on each of its two streams
    #[arg(long, value_name = "N")]
    output_bytes: Option<usize>,
    /// How much its folder and its temporary files may hold
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    work_mb: Option<u64>,
    /// The least confinement that will do: L3, L2, L2p or L1
    #[arg(long, value_name = "LEVEL")]
    min_level: Option<Level>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(crate) fn run(command: Command, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Command::Run(args) = command;
    let loaded = app.load_config()?;
    let sandbox = wire::sandbox(&loaded);
    let limits = limits(&args, wire::limits(&loaded.config));
    let min_level = args.min_level.unwrap_or(loaded.config.sandbox.min_level);
    let job = job(args, limits.clone(), min_level, app)?;
    let live = !app.ui.is_json();
    let finished = block_on(async {
        let mut running = sandbox.start(job).await.map_err(|error| {
            Failure::usage(error.to_string()).hint("`helve doctor` shows what this machine can confine")
        })?;
        pass_input(&mut running);
        let on_terminal = (app.ui.on_terminal(), app.ui.errors_on_terminal());
        let pass = move |stream: Stream, bytes: &[u8]| pass_output(stream, bytes, on_terminal);
        let listener = live.then(|| Arc::new(pass) as _);
        let attendance = Attendance { stdin: None, limits, listener, ..Attendance::default() };
        let cancellation = CancellationToken::new();
        let attended = running.attend(attendance, cancellation.clone());
        Ok(until_interrupt(attended, app.ui, async || cancellation.cancel()).await)
    })?;
    report(&finished, app)
}

fn limits(args: &Args, usual: Limits) -> Limits {
    Limits {
        memory_bytes: args.memory_mb.map_or(usual.memory_bytes, |mb| mb << 20),
        pids: args.pids.unwrap_or(usual.pids),
        cpu_s: args.cpu_s.unwrap_or(usual.cpu_s),
        wall_ms: args.timeout_ms.unwrap_or(usual.wall_ms),
        output_bytes: args.output_bytes.unwrap_or(usual.output_bytes),
        work_bytes: args.work_mb.map_or(usual.work_bytes, |mb| mb << 20),
    }
}

fn job(args: Args, limits: Limits, min_level: Level, app: &App<'_>) -> Result<Job, Failure> {
    let absolute = |path: PathBuf| app.inputs.work_dir.join(path);
    let mut command = args.command.into_iter();
    let program = command.next().unwrap_or_default();
    // A path is relative to where one stands, a bare name is looked up.
    let program = if program.contains('/') { absolute(program.into()) } else { program.into() };
    let mut job = Job::new(program).args(command).env("HOME", helve_sandbox::WORK_DIR).env("LANG", "C.UTF-8");
    for variable in &args.env {
        let (name, value) =
            variable.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                Failure::usage(format!("`--env {variable}` has no value"))
                    .hint("write it as `--env NAME=VALUE`")
            })?;
        job = job.env(name, value);
    }
    job.policy = Policy {
        read: args.read.into_iter().map(absolute).collect(),
        write: args.write.into_iter().map(absolute).collect(),
        network: args.net.into_iter().filter(|host| host != "none").collect(),
        limits,
        min_level,
        ..Policy::default()
    };
    Ok(job)
}

/// What is typed or piped to us goes to the program.
fn pass_input(running: &mut RunningBox) {
    if let Some(mut stdin) = running.stdin.take() {
        tokio::spawn(async move { tokio::io::copy(&mut tokio::io::stdin(), &mut stdin).await });
    }
}

/// What the program says is said as it comes. On a terminal its signs are shown and not obeyed: they
/// could change what was said before.
fn pass_output(stream: Stream, bytes: &[u8], on_terminal: (bool, bool)) {
    let visible = match (stream, on_terminal) {
        (Stream::Out, (true, _)) | (Stream::Err, (_, true)) => {
            Some(escape::visible(&String::from_utf8_lossy(bytes)).into_owned())
        }
        _ => None,
    };
    let bytes = visible.as_ref().map_or(bytes, |text| text.as_bytes());
    // Nobody to tell is no reason to stop the program: it may have other things to do.
    let _ = match stream {
        Stream::Out => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        }
        Stream::Err => std::io::stderr().lock().write_all(bytes),
    };
}

fn report(finished: &Finished, app: &mut App<'_>) -> anyhow::Result<Exit> {
    let Finished { end, confinement, usage, .. } = finished;
    let (code, signal) = match *end {
        End::Exited { code } => (Some(code), None),
        End::Signaled { signal } => (None, Some(signal)),
        _ => (None, None),
    };
    if app.ui.is_json() {
        app.ui.json(&json!({
            "status": end.as_str(),
            "exit_code": code,
            "signal": signal,
            "stdout": String::from_utf8_lossy(&finished.stdout),
            "stderr": String::from_utf8_lossy(&finished.stderr),
            "truncated": finished.truncated,
            "level": confinement.level,
            "enforced": confinement.enforced,
            "not_enforced": confinement.not_enforced,
            "why": confinement.why,
            "usage": usage,
        }))?;
    } else {
        if let Some(said) = explain(*end) {
            app.ui.note(said)?;
        }
        for why in &confinement.why {
            app.ui.note(format!("level {}: {why}", confinement.level))?;
        }
    }
    Ok(Exit::Program(match *end {
        End::Exited { code } => u8::try_from(code & 0xff).unwrap_or(1),
        End::Signaled { signal } => u8::try_from(128 + signal).unwrap_or(255),
        End::Timeout => 124,
        End::MemoryLimit | End::CpuLimit | End::OutputLimit => 137,
        End::Cancelled => 130,
    }))
}

fn explain(end: End) -> Option<&'static str> {
    match end {
        End::Exited { .. } => None,
        End::Signaled { .. } => Some("a signal ended it"),
        End::MemoryLimit => Some("it used more memory than it may and was stopped; raise `--memory-mb`"),
        End::CpuLimit => Some("it used more of the processor than it may and was stopped; raise `--cpu-s`"),
        End::Timeout => Some("it took too long and was stopped; raise `--timeout-ms`"),
        End::OutputLimit => Some("it wrote too much and was stopped; raise `--output-bytes`"),
        End::Cancelled => Some("it was stopped"),
    }
}
