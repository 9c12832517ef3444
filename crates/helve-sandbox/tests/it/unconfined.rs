//! Long-lived programs that the operator trusts: nothing holds them back, and nothing of them stays.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use helve_sandbox::{End, FileIn, Guard, Job, Level, Limits, RunningBox, Sandbox};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

use crate::boxes::{LONG, run_job, said, text};
use crate::witness::Witness;

/// A shell script; `$1` and so on are `args`.
fn sh(script: &str, args: &[&str]) -> Job {
    let mut job = Job::new("/bin/sh").args(["-c", script, "sh"]).args(args.iter().copied());
    job.policy.unconfined = true;
    job
}

fn python(script: &str, args: &[&str]) -> Job {
    let mut job = Job::new("/usr/bin/python3").args(["-I", "-c", script]).args(args.iter().copied());
    job.policy.unconfined = true;
    job
}

async fn start(job: Job) -> RunningBox {
    Sandbox::default().start(job).await.unwrap()
}

async fn refusal(job: Job) -> String {
    Sandbox::default().start(job).await.map(drop).unwrap_err().reason
}

/// Leaves its session twice, hears no signal that can be held back, and keeps the witness's FIFO open.
const HIDES: &str = "exec 3> \"$1\"; \
    (setsid sh -c 'trap \"\" TERM HUP INT; (setsid sleep 60 &); echo up >&3; sleep 60' &)";

#[tokio::test]
async fn it_is_talked_with_both_ways_and_says_how_it_ended() {
    let mut running =
        start(sh("while read line; do echo \"got $line\"; done; echo bad >&2; exit 7", &[])).await;
    let mut stdin = running.stdin.take().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    for word in ["one", "two"] {
        stdin.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("got {word}"));
    }
    drop(stdin);
    assert_eq!(lines.next_line().await.unwrap(), None);
    let mut errors = String::new();
    running.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
    assert_eq!(errors, "bad\n");
    for _ in 0..2 {
        assert_eq!(running.wait().await.end, End::Exited { code: 7 });
    }
    assert_eq!(running.finish().await.end, End::Exited { code: 7 });
}

#[tokio::test]
async fn it_has_what_it_is_given_and_otherwise_what_helve_has() {
    let mut job = Job::new("/usr/bin/env");
    job.policy.unconfined = true;
    job.env = vec![("ONLY".to_owned(), "this = one".to_owned()), ("B".to_owned(), String::new())];
    assert_eq!(said(&run_job(job).await), "ONLY=this = one\nB=");
    // 3 is the listing itself.
    assert_eq!(said(&run_job(sh("ls /proc/self/fd", &[])).await), "0\n1\n2\n3");
    for file in ["limits", "cgroup", "oom_score_adj", "uid_map"] {
        let own = fs::read_to_string(format!("/proc/self/{file}")).unwrap();
        assert_eq!(said(&run_job(sh("cat /proc/self/$1", &[file])).await), own.trim_end(), "{file}");
    }
    // Python itself ignores two.
    let script = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), \
        [s for s in signal.valid_signals() if signal.getsignal(s) == signal.SIG_IGN])";
    assert_eq!(
        said(&run_job(python(script, &[])).await),
        "set() [<Signals.SIGPIPE: 13>, <Signals.SIGXFSZ: 25>]"
    );
}

#[tokio::test]
async fn it_starts_where_it_is_told_in_a_session_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = sh("pwd", &[]);
    assert_eq!(said(&run_job(job.clone()).await), "/");
    job.work_dir = Some(folder.path().to_owned());
    assert_eq!(said(&run_job(job).await), folder.path().to_str().unwrap());
    let script = "import os; print(os.getpid() == os.getpgid(0) == os.getsid(0))";
    assert_eq!(said(&run_job(python(script, &[])).await), "True");
}

