//! Its own home for each test, and the binary run in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A home with nothing in it.
pub(crate) struct Home {
    dir: TempDir,
}

/// What the binary did.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        // A boundary: nothing above the temporary folder is ever taken for the project.
        std::fs::create_dir_all(home.project().join(".git")).unwrap();
        home
    }

    /// Where commands are run.
    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.project().join(name), text).unwrap();
        self
    }

    /// The command, not yet started.
    #[expect(clippy::disallowed_methods, reason = "the tests start the real binary")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helve"));
        command.args(args).current_dir(self.project()).env_clear();
        command.env("HOME", self.dir.path()).env("TZ", "UTC").env("PATH", "/usr/bin:/bin");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[], b"")
    }

    pub(crate) fn run_with(&self, args: &[&str], variables: &[(&str, &str)], stdin: &[u8]) -> Ran {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that does not read its input closes it.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().expect("ended by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must work, and reads its answer as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// Runs under filters that hide what differs from run to run.
    pub(crate) fn settled(&self, check: impl FnOnce(&Self)) {
        let mut settings = insta::Settings::clone_current();
        let folder = |path: &Path| path.display().to_string();
        settings.add_filter(&folder(&self.dir.path().canonicalize().unwrap()), "[home]");
        settings.add_filter(&folder(self.dir.path()), "[home]");
        settings.add_filter(r"call_[0-9A-Z]{26}", "[call]");
        settings.add_filter(r"apr_[0-9A-Z]{26}", "[approval]");
        settings.add_filter(r"\b[0-9a-f]{64}\b", "[hash]");
        settings.add_filter(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?", "[time]");
        settings.add_filter(r"\d+(\.\d+)? (µs|ms|s)\b", "[took]");
        settings.add_filter(r"Linux .* cores?", "[machine]");
        settings.add_filter(r"[\d.]+ GB free", "[space] free");
        // Columns are as wide as their longest cell, and that differs too.
        settings.add_filter(r"(\S) {2,}", "$1  ");
        settings.bind(|| check(self));
    }
}

impl Ran {
    /// Everything there is to see, for a snapshot.
    pub(crate) fn all(&self) -> String {
        let stderr =
            if self.stderr.is_empty() { String::new() } else { format!("--- stderr\n{}", self.stderr) };
        format!("{}{stderr}--- exit {}", self.stdout, self.code)
    }
}

/// Waits until something holds that is sure to, a minute at most.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < end, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
