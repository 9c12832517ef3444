//! MCP programs that others wrote, started for a test. `scripts/setup-mcp.sh` installs them.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where they are installed.
pub fn home() -> PathBuf {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mcp-peers");
    let home = std::env::var_os("HELVE_MCP_PEERS").map_or_else(|| PathBuf::from(default), PathBuf::from);
    assert!(home.exists(), "run scripts/setup-mcp.sh target/mcp-peers first");
    home.canonicalize().expect("it exists")
}

/// A file of tests/peers.
pub fn script(name: &str) -> String {
    format!("{}/../helve-mcp/tests/peers/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The Python in which an SDK is installed: `python` or `python-ws`.
pub fn python(venv: &str) -> String {
    home().join(venv).join("bin/python").display().to_string()
}

/// The executable of Node 22.
pub fn node() -> String {
    home().join("bin/node").display().to_string()
}

/// A module's file within an npm package.
pub fn npm(path: &str) -> String {
    home().join("node_modules").join(path).display().to_string()
}

/// A server that was started, and dies with this value.
pub struct Peer {
    child: Child,
    /// Where it listens.
    pub port: u16,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    /// An address at it.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts a server of ours in tests/peers and waits for `READY port` on its stderr.
    #[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
    pub fn start(command: &str, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = Command::new(command)
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the counterpart starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let mut seen = Vec::new();
        let port = loop {
            let Some(Ok(line)) = lines.next() else { panic!("it ended early: {seen:#?}") };
            if let Some(port) = line.split("READY ").nth(1) {
                break port.trim().parse().expect("a port");
            }
            seen.push(line);
        };
        // It must never be stopped by a pipe that nobody reads.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port }
    }

    /// Starts server-everything with a transport that listens.
    #[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
    pub fn everything(transport: &str) -> Self {
        let port = free_port();
        let child = Command::new(node())
            .arg(npm("@modelcontextprotocol/server-everything/dist/index.js"))
            .arg(transport)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("server-everything starts");
        let peer = Self { child, port };
        peer.wait();
        peer
    }

    fn wait(&self) {
        let end = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < end, "it does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A port that nobody listened on a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
