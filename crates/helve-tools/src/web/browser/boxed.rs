//! Chromium in a box: no file of the host, and no way out but the proxy, which checks every request.

use std::path::PathBuf;
use std::sync::Arc;

use helve::{BoxFuture, ErrorCode, Reads, ToolError};
use helve_sandbox::{Egress, Job, Limits, PROXY_PORT, Policy, Sandbox, WORK_DIR};

use super::{BrowserPipes, StartBrowser};

/// Names of Chromium's executable, those of distributions first.
const COMMANDS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// The pipes of the DevTools protocol are the descriptors 3 and 4; a box gives 0, 1 and 2. What
/// Chromium has to say besides them is kept for the error.
const SCRIPT: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// Starts each browser in its own box.
pub struct BoxedBrowser {
    sandbox: Sandbox,
    /// The same with a way out that leads to the public internet alone.
    public: Sandbox,
    command: Option<PathBuf>,
}

impl BoxedBrowser {
    /// Browsers in boxes of `sandbox`: the one that `command` names, or the first that is installed. For pages
    /// that are public, the way out is `public`: scripts of strangers run there.
    pub fn new(sandbox: Sandbox, public: Arc<dyn Egress>, command: Option<PathBuf>) -> Self {
        let public = sandbox.with_egress(public);
        Self { sandbox, public, command }
    }

    fn command(&self) -> Option<PathBuf> {
        let known = COMMANDS.iter().map(PathBuf::from);
        self.command.clone().into_iter().chain(known).find(|command| self.sandbox.check(command).is_ok())
    }

    fn job(&self, command: PathBuf, arguments: Vec<String>) -> Job {
        let mut job = Job::new("sh")
            .args(["-c", SCRIPT, "sh"])
            .args([command.to_string_lossy().into_owned()])
            // A box does not let it make one of its own inside.
            .args(["--no-sandbox".to_owned(), "--no-zygote".to_owned()])
            .args([format!("--user-data-dir={WORK_DIR}/profile")])
            .args([format!("--proxy-server=http://127.0.0.1:{PROXY_PORT}")])
            // Addresses of this machine are the proxy's to judge as well.
            .args(["--proxy-bypass-list=<-loopback>".to_owned()])
            .args(arguments)
            .env("HOME", WORK_DIR)
            .env("LANG", "C.UTF-8");
        job.policy = Policy {
            read: ["/etc/chromium", "/etc/chromium.d", "/opt/google"]
                .map(PathBuf::from)
                .into_iter()
                .filter(|path| path.exists())
                .collect(),
            network: vec!["*".to_owned()],
            limits: Limits { memory_bytes: 2 << 30, pids: 512, work_bytes: 512 << 20, ..Limits::default() },
            min_level: self.sandbox.min_level(),
            ..Policy::default()
        };
        job
    }
}

impl StartBrowser for BoxedBrowser {
    fn start(&self, arguments: Vec<String>, reads: Reads) -> BoxFuture<'_, Result<BrowserPipes, ToolError>> {
        Box::pin(async move {
            let missing =
                || ToolError::new(ErrorCode::PreconditionFailed, "no Chromium is installed on this machine");
            let job = self.job(self.command().ok_or_else(missing)?, arguments);
            let sandbox = match reads {
                Reads::Public => &self.public,
                Reads::Private => &self.sandbox,
            };
            let mut running = sandbox.start(job).await.map_err(|error| {
                ToolError::new(
                    ErrorCode::SandboxViolation,
                    format!("the browser cannot be confined: {error}"),
                )
                .suggest("use `render: \"never\"`, or tell the operator to run `helve doctor`")
            })?;
            let pipes = running.stdin.take().zip(running.stdout.take());
            let (commands, events) = pipes.ok_or_else(|| ToolError::failed("the browser has no pipes"))?;
            Ok(BrowserPipes {
                commands: Box::new(commands),
                events: Box::new(events),
                guard: Box::new(running),
            })
        })
    }

    fn available(&self) -> bool {
        self.command().is_some()
    }
}
