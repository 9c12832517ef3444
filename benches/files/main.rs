//! What the file tools cost. `cargo bench -p helve-benches --bench files`
//!
//! Reading is compared with a plain read, searching with ripgrep, in the same run. The real `rg` is
//! needed for the second: `scripts/setup-ripgrep.sh` installs it.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve::{CallId, Caller, Context, Layer, Registry, Runtime, Tool};
use helve_tools::files::{Files, FilesConfig, RootConfig, file_tools};
use serde_json::{Value, json};

const MEGABYTE: usize = 1_000_000;
const FILES: usize = 10_000;
const FOLDERS: usize = 200;
/// One file in so many has what is searched for.
const NEEDLE_IN: usize = 50;

fn main() {
    // `cargo test --benches` runs this too; a smoke run is enough there.
    let is_real = std::env::args().any(|arg| arg == "--bench");
    let (reads, searches, files) = if is_real { (400, 15, FILES) } else { (3, 1, 200) };
    let folder = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    reading(&tokio, folder.path(), reads);
    searching(&tokio, folder.path(), searches, files);
}

/// The tools over a folder, and a runtime with them.
fn tools(folder: &Path) -> (Vec<Tool>, Runtime) {
    let roots = vec![RootConfig::Path(folder.to_owned())];
    let files = Files::builder(FilesConfig { roots, ..FilesConfig::default() }).build();
    let tools = file_tools(&files);
    let registry = Registry::default();
    registry.register_many(Layer::BuiltIn, tools.clone()).unwrap();
    (tools, Runtime::builder().registry(registry).build())
}

/// The median of several times: half were faster.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn line(label: &str, time: Duration, floor: Duration) {
    let ratio = time.as_secs_f64() / floor.as_secs_f64();
    println!("{label:<58} {:>12.1} µs {ratio:>8.2} ×", time.as_secs_f64() * 1e6);
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

async fn handled(tool: &Tool, arguments: Value) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    let id = CallId::new(jiff::Timestamp::now());
    tool.handler()
        .call(arguments, Context::new(id, tool.name().clone(), Caller::local(), deadline))
        .await
        .unwrap()
}

async fn called(runtime: &Runtime, tool: &str, arguments: Value) -> Value {
    runtime.call(helve::Call::new(tool, arguments)).await.into_result().unwrap()
}

fn reading(tokio: &tokio::runtime::Runtime, folder: &Path, rounds: usize) {
    let path = folder.join("megabyte.txt");
    let text: String =
        (0..).map(|n| format!("line {n} of a text like many others\n")).take(MEGABYTE / 20).collect();
    std::fs::write(&path, &text[..MEGABYTE]).unwrap();
    let (tools, runtime) = tools(folder);
    let read = tools.iter().find(|tool| tool.name().as_str() == "file-read").unwrap();
    let arguments = || json!({ "path": "megabyte.txt" });
    let check = |answer: Value| assert_eq!(answer["length"], MEGABYTE);
    let (mut plain, mut moved, mut handler, mut whole) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // Interleaved, because machines have their moods.
    for _ in 0..rounds {
        plain.push(timed(|| assert_eq!(std::fs::read(&path).unwrap().len(), MEGABYTE)));
        handler.push(timed(|| check(tokio.block_on(handled(read, arguments())))));
        whole.push(timed(|| check(tokio.block_on(called(&runtime, "file-read", arguments())))));
    }
    // Apart: memory that another thread took and this one gives back is new to the thread that takes it next.
    for _ in 0..rounds {
        moved.push(timed(|| {
            let path = path.clone();
            let read = async { tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await };
            assert_eq!(tokio.block_on(read).unwrap().unwrap().len(), MEGABYTE);
        }));
    }
    let floor = median(plain);
    line("1 MB: std::fs::read", floor, floor);
    line("1 MB: read_to_string on a blocking thread", median(moved), floor);
    line("1 MB: file-read, the tool alone", median(handler), floor);
    line("1 MB: file-read through the runtime", median(whole), floor);
}

fn searching(tokio: &tokio::runtime::Runtime, folder: &Path, rounds: usize, files: usize) {
    let folder = folder.join("tree");
    for number in 0..files {
        let at = folder.join(format!("folder{}/deep{}", number % FOLDERS, number % 7));
        std::fs::create_dir_all(&at).unwrap();
        let mut text: String =
            (0..60).map(|n| format!("    let value_{n} = compute({number}, {n});\n")).collect();
        if number % NEEDLE_IN == 0 {
            text.push_str("    let needle_in_haystack = find();\n");
        }
        std::fs::write(at.join(format!("file{number}.rs")), text).unwrap();
    }
    std::fs::write(folder.join(".gitignore"), "*.log\ntarget/\n").unwrap();
    let expected = files.div_ceil(NEEDLE_IN);
    let (_, runtime) = tools(&folder);
    let runtime = Arc::new(runtime);
    let arguments = || json!({ "pattern": "needle_in_[a-z]+", "max_matches": 5_000 });
    let has_rg = rg(&folder).is_some();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        if has_rg {
            theirs.push(timed(|| assert_eq!(rg(&folder), Some(expected))));
        }
        ours.push(timed(|| {
            let found = tokio.block_on(called(&runtime, "file-search", arguments()));
            assert_eq!(found["matches"].as_array().unwrap().len(), expected);
        }));
    }
    let ours = median(ours);
    if has_rg {
        let floor = median(theirs);
        line(&format!("{files} files: rg"), floor, floor);
        line(&format!("{files} files: file-search through the runtime"), ours, floor);
    } else {
        println!("rg is not installed, so there is nothing to compare with: run scripts/setup-ripgrep.sh");
        line(&format!("{files} files: file-search through the runtime"), ours, ours);
    }
}

/// How many lines ripgrep finds; nothing where it is not installed.
#[expect(clippy::disallowed_methods, reason = "the benchmark starts the real ripgrep")]
fn rg(folder: &Path) -> Option<usize> {
    let mut command = Command::new("rg");
    command.args(["--no-config", "--line-number", "--column", "--no-require-git", "needle_in_[a-z]+"]);
    let output = command.arg(folder).stdin(Stdio::null()).output().ok()?;
    Some(output.stdout.iter().filter(|byte| **byte == b'\n').count())
}
