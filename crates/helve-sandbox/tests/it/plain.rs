//! What happens to a program that runs.

use std::time::{Duration, Instant};

use helve_core::ports::{ExitStatus, Launcher, Program};
use helve_sandbox::PlainLauncher;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio_util::sync::CancellationToken;

use crate::witness::Witness;
use crate::{launch, program, shell};

#[tokio::test]
async fn a_program_gets_its_input_and_gives_its_output_and_code() {
    let script = "cat; echo \"$1\"; echo bad >&2; exit 3";
    let exit = launch(Program { stdin: b"in ".to_vec(), ..shell(script, &["a b;$HOME"]) }).await.unwrap();
    assert_eq!(exit.status, ExitStatus::Code(3));
    assert_eq!((exit.stdout.as_slice(), exit.stderr.as_slice()), (&b"in a b;$HOME\n"[..], &b"bad\n"[..]));
}

#[tokio::test]
async fn the_environment_is_exactly_what_the_program_is_given() {
    let env = vec![("ONLY".to_owned(), "this = one".to_owned())];
    let exit = launch(Program { env, ..program("env") }).await.unwrap();
    assert_eq!(String::from_utf8(exit.stdout).unwrap(), "ONLY=this = one\n");
}

#[tokio::test]
async fn it_starts_in_its_folder_or_at_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().canonicalize().unwrap();
    let exit = launch(Program { work_dir: Some(there.clone()), ..program("pwd") }).await.unwrap();
    assert_eq!(String::from_utf8(exit.stdout).unwrap().trim_end(), there.to_str().unwrap());
    assert_eq!(launch(program("pwd")).await.unwrap().stdout, b"/\n");
}

#[tokio::test]
async fn a_megabyte_both_ways_does_not_deadlock() {
    let stdin = vec![b'x'; 1 << 20];
    let exit = launch(Program { stdin: stdin.clone(), ..program("cat") }).await.unwrap();
    assert_eq!(exit.status, ExitStatus::Code(0));
    assert!(exit.stdout == stdin);
}

#[tokio::test]
async fn a_program_that_never_reads_its_huge_input_ends_in_peace() {
    let exit = launch(Program { stdin: vec![b'x'; 8 << 20], ..shell("echo done", &[]) }).await.unwrap();
    assert_eq!((exit.status, exit.stdout.as_slice()), (ExitStatus::Code(0), &b"done\n"[..]));
}

#[tokio::test]
async fn a_program_that_closes_its_streams_may_still_work_on() {
    let exit = launch(shell("exec <&- >&- 2>&-; exit 7", &[])).await.unwrap();
    assert_eq!(exit.status, ExitStatus::Code(7));
}

#[tokio::test]
async fn death_by_a_signal_is_told() {
    let exit = launch(shell("kill -TERM $$", &[])).await.unwrap();
    assert_eq!(exit.status, ExitStatus::Signal(15));
}

#[tokio::test]
async fn a_flood_on_either_stream_is_cut_at_the_bound_and_killed() {
    for script in ["yes", "yes >&2", "cat /dev/zero", "trap '' TERM PIPE; while :; do echo x; done"] {
        let program = Program { output_bytes_max: 10_000, stdin: vec![0; 1 << 20], ..shell(script, &[]) };
        let exit = launch(program).await.unwrap();
        assert_eq!(exit.status, ExitStatus::OutputTooLarge, "{script}");
        assert_eq!(exit.stdout.len().max(exit.stderr.len()), 10_000, "{script}");
    }
}

#[tokio::test]
async fn output_of_exactly_the_bound_passes() {
    let exit = launch(Program { output_bytes_max: 5, ..shell("printf 12345", &[]) }).await.unwrap();
    assert_eq!((exit.status, exit.stdout.as_slice()), (ExitStatus::Code(0), &b"12345"[..]));
    let exit = launch(Program { output_bytes_max: 4, ..shell("printf 12345", &[]) }).await.unwrap();
    assert_eq!((exit.status, exit.stdout.as_slice()), (ExitStatus::OutputTooLarge, &b"1234"[..]));
}

#[tokio::test]
async fn a_child_that_outlives_the_program_is_killed_and_does_not_delay_the_answer() {
    let witness = Witness::new();
    // The child holds the program's output as well.
    let script = format!("{} sleep 1000 & echo done", Witness::OPEN);
    let started = Instant::now();
    let exit = launch(shell(&script, &[witness.path()])).await.unwrap();
    assert_eq!((exit.status, exit.stdout.as_slice()), (ExitStatus::Code(0), &b"done\n"[..]));
    assert!(started.elapsed() < Duration::from_secs(10));
    witness.gone().await;
}