#[tokio::test]
async fn it_is_said_that_nothing_confines_it_whatever_the_least_level() {
    let mut job = sh("cat; echo x > $1/new", &[]);
    job.policy.min_level = Level::L3;
    let mut running = start(job).await;
    let confinement = running.confinement().clone();
    assert_eq!((confinement.level, confinement.enforced), (Level::L0, vec![Guard::Children]));
    assert_eq!(confinement.not_enforced.len(), Guard::ALL.len() - 1);
    assert_eq!(confinement.why, ["the operator has said that it is not to be confined"]);
    let put = running.put(&[FileIn { path: "a".into(), content: Vec::new(), executable: false }]).await;
    assert!(put.unwrap_err().to_string().contains("there is no work directory"));
    assert_eq!(running.finish().await.end, End::Signaled { signal: 9 });
}

#[tokio::test]
async fn time_and_output_hold_where_somebody_attends_to_it() {
    let mut job = sh("yes", &[]);
    job.policy.limits.output_bytes = 10_000;
    assert_eq!(run_job(job).await.end, End::OutputLimit);
    let mut job = sh("sleep 60", &[]);
    job.policy.limits.wall_ms = 200;
    assert_eq!(run_job(job).await.end, End::Timeout);
}

#[tokio::test]
async fn what_hid_dies_when_it_is_killed_and_when_the_program_ends() {
    let mut witness = Witness::new();
    let mut running = start(sh(&format!("{HIDES}; sleep 60"), &[witness.path()])).await;
    witness.up().await;
    running.kill();
    assert_eq!(running.wait().await.end, End::Signaled { signal: 9 });
    witness.gone().await;

    let witness = Witness::new();
    let script = format!("{HIDES}; sleep 0.3; exit 4");
    assert_eq!(start(sh(&script, &[witness.path()])).await.wait().await.end, End::Exited { code: 4 });
    witness.gone().await;
}

#[tokio::test]
async fn what_hid_dies_when_it_is_dropped() {
    let mut witness = Witness::new();
    let sandbox = Sandbox::default();
    let running = sandbox.start(sh(&format!("{HIDES}; sleep 60"), &[witness.path()])).await.unwrap();
    witness.up().await;
    drop(running);
    witness.gone().await;
}

#[tokio::test]
async fn it_lives_until_it_is_dropped_also_without_its_sandbox() {
    let mut running = start(sh("sleep 0.5; echo still; sleep 60", &[])).await;
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "still");
    drop(running);
    assert_eq!(lines.next_line().await.unwrap(), None);
}

#[tokio::test]
async fn everybody_is_asked_to_end_and_who_does_not_is_ended() {
    let mut witness = Witness::new();
    let script = "exec 3> \"$1\"; trap 'echo parent' TERM; \
        setsid sh -c 'trap \"echo child\" TERM; echo up >&3; while :; do sleep 0.05; done' & \
        while :; do sleep 0.05; done";
    let mut running = start(sh(script, &[witness.path()])).await;
    witness.up().await;
    running.terminate();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut heard = Vec::new();
    while heard.len() < 2 {
        heard.push(lines.next_line().await.unwrap().unwrap());
    }
    heard.sort();
    assert_eq!(heard, ["child", "parent"]);
    assert_eq!(running.finish().await.end, End::Signaled { signal: 9 });
    witness.gone().await;
}

#[tokio::test]
async fn who_ends_when_asked_says_with_what_code() {
    let mut running = start(sh("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done", &[])).await;
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    lines.next_line().await.unwrap().unwrap();
    running.terminate();
    assert_eq!(running.wait().await.end, End::Exited { code: 5 });
}

/// Forks and ends, again and again, each in its own session: its id is an old one before it is read.
/// Both end by themselves long after the test has failed: a machine is to survive it.
const RUNS_AWAY: &str = "import os, sys, time\n\
    fd = os.open(sys.argv[1], os.O_WRONLY); os.write(fd, b'up'); end = time.time() + 30\n\
    while time.time() < end:\n if os.fork(): os._exit(0)\n os.setsid()";
