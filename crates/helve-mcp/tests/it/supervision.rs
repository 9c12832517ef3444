//! Servers that die, come back, go to sleep or hang; and what their callers see of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use helve::ErrorCode;
use helve_mcp::config::{ServerConfig, Setting, Start};
use helve_mcp::servers::{ServerEventKind, ServerState, SetServers};
use helve_testkit::peers::{Peer, free_port, python, script};
use serde_json::json;

use crate::person::Person;
use crate::plain::{LONG, comes_to, eventually, is_gone, kill, plain, text};
use crate::setup::Setup;

/// A gate that calls of `read` and `write` wait at.
fn gate(folder: &Path) -> serde_json::Value {
    json!({ "gate": folder.join("open") })
}

fn open(folder: &Path) {
    std::fs::write(folder.join("open"), "").unwrap();
}

#[tokio::test]
async fn a_server_killed_amid_a_hundred_calls_hangs_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = plain();
    config.limits.calls = 200;
    let setup = Setup::with("it", config).await;
    let pid = setup.pid("it").await;
    let call = |at: usize| {
        let tool = if at.is_multiple_of(2) { "it/read" } else { "it/write" };
        setup.call(tool, gate(folder.path()))
    };
    let calls = join_all((0..100).map(call));
    let killer = async {
        setup.logged("it", "begins", 100).await;
        kill(pid);
        setup.logged("it", "was killed by signal 9 (SIGKILL)", 1).await;
        open(folder.path());
    };
    let (outcomes, ()) = tokio::time::timeout(LONG, async { tokio::join!(calls, killer) }).await.unwrap();
    for (at, outcome) in outcomes.into_iter().enumerate() {
        if at.is_multiple_of(2) {
            // To read twice does no harm, so it is done again.
            let read = text(outcome);
            assert!(read.starts_with("read by ") && !read.ends_with(&format!(" {pid}")), "{read}");
        } else {
            let error = outcome.error().expect("what may have happened is not done again");
            assert_eq!(error.code(), ErrorCode::McpConnection, "{error}");
        }
    }
    is_gone(pid).await;
    let status = setup.assert_connected("it");
    assert_eq!(status.restarts, 1);
    assert_eq!(text(setup.call("it/say", json!({ "words": "well again" })).await), "said");
    let second = setup.pid("it").await;
    setup.servers.close().await;
    is_gone(second).await;
}

