//! A real PostgreSQL, started for a test, and a pooler before it. `scripts/setup-postgres.sh` installs them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::peers::free_port;

/// Who may do everything in it.
const USER: &str = "helve";

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A durable server on loopback with a new cluster. Both go with this value.
pub struct Postgres {
    folder: PathBuf,
    port: u16,
    server: Option<Child>,
    databases: AtomicU32,
}

impl Postgres {
    /// Makes a cluster and starts it.
    pub fn start() -> Self {
        let port = free_port();
        // Short: a socket lives in it.
        let folder = PathBuf::from(format!("/tmp/helve-pg-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        give_away(&folder);
        let data = folder.join("data");
        let made =
            plain("initdb", &["-D", &text(&data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"])
                .output()
                .expect("initdb starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut postgres = Self { folder, port, server: None, databases: AtomicU32::new(0) };
        postgres.start_again();
        postgres
    }

    /// The address of a new, empty database.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        format!("postgres://{USER}@127.0.0.1:{}/{name}", self.port)
    }

    /// The address of a copy of a database, to which no client may be connected.
    pub fn copy(&self, database: &str) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let template = database.rsplit('/').next().expect("there is a last part");
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        format!("postgres://{USER}@127.0.0.1:{}/{name}", self.port)
    }

    /// What a statement answers, one line a row. Behind everybody's back.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        // The last part of an address names it, too.
        let database = database.rsplit('/').next().expect("there is a last part");
        let port = self.port.to_string();
        let args =
            ["-h", "127.0.0.1", "-p", &port, "-U", USER, "-d", database, "-qtAX", "-v", "ON_ERROR_STOP=1"];
        let done = program("psql").args(args).args(["-c", statement]).output().expect("psql starts");
        assert!(done.status.success(), "{statement}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
    }

    /// Where it listens on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it as a crash would: nothing is written down, and the next start recovers.
    pub fn crash(&mut self) {
        if let Some(mut server) = self.server.take() {
            signal("QUIT", server.id());
            server.wait().expect("it ends");
        }
    }

    /// Starts it again, and waits until it answers.
    pub fn start_again(&mut self) {
        let (data, port, folder) =
            (text(&self.folder.join("data")), self.port.to_string(), text(&self.folder));
        let setting = |name: &str, value: &str| format!("{name}={value}");
        let settings = [
            setting("listen_addresses", "127.0.0.1"),
            setting("port", &port),
            setting("unix_socket_directories", &folder),
            setting("fsync", "on"),
            setting("deadlock_timeout", "200ms"),
        ];
        let mut args = vec!["-D", &data];
        settings.iter().for_each(|setting| args.extend(["-c", setting]));
        let log = std::fs::File::create(self.folder.join("log")).expect("a log can be made");
        let server = plain("postgres", &args)
            .stdout(Stdio::null())
            .stderr(Stdio::from(log))
            .spawn()
            .expect("the server starts");
        self.server = Some(server);
        self.wait(&port);
    }

    fn wait(&mut self, port: &str) {
        let deadline = Instant::now() + PATIENCE;
        let asked = ["-q", "-h", "127.0.0.1", "-p", port, "-U", USER, "-d", "postgres"];
        while !program("pg_isready").args(asked).status().is_ok_and(|status| status.success()) {
            let ended = self.server.as_mut().is_some_and(|server| matches!(server.try_wait(), Ok(Some(_))));
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(!ended && Instant::now() < deadline, "the server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.crash();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// pgbouncer in transaction mode before a server: no statement can count on the connection of the one before it.
pub struct Pooler {
    folder: PathBuf,
    port: u16,
    process: Child,
}

impl Pooler {
    /// Starts one before `server`.
    pub fn start(server: &Postgres) -> Self {
        let port = free_port();
        let folder = PathBuf::from(format!("/tmp/helve-bouncer-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let config = folder.join("pgbouncer.ini");
        std::fs::write(
            &config,
            format!(
                "[databases]\n* = host=127.0.0.1 port={} user={USER}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {port}\nauth_type = any\npool_mode = transaction\nmax_client_conn = 200\n\
                 default_pool_size = 10\nunix_socket_dir =\n",
                server.port
            ),
        )
        .expect("its settings can be written");
        give_away(&folder);
        let process = plain("pgbouncer", &["-q", &text(&config)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbouncer starts");
        let pooler = Self { folder, port, process };
        let deadline = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "pgbouncer does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        pooler
    }

    /// The same database, by way of the pooler.
    pub fn before(&self, database: &str) -> String {
        let name = database.rsplit('/').next().expect("there is a last part");
        format!("postgres://{USER}@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A program of the newest PostgreSQL that is here, which Debian keeps out of `PATH`.
fn path_of(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin").join(name)))
        })
        .filter(|(_, path)| path.exists())
        .collect();
    found.sort();
    let elsewhere = || ["/usr/sbin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
    found
        .pop()
        .map(|(_, path)| path)
        .or_else(|| elsewhere().into_iter().find(|path| path.exists()))
        .unwrap_or_else(|| panic!("run scripts/setup-postgres.sh first: there is no {name}"))
}

#[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
fn program(name: &str) -> Command {
    Command::new(path_of(name))
}

/// A program as a plain user, since PostgreSQL refuses to run as root, that ends with the test.
#[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
fn plain(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if let Some(user) = another_user() {
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    command.arg("--").arg(path_of(name)).args(args).current_dir("/");
    command
}

/// Gives a folder to the user as whom the servers run.
#[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
fn give_away(folder: &Path) {
    if let Some(user) = another_user() {
        let given = Command::new("chown").args(["-R", user]).arg(folder).status().expect("chown starts");
        assert!(given.success(), "the folder cannot be given to {user}");
    }
}

/// Debian's package makes a user of that name.
fn another_user() -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;
    let us = std::fs::metadata("/proc/self").expect("there is /proc").uid();
    (us == 0).then_some("postgres")
}

#[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{pid} cannot be sent {name}");
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