/// Forks to a depth, and again whenever one of the children has died.
const MULTIPLIES: &str = "import os, signal, sys, time\n\
    fd = os.open(sys.argv[1], os.O_WRONLY); os.write(fd, b'up'); end = time.time() + 30\n\
    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
    def live(depth):\n\
    \x20depth % 2 and os.setsid()\n\
    \x20children = 0\n\
    \x20while time.time() < end:\n\
    \x20 if depth == 4: time.sleep(0.01); continue\n\
    \x20 if children == 3: os.wait(); children = 2\n\
    \x20 if not os.fork(): live(depth + 1); os._exit(0)\n\
    \x20 children += 1\n\
    live(0)";

#[tokio::test]
async fn no_fork_is_too_fast() {
    let witness = Witness::new();
    start(python(RUNS_AWAY, &[witness.path()])).await.wait().await;
    witness.gone().await;

    let mut witness = Witness::new();
    let mut running = start(python(MULTIPLIES, &[witness.path()])).await;
    witness.up().await;
    // A crowd takes a moment to grow.
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.finish().await;
    witness.gone().await;
}

/// Starts a program in a copy of this test program, to be killed.
#[tokio::test]
async fn helper_that_is_killed() {
    if let Ok(fifo) = std::env::var("HELVE_TEST_FIFO") {
        let sandbox = Sandbox::default();
        let mut running = sandbox.start(sh(&format!("{HIDES}; sleep 60"), &[&fifo])).await.unwrap();
        running.wait().await;
    }
}

#[tokio::test]
async fn what_hid_dies_with_helve_however_it_dies() {
    for signal in [Signal::KILL, Signal::TERM] {
        let mut witness = Witness::new();
        let mut helve = copy_of_this("unconfined::helper_that_is_killed", "HELVE_TEST_FIFO", witness.path())
            .spawn()
            .unwrap();
        witness.up().await;
        kill_process(Pid::from_raw(i32::try_from(helve.id()).unwrap()).unwrap(), signal).unwrap();
        helve.wait().unwrap();
        witness.gone().await;
    }
}

fn copy_of_this(test: &str, variable: &str, value: &str) -> std::process::Command {
    #[expect(clippy::disallowed_methods, reason = "the test needs a Helve of its own")]
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(variable, value).stdout(Stdio::null());
    command
}

#[tokio::test]
async fn neither_ctrl_c_nor_the_launchers_end_takes_the_one_who_ends_the_rest() {
    let mut witness = Witness::new();
    let sandbox = Sandbox::default();
    let job = sh(&format!("{HIDES}; echo $$; cat"), &[witness.path()]);
    let mut running = sandbox.start(job).await.unwrap();
    witness.up().await;
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let program = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    let processes = below(std::process::id());
    let parent_of = |pid| processes.iter().find(|one| one.pid == pid).unwrap().parent;
    let supervisor = parent_of(program);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::PIPE] {
        kill_process(Pid::from_raw(supervisor).unwrap(), signal).unwrap();
    }
    kill_process(Pid::from_raw(parent_of(supervisor)).unwrap(), Signal::KILL).unwrap();
    running.stdin.as_mut().unwrap().write_all(b"still\n").await.unwrap();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "still");
    drop(running);
    witness.gone().await;
    // And the next one gets its own launcher.
    let mut next = sandbox.start(sh("exit 6", &[])).await.unwrap();
    assert_eq!(next.wait().await.end, End::Exited { code: 6 });
}

struct Process {
    pid: i32,
    parent: i32,
    name: String,
}

/// Every process below one, also those that have ended and were not reaped.
fn below(root: u32) -> Vec<Process> {
    let mut all: HashMap<i32, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let (head, rest) = stat.rsplit_once(')').unwrap();
        let parent = rest.split_whitespace().nth(1).unwrap().parse().unwrap();
        let name = head.split_once('(').unwrap().1.to_owned();
        all.entry(parent).or_default().push(Process { pid, parent, name });
    }
    let mut found = all.remove(&i32::try_from(root).unwrap()).unwrap_or_default();
    let mut at = 0;
    while at < found.len() {
        let children = all.remove(&found[at].pid);
        found.extend(children.into_iter().flatten());
        at += 1;
    }
    found
}