#[tokio::test]
async fn a_server_that_is_away_fails_its_calls_at_once_and_comes_back_by_itself() {
    let port = free_port();
    let setup = Setup::with("echo", ServerConfig::remote(format!("http://127.0.0.1:{port}/mcp"))).await;
    let status = setup.status("echo");
    assert_eq!(status.state, ServerState::Failed);
    assert!(status.reason.is_some(), "{status:?}");
    let mut events = setup.servers.subscribe();
    let args = [script("echo_mcp.py"), "http".to_owned(), port.to_string()];
    let start = || Peer::start(&python("python"), &args.each_ref().map(String::as_str), &[]);
    let peer = start();
    comes_to(&mut events, "echo", ServerState::Connected).await;
    eventually("its tools are there", async || setup.status("echo").tools > 0).await;
    assert_eq!(text(setup.call("echo/echo", json!({ "message": "hi" })).await), r#"{"result":"hi"}"#);
    drop(peer);
    let gone = setup.call("echo/add", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(gone.error().map(|error| error.code()), Some(ErrorCode::McpConnection), "{gone:?}");
    comes_to(&mut events, "echo", ServerState::Failed).await;
    let _peer = start();
    comes_to(&mut events, "echo", ServerState::Connected).await;
    let sum = setup.call("echo/add", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(sum.into_result().unwrap(), json!({ "total": 3 }));
}

#[tokio::test]
async fn callers_do_not_start_a_broken_server_faster_than_its_backoff() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let code = "import sys; open(sys.argv[1], 'a').write('.'); sys.exit('no such database')";
    let broken = ServerConfig {
        confined: false,
        ..ServerConfig::program(
            python("python"),
            ["-c".to_owned(), code.to_owned(), starts.display().to_string()],
        )
    };
    let setup = Setup::new();
    setup.servers.set(BTreeMap::from([("broken".to_owned(), broken)])).await;
    setup.servers.settled().await;
    let status = setup.status("broken");
    assert_eq!(status.state, ServerState::Failed);
    let reason = status.reason.unwrap();
    assert!(reason.contains("exit code 1") && reason.contains("no such database"), "{reason}");
    for _ in 0..50 {
        setup.servers.refresh("broken").await;
    }
    let count = || std::fs::read_to_string(&starts).unwrap().len();
    assert!(count() < 10, "it was started {} times", count());
    let before = count();
    eventually("it is tried again", async || count() > before).await;
}

#[tokio::test]
async fn an_idle_server_is_stopped_and_the_next_call_starts_it_again() {
    let config = ServerConfig { start: Start::OnDemand, idle_stop_s: Some(1), ..plain() };
    let setup = Setup::with("it", config).await;
    let mut events = setup.servers.subscribe();
    let first = setup.pid("it").await;
    comes_to(&mut events, "it", ServerState::Pending).await;
    is_gone(first).await;
    assert!(setup.runtime.registry().has("it/pid"), "its tools stay known");
    assert_ne!(setup.pid("it").await, first);
    setup.assert_connected("it");
}

#[tokio::test]
async fn a_server_on_demand_that_died_waits_for_the_next_call() {
    let setup = Setup::with("it", ServerConfig { start: Start::OnDemand, ..plain() }).await;
    let mut events = setup.servers.subscribe();
    kill(setup.pid("it").await);
    comes_to(&mut events, "it", ServerState::Failed).await;
    // One that is eager would be back by now. What does not happen has no other sign; real processes have no other clock.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((setup.status("it").state, setup.status("it").restarts), (ServerState::Failed, 0));
    setup.pid("it").await;
    assert_eq!(setup.assert_connected("it").restarts, 1);
}

#[tokio::test]
async fn a_server_that_does_not_answer_pings_is_started_anew() {
    let setup = Setup::with("it", ServerConfig { health_s: 1, ..plain() }).await;
    let mut events = setup.servers.subscribe();
    let first = setup.pid("it").await;
    text(setup.call("it/hush", json!({})).await);
    comes_to(&mut events, "it", ServerState::Failed).await;
    comes_to(&mut events, "it", ServerState::Connected).await;
    is_gone(first).await;
    assert_ne!(setup.pid("it").await, first);
    setup.logged("it", "does not answer to a ping", 1).await;
}

#[tokio::test]
async fn a_client_with_a_connection_of_its_own_has_its_own_server() {
    let setup = Setup::with("it", ServerConfig { shared: false, ..plain() }).await;
    let (ann, bob) = (Person::named("ann"), Person::named("bob"));
    let pid = async |who| text(setup.call_for(who, "it/pid", json!({})).await);
    let (of_ann, of_bob) = (pid(&ann).await, pid(&bob).await);
    assert_ne!(of_ann, of_bob);
    assert_eq!(pid(&ann).await, of_ann, "and keeps it");
    let ask =
        async |who, message: &str| text(setup.call_for(who, "it/ask", json!({ "message": message })).await);
    let (to_ann, to_bob) = tokio::join!(ask(&ann, "for ann"), ask(&bob, "for bob"));
    assert!(to_ann.contains(r#""name": "ann""#) && to_bob.contains(r#""name": "bob""#), "{to_ann} {to_bob}");
    for (who, message) in [(&ann, "for ann"), (&bob, "for bob")] {
        let asked = who.asked();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].1["message"], message);
    }
}

#[tokio::test]
async fn a_question_that_could_be_for_either_of_two_clients_is_put_to_neither() {
    let setup = Setup::with("it", plain()).await;
    let (ann, bob) = (Person::named("ann"), Person::named("bob"));
    let alone = text(setup.call_for(&ann, "it/ask", json!({})).await);
    assert!(alone.contains(r#""name": "ann""#), "{alone}");
    let folder = tempfile::tempdir().unwrap();
    let of_bob = setup.call_for(&bob, "it/write", gate(folder.path()));
    let of_ann = async {
        setup.logged("it", "write begins", 1).await;
        let asked = text(setup.call_for(&ann, "it/ask", json!({})).await);
        open(folder.path());
        asked
    };
    let (of_bob, of_ann) = tokio::join!(of_bob, of_ann);
    text(of_bob);
    assert!(of_ann.contains(r#""action": "cancel""#), "{of_ann}");
    assert_eq!((ann.asked().len(), bob.asked().len()), (1, 0));
    setup.logged("it", "shared = false", 1).await;
}

#[tokio::test]
async fn a_question_of_a_call_that_was_given_up_is_put_to_nobody_else() {
    let setup = Setup::with("it", plain()).await;
    let (ann, bob) = (Person::named("ann"), Person::named("bob"));
    let folder = tempfile::tempdir().unwrap();
    let (asks, writes) = (folder.path().join("asks"), folder.path().join("writes"));
    let of_ann = setup.call_for(&ann, "it/ask", json!({ "gate": asks, "message": "for Ann" }));
    let given_up = tokio::time::timeout(Duration::from_millis(300), of_ann).await;
    assert!(given_up.is_err(), "nobody was asked yet");
    let of_bob = setup.call_for(&bob, "it/write", json!({ "gate": writes }));
    let meanwhile = async {
        setup.logged("it", "write begins", 1).await;
        std::fs::write(&asks, "").unwrap();
        setup.logged("it", "shared = false", 1).await;
        std::fs::write(&writes, "").unwrap();
    };
    let (of_bob, ()) = tokio::join!(of_bob, meanwhile);
    text(of_bob);
    assert_eq!((ann.asked().len(), bob.asked().len()), (0, 0), "{:?}", bob.asked());
}

#[tokio::test]
async fn a_bad_server_does_not_hide_the_tools_of_others() {
    let setup = Setup::new();
    let gone = format!("http://127.0.0.1:{}/", free_port());
    let set = setup
        .servers
        .set(BTreeMap::from([
            ("absent".to_owned(), ServerConfig::program("/no/such/program", [""; 0])),
            ("closed".to_owned(), ServerConfig::remote(gone)),
            ("dumb".to_owned(), ServerConfig { confined: false, ..ServerConfig::program("cat", [""; 0]) }),
            ("good".to_owned(), plain()),
            ("off".to_owned(), ServerConfig { enabled: false, ..plain() }),
        ]))
        .await;
    assert!(set.errors.is_empty(), "{set:?}");
    let settled = tokio::time::timeout(Duration::from_secs(60), setup.servers.settled()).await;
    settled.expect("a bad server settles too");
    assert!(text(setup.call("good/read", json!({})).await).starts_with("read by"));
    for name in ["absent", "closed", "dumb"] {
        let status = setup.status(name);
        assert_eq!(status.state, ServerState::Failed, "{status:?}");
        assert!(status.reason.is_some(), "{status:?}");
    }
    assert_eq!(setup.status("off").state, ServerState::Disabled);
    assert!(!setup.runtime.registry().has("off/read"));
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_is_disabled_and_restarted() {
    let setup = Setup::with("off", ServerConfig { enabled: false, ..plain() }).await;
    assert!(setup.servers.restart("off").await);
    let settled = tokio::time::timeout(Duration::from_secs(10), setup.servers.settled()).await;
    settled.expect("it is settled that it does not come");
    assert_eq!(setup.status("off").state, ServerState::Disabled);
}

#[tokio::test]
async fn twenty_servers_are_connected_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    // None of them says a word before all twenty have been started.
    let barrier = format!("{}:20", folder.path().display());
    let config = ServerConfig {
        env: BTreeMap::from([("BARRIER".to_owned(), Setting::from(barrier.as_str()))]),
        ..plain()
    };
    let setup = Setup::new();
    setup.servers.set((0..20).map(|at| (format!("s{at}"), config.clone())).collect()).await;
    setup.servers.settled().await;
    for at in 0..20 {
        assert!(setup.assert_connected(&format!("s{at}")).tools > 10);
    }
}

#[tokio::test]
async fn servers_are_changed_while_others_go_on() {
    let setup = Setup::new();
    let set = async |configs: &[(&str, ServerConfig)]| {
        let configs = configs.iter().map(|(name, config)| ((*name).to_owned(), config.clone()));
        let set = setup.servers.set(configs.collect()).await;
        setup.servers.settled().await;
        set
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let first = set(&[("a", plain()), ("b", plain()), ("c", plain())]).await;
    assert_eq!(first, SetServers { added: names(&["a", "b", "c"]), ..SetServers::default() });
    let (a, b) = (setup.pid("a").await, setup.pid("b").await);

    let mut events = setup.servers.subscribe();
    let changed = ServerConfig { timeout_s: 7, ..plain() };
    let both = ServerConfig { url: Some("https://a.example".to_owned()), ..plain() };
    let second = set(&[("a", plain()), ("b", changed), ("d", plain()), ("e", both)]).await;
    assert_eq!((second.added, second.removed), (names(&["b", "d"]), names(&["c"])));
    assert_eq!(second.errors.keys().collect::<Vec<_>>(), ["e"]);
    assert_eq!(setup.pid("a").await, a, "what did not change goes on");
    assert_ne!(setup.pid("b").await, b);
    is_gone(b).await;
    assert!(!setup.runtime.registry().has("c/pid"));
    assert!(setup.runtime.registry().has("d/pid"));
    let mut heard = Vec::new();
    while let Ok(event) = events.try_recv() {
        heard.push((event.server.to_string(), event.kind));
    }
    for expected in ["b", "d"] {
        for kind in [ServerEventKind::State(ServerState::Connected), ServerEventKind::Offer] {
            assert!(heard.contains(&(expected.to_owned(), kind.clone())), "{expected} {kind:?} {heard:?}");
        }
    }
    assert!(heard.contains(&("c".to_owned(), ServerEventKind::Offer)), "{heard:?}");
    assert!(heard.iter().all(|(name, _)| name != "a"), "{heard:?}");
}

#[tokio::test]
async fn a_call_that_still_runs_does_not_bring_back_a_server_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let starts = tempfile::tempdir().unwrap();
    // Each start leaves a file.
    let barrier = format!("{}:1", starts.path().display());
    let config = ServerConfig {
        env: BTreeMap::from([("BARRIER".to_owned(), Setting::from(barrier.as_str()))]),
        ..plain()
    };
    let setup = Setup::with("it", config).await;
    let calling = setup.call("it/read", gate(folder.path()));
    let removing = async {
        setup.logged("it", "read begins", 1).await;
        setup.servers.set(BTreeMap::new()).await;
        open(folder.path());
    };
    let (outcome, ()) = tokio::time::timeout(LONG, async { tokio::join!(calling, removing) }).await.unwrap();
    let error = outcome.error().expect("nobody is left to do it").clone();
    assert_eq!(error.code(), ErrorCode::McpConnection, "{error}");
    assert!(!setup.runtime.registry().has("it/read"));
    assert_eq!(std::fs::read_dir(starts.path()).unwrap().count(), 1, "it was started once");
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_was_stopped_before_it_had_come() {
    let starts = tempfile::tempdir().unwrap();
    // It waits for a second one that never comes.
    let barrier = format!("{}:2", starts.path().display());
    let config = ServerConfig {
        env: BTreeMap::from([("BARRIER".to_owned(), Setting::from(barrier.as_str()))]),
        ..plain()
    };
    let setup = Setup::new();
    setup.servers.set(BTreeMap::from([("it".to_owned(), config)])).await;
    let stopping = async {
        tokio::task::yield_now().await;
        setup.servers.set(BTreeMap::new()).await;
    };
    let settled = async { tokio::join!(setup.servers.settled(), stopping) };
    tokio::time::timeout(Duration::from_secs(10), settled)
        .await
        .expect("it is settled that it does not come");
}

#[tokio::test]
async fn a_server_sees_nothing_of_our_environment_and_its_last_words_are_kept() {
    // Cargo sets this for us, as one of many.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let env = BTreeMap::from([("GREETING".to_owned(), Setting::from("hello"))]);
    let setup = Setup::with("it", ServerConfig { env, ..plain() }).await;
    let seen = setup.call("it/env", json!({})).await.into_result().unwrap();
    let mut names: Vec<_> = seen.as_object().unwrap().keys().map(String::as_str).collect();
    // What Python sets for itself.
    names.retain(|name| *name != "LC_CTYPE");
    names.sort_unstable();
    assert_eq!(names, ["GREETING", "HOME", "PATH"]);
    for at in 0..2_000 {
        text(setup.call("it/say", json!({ "words": format!("line {at} \u{1b}[31mred") })).await);
    }
    setup.logged("it", "line 1999 red", 1).await;
    let lines = setup.servers.log("it", 10_000).unwrap();
    assert!(lines.len() < 2_000, "{} lines are kept", lines.len());
    kill(setup.pid("it").await);
    setup.logged("it", "its last words: line 1999", 1).await;
}

#[tokio::test]
async fn a_confined_server_works_and_reads_only_what_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.json");
    std::fs::write(&secret, r#"[{ "name": "leaked", "inputSchema": { "type": "object" } }]"#).unwrap();
    // It reads the file when it lists its tools.
    let with = |read: Vec<std::path::PathBuf>| {
        let script = Path::new(&script("plain.py")).canonicalize().unwrap();
        let args = [script.display().to_string(), secret.display().to_string()];
        ServerConfig { read: [read, vec![script]].concat(), ..ServerConfig::program("python3", args) }
    };
    let setup = Setup::with("it", with(vec![secret.clone()])).await;
    assert!(
        setup.runtime.registry().has("it/leaked"),
        "{:?} {:?}",
        setup.status("it"),
        setup.servers.log("it", 20)
    );
    assert!(text(setup.call("it/read", json!({})).await).starts_with("read by"));
    let setup = Setup::with("it", with(Vec::new())).await;
    assert!(!setup.runtime.registry().has("it/leaked"));
}

/// Not a test: a Helve to be killed.
#[tokio::test]
async fn helper_that_is_killed() {
    let Ok(file) = std::env::var("HELVE_TEST_PIDS") else { return };
    let setup = Setup::with("it", ServerConfig { shared: false, ..plain() }).await;
    let own = text(setup.call_for(&Person::named("ann"), "it/pid", json!({})).await);
    std::fs::write(&file, format!("{} {own} .", setup.pid("it").await)).unwrap();
    std::future::pending().await
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test needs a Helve to kill")]
async fn servers_die_with_helve_however_it_dies() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut helve = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "supervision::helper_that_is_killed"])
        .env("HELVE_TEST_PIDS", &file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pids = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually("it has its servers", async || pids().ends_with('.')).await;
    helve.kill().await.unwrap();
    let pids: Vec<i32> = pids().split(' ').filter_map(|pid| pid.parse().ok()).collect();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        is_gone(pid).await;
    }
}
