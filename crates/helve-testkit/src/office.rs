//! Real mail, calendar and contacts servers, started for a test. `scripts/setup-office.sh` installs them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Servers on loopback that stop with this value.
///
/// `alice`, `bob` and `carol` of `example.test` have accounts; a password is the name with `-pw`.
pub struct OfficeServers {
    folder: PathBuf,
    scripts: PathBuf,
    endpoints: Value,
}

impl OfficeServers {
    /// Dovecot (IMAP), an SMTP sink that delivers into it and has faults by recipient, Radicale (CalDAV, CardDAV).
    pub fn start() -> Self {
        Self::run("start.sh", "")
    }

    /// Cyrus: JMAP, CalDAV with scheduling, and IMAP.
    pub fn start_jmap() -> Self {
        Self::run("start.sh", "jmap")
    }

    #[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
    fn run(script: &str, sub: &str) -> Self {
        let scripts =
            PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/office-servers")).join(sub);
        // Others may take a port between our look and the start.
        for _ in 0..20 {
            let base = free_base();
            // Short: sockets live below it.
            let folder = PathBuf::from(format!("/tmp/helve-office-{}-{base}", std::process::id()));
            let done = Command::new("bash")
                .arg(scripts.join(script))
                .arg(&folder)
                .env("PORT_BASE", base.to_string())
                .env("PYTHON", home().join("python/bin/python"))
                .env("CYRUS_ROOT", home().join("cyrus"))
                .output()
                .expect("bash starts");
            if done.status.success() {
                let text =
                    std::fs::read_to_string(folder.join("endpoints.json")).expect("it says where it listens");
                return Self { folder, scripts, endpoints: serde_json::from_str(&text).expect("JSON") };
            }
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            let _ = std::fs::remove_dir_all(&folder);
            assert!(said.contains("is taken"), "{said}");
        }
        panic!("no ports are free");
    }

    /// What `endpoints.json` says at a JSON pointer, as text.
    pub fn text(&self, pointer: &str) -> String {
        self.endpoints
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no {pointer}"))
            .to_owned()
    }

    /// What `endpoints.json` says at a JSON pointer, as a port.
    pub fn port(&self, pointer: &str) -> u16 {
        let port =
            self.endpoints.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer}"));
        u16::try_from(port).expect("a port")
    }

    /// Where everything is kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every mail that the SMTP server took: one JSON object for each DATA that it accepted.
    pub fn sent(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.text("/sent_log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for OfficeServers {
    #[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
    fn drop(&mut self) {
        let _ = Command::new("bash").arg(self.scripts.join("stop.sh")).arg(&self.folder).output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Where they are installed.
pub fn home() -> PathBuf {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/office-servers");
    let home = std::env::var_os("HELVE_OFFICE_SERVERS").map_or_else(|| PathBuf::from(default), PathBuf::from);
    assert!(home.exists(), "run scripts/setup-office.sh target/office-servers first");
    home.canonicalize().expect("it exists")
}

/// A number from which on twenty ports are likely to be free.
fn free_base() -> u16 {
    let taken = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    // The system's own range begins above; each process begins elsewhere in this one.
    let spread = (u32::from(taken.port()) * 7919 + std::process::id()) % 550;
    20_000 + u16::try_from(spread).expect("below 550") * 20
}
