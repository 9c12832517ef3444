//! A host that permits no namespaces, as many containers are.

use std::path::Path;

use helve_sandbox::{End, Guard, Job, Level, Sandbox, SandboxOptions};
use tokio_util::sync::CancellationToken;

use crate::boxes::{python, said, sh, text};
use crate::witness::Witness;

const INSIDE: &str = "HELVE_TEST_BARE";

/// Runs a test of this program again where no user namespace can be made.
fn without_namespaces(test: &str) {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    #[expect(clippy::disallowed_methods, reason = "the test makes the host it needs")]
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn at_level_1(mut job: Job) -> Job {
    job.policy.min_level = Level::L1;
    job
}

async fn run_job(job: Job) -> helve_sandbox::Finished {
    Sandbox::default().run(at_level_1(job), Vec::new(), CancellationToken::new()).await.unwrap()
}

#[tokio::test]
async fn without_namespaces_it_is_refused_and_says_how_to_have_them() {
    if !is_inside() {
        return without_namespaces("bare::without_namespaces_it_is_refused_and_says_how_to_have_them");
    }
    let error = Sandbox::default().run(sh("true"), Vec::new(), CancellationToken::new()).await.unwrap_err();
    assert!(error.reason.contains("user.max_user_namespaces"), "{error}");
}

#[tokio::test]
async fn what_level_1_promises_holds() {
    if !is_inside() {
        return without_namespaces("bare::what_level_1_promises_holds");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), "no").unwrap();
    let finished = run_job(sh(
        "pwd; echo a > b; cat b; cat $1/secret /etc/shadow 2>/dev/null; touch $1/x /tmp/helve-x 2>/dev/null; \
        echo $TMPDIR $HOME",
    )
    .args(["sh", folder.path().to_str().unwrap()])
    .env("HOME", "/box"))
    .await;
    let lines: Vec<_> = text(&finished.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{lines:?} {}", text(&finished.stderr));
    assert_eq!((lines[1].as_str(), lines[2].clone()), ("a", format!("{0} {0}", lines[0])));
    assert!(!std::path::Path::new(&lines[0]).exists() && !folder.path().join("x").exists());
    let confinement = &finished.confinement;
    assert_eq!(confinement.level, Level::L1);
    assert!(
        confinement.enforced.contains(&Guard::Files) && confinement.not_enforced.contains(&Guard::Processes)
    );
    assert!(confinement.why[0].contains("namespaces"), "{:?}", confinement.why);

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "import socket, os\ntry: socket.create_connection(('127.0.0.1', {port})); print('connected')\n\
        except OSError as e: print('no network')\n\
        try: os.kill({own}, 0); print('signalled')\nexcept OSError: print('no signal')",
        own = std::process::id()
    );
    assert_eq!(said(&run_job(python(&script)).await), "no network\nno signal");
}

#[tokio::test]
async fn what_a_bare_program_started_ends_with_it() {
    if !is_inside() {
        return without_namespaces("bare::what_a_bare_program_started_ends_with_it");
    }
    for then in ["sleep 0.2", "sleep 60"] {
        let witness = Witness::new();
        let mut job = leaves_one_behind(&witness, then);
        job.policy.limits.wall_ms = 600;
        let finished = run_job(job).await;
        assert!(matches!(finished.end, End::Exited { code: 0 } | End::Timeout), "{:?}", finished.end);
        witness.gone().await;
    }
}

/// A script that starts one which wants to stay, and then does something else.
fn leaves_one_behind(witness: &Witness, then: &str) -> Job {
    let script = format!("{} (setsid sh -c 'trap \"\" TERM; sleep 1000' &); {then}", Witness::OPEN);
    let mut job = sh(&script).args(["sh", witness.path()]);
    job.policy.write = vec![Path::new(witness.path()).parent().unwrap().to_owned()];
    job
}

#[tokio::test]
async fn what_a_bare_program_started_ends_when_it_is_dropped() {
    if !is_inside() {
        return without_namespaces("bare::what_a_bare_program_started_ends_when_it_is_dropped");
    }
    let mut witness = Witness::new();
    let running =
        Sandbox::default().start(at_level_1(leaves_one_behind(&witness, "sleep 60"))).await.unwrap();
    witness.up().await;
    drop(running);
    witness.gone().await;
}

#[tokio::test]
async fn a_network_cannot_be_granted_without_namespaces() {
    if !is_inside() {
        return without_namespaces("bare::a_network_cannot_be_granted_without_namespaces");
    }
    let mut job = at_level_1(sh("true"));
    job.listen = vec![1234];
    let error = Sandbox::default().start(job).await.map(drop).unwrap_err();
    assert!(error.reason.contains("without namespaces no network"), "{error}");
}

#[tokio::test]
async fn at_level_1_nothing_is_granted_around_what_is_helves_own() {
    if !is_inside() {
        return without_namespaces("bare::at_level_1_nothing_is_granted_around_what_is_helves_own");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    ["settings", "journal", "beside"].into_iter().for_each(|name| std::fs::write(at(name), "kept").unwrap());
    let run = async |options: SandboxOptions, grant: std::path::PathBuf| {
        let mut job = at_level_1(sh("echo evil > $1/settings; echo evil > $1/journal; echo x > $1/beside"));
        job.args.extend(["sh".to_owned(), folder.path().to_str().unwrap().to_owned()]);
        job.policy.write = vec![grant];
        Sandbox::new(options).run(job, Vec::new(), CancellationToken::new()).await
    };
    let unwritable =
        || SandboxOptions { unwritable: [at("settings")].into_iter().collect(), ..Default::default() };
    let hidden = || SandboxOptions { hidden: vec![at("journal")], ..Default::default() };
    for options in [unwritable(), hidden()] {
        let error = run(options, folder.path().to_owned()).await.unwrap_err();
        assert!(error.reason.contains("cannot be kept from it"), "{error}");
    }
    run(unwritable(), at("beside")).await.unwrap();
    let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
    assert_eq!(
        (read("settings"), read("journal"), read("beside")),
        ("kept".into(), "kept".into(), "x\n".into())
    );
}

#[tokio::test]
async fn at_level_1_a_program_may_lie_in_a_folder_that_it_writes() {
    if !is_inside() {
        return without_namespaces("bare::at_level_1_a_program_may_lie_in_a_folder_that_it_writes");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["venv/bin", "venv/lib"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::copy("/bin/sh", at("venv/bin/program")).unwrap();
    std::fs::write(at("venv/lib/hook"), "kept").unwrap();
    let run = async |options: SandboxOptions| {
        let mut job = at_level_1(Job::new(at("venv/bin/program")));
        job.args = vec!["-c".to_owned(), format!("echo x > {}", at("out").display())];
        job.policy.write = vec![folder.path().to_owned()];
        Sandbox::new(options).run(job, Vec::new(), CancellationToken::new()).await
    };
    let finished = run(SandboxOptions::default()).await.unwrap();
    assert_eq!(finished.end, End::Exited { code: 0 }, "{}", said(&finished));
    assert_eq!(std::fs::read_to_string(at("out")).unwrap(), "x\n");
    // What is Helve's own is not open either where it lies in what is only read of the program.
    let unwritable = [at("venv/lib/hook")].into_iter().collect();
    let error = run(SandboxOptions { unwritable, ..Default::default() }).await.unwrap_err();
    assert!(error.reason.contains("venv/lib/hook` cannot be kept from it"), "{error}");
}
