//! What a box costs over a bare start, compared with bubblewrap, for a shell, Python and Node.js; and what
//! is left of it when the interpreter waits for its code.
//!
//! All ways take turns in one run, so that a noisy machine is noisy for all. Bubblewrap is Debian's
//! package; without it that column is left out and said so.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use helve::{Call, Caller, Runtime, VolatileLedger};
use helve_sandbox::{Job, Limits, Sandbox};
use helve_tools::code::{CodeOptions, code_tool};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A program that starts, says something and ends.
const PROGRAMS: [(&str, &str, &[&str]); 3] = [
    ("sh", "/bin/sh", &["-c", "echo 1"]),
    ("python3", "/usr/bin/python3", &["-c", "print(1)"]),
    ("node", "/usr/bin/node", &["-e", "console.log(1)"]),
];

/// As little as lets these programs run, with everything else shut.
const BUBBLEWRAP: [&str; 20] = [
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
];

fn main() {
    // `cargo test --benches` runs this too; a smoke run is enough there.
    let is_real = std::env::args().any(|arg| arg == "--bench");
    let (runs, calls) = if is_real { (200, 50) } else { (2, 2) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let has_bubblewrap = std::path::Path::new("/usr/bin/bwrap").exists();
        if !has_bubblewrap {
            println!("bubblewrap is not installed: `apt-get install bubblewrap`; its column is left out");
        }
        println!("start, run and end of a program, median of {runs} in ms, ways taking turns");
        println!("{:<10}{:>8}{:>14}{:>14}{:>22}", "", "bare", "bubblewrap", "box", "box over bubblewrap");
        for (name, program, args) in PROGRAMS {
            if std::path::Path::new(program).exists() {
                starts(name, program, args, runs, has_bubblewrap).await;
            }
        }
        println!("\ncode-execute, one call through the runtime, median of {calls} in ms");
        println!("{:<12}{:>8}{:>8}", "", "cold", "warm");
        for (language, code) in [("python", "print(1)"), ("javascript", "console.log(1)")] {
            let (cold, warm) = (call(language, code, 0, calls).await, call(language, code, 1, calls).await);
            println!("{language:<12}{:>8.2}{:>8.2}", ms(cold), ms(warm));
        }
    });
    runtime.shutdown_background();
}

async fn starts(name: &str, program: &str, args: &[&str], runs: usize, has_bubblewrap: bool) {
    let sandbox = Sandbox::default();
    let (mut bare, mut wrapped, mut boxed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        bare.push(timed(async || command(program, args)).await);
        if has_bubblewrap {
            let all: Vec<_> = BUBBLEWRAP.iter().chain([&program]).chain(args).copied().collect();
            wrapped.push(timed(async || command("/usr/bin/bwrap", &all)).await);
        }
        boxed.push(
            timed(async || {
                let job = Job::new(program).args(args.iter().copied());
                let finished = sandbox.run(job, Vec::new(), CancellationToken::new()).await.unwrap();
                assert_eq!(finished.stdout, b"1\n");
            })
            .await,
        );
    }
    let (bare, wrapped, boxed) = (median(bare), has_bubblewrap.then(|| median(wrapped)), median(boxed));
    let over = |time: Duration| format!("+{:.2}", ms(time.saturating_sub(bare)));
    let ratio = wrapped.map(|wrapped| ms(boxed.saturating_sub(bare)) / ms(wrapped.saturating_sub(bare)));
    println!(
        "{name:<10}{:>8.2}{:>14}{:>14}{:>22}",
        ms(bare),
        wrapped.map_or("-".to_owned(), over),
        over(boxed),
        ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
    );
}

fn command(program: &str, args: &[&str]) {
    #[expect(clippy::disallowed_methods, reason = "what boxes are compared with")]
    let output = Command::new(program).args(args).env_clear().stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.stdout, b"1\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// Calls of `code-execute`; between them there is time to start the next interpreter.
async fn call(language: &str, code: &str, warm: usize, calls: usize) -> Duration {
    let options = CodeOptions { warm, ..CodeOptions::default() };
    let tool = code_tool(options, Sandbox::default(), Limits::default()).build().unwrap();
    let runtime = Runtime::builder().ledger(std::sync::Arc::new(VolatileLedger::default())).build();
    runtime.registry().register(helve::Layer::BuiltIn, tool).unwrap();
    let mut times = Vec::new();
    for _ in 0..=calls {
        let call = Call::new("code-execute", json!({ "language": language, "code": code }));
        let began = Instant::now();
        let outcome = runtime.call(call.by(Caller::principal("bench"))).await;
        times.push(began.elapsed());
        assert_eq!(outcome.into_result().unwrap()["stdout"], "1\n");
        tokio::time::sleep(Duration::from_millis(if warm > 0 { 250 } else { 20 })).await;
    }
    // The first one starts everything.
    median(times.split_off(1))
}

async fn timed(work: impl AsyncFnOnce()) -> Duration {
    let began = Instant::now();
    work().await;
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
