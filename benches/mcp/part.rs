//! A part of the benchmark in its own process.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Part {
    child: Child,
    port: u16,
    /// Where it answers.
    path: &'static str,
    /// How long it took to be ready.
    pub(crate) ready: Duration,
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Part {
    /// Starts this program in a role.
    pub(crate) fn start(role: &str, env: &[(&str, &str)]) -> Self {
        let mut command = new(std::env::current_exe().unwrap());
        command.env("MCP_BENCH_ROLE", role).envs(env.iter().copied());
        Self::ready(command, role)
    }

    /// Starts FastMCP's proxy, where it is installed.
    pub(crate) fn fastmcp(upstream: &str) -> Option<Self> {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/mcp-peers/python/bin/python");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/fastmcp_proxy.py");
        python.exists().then(|| {
            let mut command = new(python);
            command.arg(script).arg(upstream);
            Self::ready(command, "FastMCP")
        })
    }

    /// Starts the `mcp-proxy` crate's gateway, where it is installed.
    pub(crate) fn mcp_proxy(upstream: &str) -> Option<Self> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/mcp-peers/bin/mcp-proxy");
        program.exists().then(|| {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let config = format!(
                "[proxy]\nname = \"peer\"\nseparator = \"_\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {}\n\
                 [[backends]]\nname = \"backend\"\ntransport = \"http\"\nurl = \"{upstream}\"\n",
                free.port()
            );
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("proxy.toml");
            std::fs::write(&file, config).unwrap();
            let mut command = new(program);
            command.arg("--config").arg(&file).env("RUST_LOG", "error");
            let began = Instant::now();
            let child =
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let mut part = Self { child, port: free.port(), path: "/", ready: Duration::ZERO };
            while TcpStream::connect(free).is_err() {
                assert!(began.elapsed() < Duration::from_secs(10), "mcp-proxy does not listen");
                std::thread::sleep(Duration::from_millis(20));
            }
            part.ready = began.elapsed();
            part
        })
    }

    fn ready(mut command: Command, what: &str) -> Self {
        let began = Instant::now();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next().unwrap_or_else(|| panic!("{what} ended early")).unwrap();
            if let Some(port) = line.strip_prefix("READY ") {
                break port.trim().parse().unwrap();
            }
        };
        let ready = began.elapsed();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port, path: "/mcp", ready }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    /// Processor time so far.
    pub(crate) fn cpu_us(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks * 10_000.0
    }

    pub(crate) fn rss_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark starts its parts")]
fn new(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}