#[tokio::test]
async fn two_hundred_starts_leave_nothing_behind() {
    let test = "unconfined::two_hundred_starts_leave_nothing_behind";
    if std::env::var_os("HELVE_TEST_ALONE").is_none() {
        // In its own process: other tests open and start things of theirs.
        let output = copy_of_this(test, "HELVE_TEST_ALONE", "1").stdout(Stdio::piped()).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
        return;
    }
    let sandbox = Sandbox::default();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let one = async |turn: u32| {
        let mut running = sandbox.start(sh("(setsid sleep 60 &); cat; exit 3", &[])).await.unwrap();
        match turn % 3 {
            0 => drop(running),
            1 => drop(running.finish().await),
            _ => {
                running.stdin.take();
                assert_eq!(running.wait().await.end, End::Exited { code: 3 });
            }
        }
    };
    one(0).await;
    let before = descriptors();
    for turn in 0..200 {
        one(turn).await;
    }
    assert_eq!(descriptors(), before);
    // The launcher, a keeper, and the box that it has ready where it may.
    let began = Instant::now();
    loop {
        let left = below(std::process::id());
        if left.len() <= 3 {
            break;
        }
        let names: Vec<_> = left.iter().map(|one| &one.name).collect();
        assert!(began.elapsed() < LONG, "{names:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let launcher = below(std::process::id()).into_iter().find(|one| one.name == "helve-launcher").unwrap();
    let open = fs::read_dir(format!("/proc/{}/fd", launcher.pid)).unwrap().count();
    assert!(open < 10, "the launcher holds {open} descriptors");
}

#[tokio::test]
async fn a_name_is_looked_up_in_its_own_path_first() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["uname", "only-here"] {
        let file = folder.path().join(name);
        fs::write(&file, "#!/bin/sh\necho own\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("relative::{}:/nowhere", folder.path().display());
    for name in ["uname", "only-here"] {
        let mut job = Job::new(name).env("PATH", &path);
        let confined = Sandbox::default().run(job.clone(), Vec::new(), CancellationToken::new()).await;
        assert!(confined.is_err() || text(&confined.unwrap().stdout) == "Linux\n");
        job.policy.unconfined = true;
        assert_eq!(said(&run_job(job).await), "own");
    }
    let mut job = Job::new("cat").env("PATH", &path);
    job.policy.unconfined = true;
    assert_eq!(said(&run_job(job).await), "");
}

#[tokio::test]
async fn what_cannot_be_started_is_refused_with_the_reason() {
    let mut job = Job::new("no-such-program").env("PATH", "/own/bin");
    job.policy.unconfined = true;
    assert!(refusal(job).await.contains("no such program in /own/bin, /usr/local/bin, /usr/bin, /bin"));
    let mut job = sh("true", &[]);
    job.work_dir = Some("/nowhere".into());
    assert!(refusal(job.clone()).await.contains("its folder `/nowhere` cannot be entered"));
    job.work_dir = Some("here".into());
    assert!(refusal(job).await.contains("the path is relative; give the full path"));
    assert!(refusal(sh("true", &["a\0b"])).await.contains("a NUL character"));
    let mut job = sh("true", &[]);
    job.listen = vec![1234];
    assert!(refusal(job).await.contains("it is not confined, so it has no work directory"));
    let folder = tempfile::tempdir().unwrap();
    for (name, content, reason) in [
        ("bare", "echo hello\n", "nor a script whose first line names its interpreter"),
        ("lost", "#!/no/interpreter\n", "the interpreter that its first line (`#!`) names is not there"),
    ] {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let mut job = Job::new(&file);
        job.policy.unconfined = true;
        let said = refusal(job).await;
        assert!(said.contains(reason), "{said}");
    }
}

#[tokio::test]
async fn a_confined_program_can_be_long_lived_too() {
    let mut job = Job::new("/bin/sh").args(["-c", "ulimit -t"]);
    job.policy.limits = Limits { cpu_s: 1, wall_ms: 1, output_bytes: 1, ..Limits::default() }.long_lived();
    assert_eq!(said(&run_job(job).await), "unlimited");
}
