//! Secrets from the system's keyring: a real one, on a D-Bus of the test's own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::home::Home;

const SECRET: &str = "hush-2f9c-from-the-keyring";

/// What a server got as its token, so that nobody needs to see it.
const SERVER: &str = include_str!("keyring_server.py");

const CONFIG: &str = "\
[mcp.servers.local]
command = '/usr/bin/python3'
args = ['server.py']
confined = false
env = { TOKEN = { keyring = 'helve-test/me' } }

[mcp.servers.remote]
url = 'http://127.0.0.1:PORT/mcp'
headers = { Authorization = { keyring = 'helve-test/me', prefix = 'Bearer ' } }

[mcp.servers.missing]
command = '/usr/bin/python3'
args = ['server.py']
confined = false
env = { TOKEN = { keyring = 'helve-test/nobody' } }
";

/// Runs with a keyring that is unlocked and holds what comes on standard input.
const SESSION: &str = "\
set -eu
# The first line unlocks, the rest is what is stored.
read -r password
printf %s \"$password\" | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1
secret-tool store --label=test service helve-test username me
python3 server.py port &
server=$!
trap 'kill $server' EXIT
while [ ! -s port ]; do sleep 0.05; done
sed -i \"s/PORT/$(cat port)/\" helve.toml
for name in local remote missing; do \"$HELVE\" mcp trust $name --yes; done
export HELVE_LOG=helve=trace
for name in local remote missing; do
    \"$HELVE\" call $name/token --json >$name.json 2>$name.log || true
    \"$HELVE\" mcp logs $name >$name.logs 2>&1 || true
done
\"$HELVE\" mcp list --json >list.json
\"$HELVE\" mcp status --json >status.json 2>status.log || true
\"$HELVE\" mcp test local --json >test.json 2>test.log
\"$HELVE\" audit export --out calls.jsonl
";

fn home() -> Home {
    let home = Home::new();
    home.write("server.py", SERVER).write("helve.toml", CONFIG).write("session.sh", SESSION);
    home
}

#[expect(clippy::disallowed_methods, reason = "the tests start a session of their own")]
fn run_with_keyring(home: &Home) -> String {
    let runtime = tempfile::tempdir().unwrap();
    let mut session = Command::new("dbus-run-session")
        .args(["--", "sh", "session.sh"])
        .current_dir(home.project())
        .env_clear()
        .env("HOME", home.project().parent().unwrap())
        .env("XDG_RUNTIME_DIR", runtime.path())
        .env("PATH", "/usr/bin:/bin")
        .env("HELVE", env!("CARGO_BIN_EXE_helve"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dbus-run-session; scripts/setup-programs.sh installs it");
    session.stdin.take().unwrap().write_all(format!("unlock\n{SECRET}").as_bytes()).unwrap();
    let output = session.wait_with_output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    said
}

fn json_of(home: &Home, name: &str) -> Value {
    let text = std::fs::read_to_string(home.project().join(name)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
}

/// The files of a folder that hold some text.
fn holding(folder: &Path, text: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holding(&path, text, found);
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
}

#[test]
fn servers_get_secrets_from_the_keyring_and_nobody_else_sees_them() {
    let home = home();
    let said = run_with_keyring(&home);
    let digest = |text: &str| {
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(json_of(&home, "local.json")["result"], json!(digest(SECRET)), "in its environment");
    let bearer = digest(&format!("Bearer {SECRET}"));
    assert_eq!(json_of(&home, "remote.json")["result"], json!(bearer), "in a header");
    let missing = std::fs::read_to_string(home.project().join("missing.logs")).unwrap();
    assert!(missing.contains("`helve-test/nobody` in the keyring is not there"), "{missing}");
    assert_eq!(json_of(&home, "test.json")["ok"], true);
    assert!(std::fs::metadata(home.project().join("calls.jsonl")).unwrap().len() > 0);

    assert!(!said.contains(SECRET), "{said}");
    let mut found = Vec::new();
    holding(home.project().parent().unwrap(), SECRET, &mut found);
    assert_eq!(found, [""; 0], "logs, journal, state and answers do not have it");
}

#[test]
fn without_a_keyring_it_says_so() {
    let home = home();
    assert_eq!(home.run(&["mcp", "trust", "local", "--yes"]).code, 0);
    let ran = home.run(&["mcp", "test", "local", "--json"]);
    assert!(ran.stdout.contains("there is no keyring on this system"), "{}", ran.all());
    // A session without anything in it that keeps secrets.
    let gone = [("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere/bus")];
    let ran = home.run_with(&["mcp", "test", "local", "--json"], &gone, b"");
    assert!(ran.code != 0 && ran.stdout.contains("the keyring did not answer"), "{}", ran.all());
}