#[tokio::test]
async fn a_daemon_that_left_the_group_cannot_hold_the_answer_back() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script =
        "mkfifo $1; setsid sh -c 'echo $$; echo > $1; exec sleep 100' sh $1 & read _ < $1; echo done";
    let started = Instant::now();
    let exit = launch(shell(script, &[ready.to_str().unwrap()])).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(exit.status, ExitStatus::Code(0));
    let stdout = String::from_utf8(exit.stdout).unwrap();
    let daemon = stdout.strip_suffix("\ndone\n").unwrap().parse().unwrap();
    kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn at_the_time_limit_the_program_and_its_children_die_and_what_was_written_stays() {
    let witness = Witness::new();
    let script = format!("echo begun; {} trap '' TERM; sleep 1000 & wait; sleep 1000", Witness::OPEN);
    let timeout = Duration::from_secs(1);
    let exit = launch(Program { timeout, ..shell(&script, &[witness.path()]) }).await.unwrap();
    assert_eq!((exit.status, exit.stdout.as_slice()), (ExitStatus::TimedOut, &b"begun\n"[..]));
    witness.gone().await;
}

#[tokio::test]
async fn cancellation_kills_the_program_and_its_children() {
    let mut witness = Witness::new();
    let token = CancellationToken::new();
    let script = format!("{} sleep 1000 & wait", Witness::OPEN);
    let launcher = PlainLauncher::default();
    let running = launcher.launch(shell(&script, &[witness.path()]), token.clone());
    let (exit, ()) = tokio::join!(running, async {
        witness.up().await;
        token.cancel();
    });
    assert_eq!(exit.unwrap().status, ExitStatus::Cancelled);
    witness.gone().await;
}

/// Cleans up on SIGTERM, and writes more than a pipe holds while at it.
const CLEANS_UP: &str =
    "trap 'head -c 200000 /dev/zero; rm $2; exit 0' TERM; : > $2; while :; do sleep 0.01; done";

#[tokio::test]
async fn a_program_that_is_taken_back_may_clean_up() {
    let mut witness = Witness::new();
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let token = CancellationToken::new();
    let script = CLEANS_UP.replace("while", &format!("{} while", Witness::OPEN));
    let launcher = PlainLauncher::default();
    let program = shell(&script, &[witness.path(), lock.to_str().unwrap()]);
    let (exit, ()) = tokio::join!(launcher.launch(program, token.clone()), async {
        witness.up().await;
        assert!(lock.exists());
        token.cancel();
    });
    assert_eq!(exit.unwrap().status, ExitStatus::Cancelled);
    assert!(!lock.exists());
    witness.gone().await;
}

#[tokio::test]
async fn a_program_at_its_time_limit_may_clean_up() {
    let folder = tempfile::tempdir().unwrap();
    let (lock, begun) = (folder.path().join("lock"), Instant::now());
    let program = shell(CLEANS_UP, &["", lock.to_str().unwrap()]);
    let exit = launch(Program { timeout: Duration::from_secs(1), ..program }).await.unwrap();
    assert_eq!((exit.status, exit.stdout.len()), (ExitStatus::TimedOut, 200_000));
    assert!(!lock.exists());
    assert!(begun.elapsed() < Duration::from_secs(5), "it ended by itself, so nobody waits");
}

#[tokio::test]
async fn a_flood_while_cleaning_up_is_killed_at_once() {
    let begun = Instant::now();
    let script = "trap 'trap \"\" TERM; yes' TERM; while :; do sleep 0.01; done";
    let timeout = Duration::from_millis(200);
    let program = Program { timeout, output_bytes_max: 10_000, ..shell(script, &[]) };
    assert_eq!(launch(program).await.unwrap().status, ExitStatus::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_call_taken_back_before_it_starts_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let token = CancellationToken::new();
    token.cancel();
    let exit = PlainLauncher::default().launch(shell(": > $1", &[trace.to_str().unwrap()]), token).await;
    assert_eq!(exit.unwrap().status, ExitStatus::Cancelled);
    assert!(!trace.exists());
}

#[tokio::test]
async fn dropping_the_future_kills_the_program_and_its_children() {
    let mut witness = Witness::new();
    let script = format!("{} sleep 1000 & wait", Witness::OPEN);
    tokio::select! {
        exit = launch(shell(&script, &[witness.path()])) => panic!("it ended by itself: {exit:?}"),
        () = witness.up() => {}
    }
    witness.gone().await;
}

#[tokio::test]
async fn no_zombie_is_left_of_a_program_that_ended_or_was_killed() {
    for script in ["echo $$", "echo $$; yes"] {
        let exit = launch(Program { output_bytes_max: 10_000, ..shell(script, &[]) }).await.unwrap();
        let stdout = String::from_utf8(exit.stdout).unwrap();
        let pid = Pid::from_raw(stdout.lines().next().unwrap().parse().unwrap()).unwrap();
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        assert_eq!(waitid(WaitId::Pid(pid), peek).unwrap_err(), rustix::io::Errno::CHILD, "{script}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_programs_at_once_do_not_mix_up_their_ends() {
    let mut all = tokio::task::JoinSet::new();
    for code in 0..40 {
        all.spawn(
            async move { (code, launch(shell("exit $1", &[&code.to_string()])).await.unwrap().status) },
        );
    }
    while let Some(ended) = all.join_next().await {
        let (code, status) = ended.unwrap();
        assert_eq!(status, ExitStatus::Code(code));
    }
}
