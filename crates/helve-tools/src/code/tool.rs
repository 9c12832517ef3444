//! The tool itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helve::run::Recalled;
use helve::{Annotations, Category, Context, ErrorCode, Facet, Risk, Source, Tool, ToolBuilder, ToolError};
use helve_sandbox::{
    Attendance, CollectLimits, Confinement, End, FileOut, Finished, Job, LeftOut, Limits, Policy, RunningBox,
    Sandbox, Usage, WORK_DIR, collect,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::files::{self, Artifact, Given};
use super::language::{Language, OWN_DIR, with_require};
use super::nesting::Active;
use super::session::{Session, keepable};
use super::warm::Warm;
use super::{blocked, bridge};

/// Most that is kept of a work directory between calls, in files.
const SESSION_FILES_MAX: usize = 10_000;
/// How long after a session was found in use it is asked for again.
const SESSION_ASK_AGAIN: Duration = Duration::from_millis(20);

/// What `code-execute` may do. The keys of `[code]` in the configuration.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CodeOptions {
    /// The interpreter of Python: a path, or a name to be looked up in the system's folders. Packages that
    /// are installed with it can be used.
    pub python: Option<PathBuf>,
    /// The interpreter of JavaScript.
    pub javascript: Option<PathBuf>,
    /// The shell that runs scripts.
    pub shell: Option<PathBuf>,
    /// Files and folders that code may read besides the system's.
    pub read: Vec<PathBuf>,
    /// Hosts that code may reach, as `HOST:PORT`, through a proxy.
    pub network: Vec<String>,
    /// Commands that are refused outright.
    pub blocked_commands: Vec<String>,
    /// Whether code may call other tools of its caller.
    pub call_tools: bool,
    /// Interpreters of each language that are started ahead, once the first was needed; 0 for none.
    #[schemars(range(max = 16))]
    pub warm: usize,
    /// Files that a call gives back.
    #[schemars(range(max = 1_000))]
    pub artifacts_max: usize,
    /// Bytes of one file that a call gives back; of a larger one, only its name and size.
    pub artifact_bytes_max: u64,
    /// Where work directories are kept that a call asks to keep. Without it: next to the journal.
    pub sessions: Option<PathBuf>,
}

impl Default for CodeOptions {
    fn default() -> Self {
        Self {
            python: None,
            javascript: None,
            shell: None,
            read: Vec::new(),
            network: Vec::new(),
            blocked_commands: ["rm -rf /", "sudo", ":(){:|:&};:"].map(str::to_owned).into(),
            call_tools: true,
            warm: 1,
            artifacts_max: 50,
            artifact_bytes_max: 1 << 20,
            sessions: None,
        }
    }
}

impl CodeOptions {
    fn interpreter(&self, language: Language) -> PathBuf {
        let given = match language {
            Language::Python => &self.python,
            Language::Javascript => &self.javascript,
            Language::Shell => &self.shell,
        };
        given.clone().unwrap_or_else(|| language.command().into())
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// What the code is written in.
    language: Language,
    /// The program text to run.
    #[schemars(length(max = 1_000_000))]
    code: String,
    /// What it reads from its standard input.
    #[serde(default)]
    #[schemars(length(max = 10_000_000))]
    stdin: Option<String>,
    /// Files that lie in the work directory when it starts.
    #[serde(default)]
    #[schemars(length(max = 100))]
    files: Vec<Given>,
    /// A name for a work directory that is kept: calls of one session with the same name find what the ones
    /// before left.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    session: Option<String>,
    /// How long it may run, in milliseconds; the tool's own time is the most.
    #[serde(default)]
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// `exited`, or why it was stopped: `signaled`, `timeout`, `memory_limit`, `cpu_limit`, `output_limit`.
    status: &'static str,
    /// The exit code, where it ended by itself; 0 is success.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// What it wrote.
    stdout: String,
    /// What it wrote to standard error.
    stderr: String,
    /// Whether it wrote more than that.
    truncated: bool,
    /// Files that it made or changed.
    artifacts: Vec<Artifact>,
    /// What lies in the kept work directory now and will not be there at the next call.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_kept: Option<NotKept>,
    /// What it used.
    usage: Usage,
    /// How it was confined.
    sandbox: Confinement,
}

/// Links and the like, names that are no text, and what is too much.
#[derive(Debug, Serialize, JsonSchema)]
struct NotKept {
    /// How many files were not kept.
    count: usize,
    /// The first of them.
    paths: Vec<String>,
}

impl NotKept {
    fn of(left_out: &LeftOut) -> Option<Self> {
        let paths = left_out.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        (left_out.count > 0).then_some(Self { count: left_out.count, paths })
    }
}

/// The tool `code-execute`. Without a folder for them, work directories cannot be kept.
pub fn code_tool(options: CodeOptions, sandbox: Sandbox, limits: Limits) -> ToolBuilder {
    let (facets, open_world) = (facets(&options), !options.network.is_empty());
    let reach = match options.network.is_empty() {
        true => "The code has no network".to_owned(),
        false => format!("The code reaches {} and no other host", options.network.join(", ")),
    };
    let runner =
        Arc::new(Runner { options, sandbox, limits, warm: Warm::default(), active: Active::default() });
    let recalling = Arc::clone(&runner);
    Tool::function(
        "code-execute",
        format!(
            "Runs Python, JavaScript (Node.js) or shell code in a sandbox and returns what it wrote, its exit code \
             and the files it made. {reach}, and sees no files but those given to it; packages that are installed on \
             this machine can be used. Other tools can be called from the code: `import helve; \
             helve.call(\"tool-name\", key=value)` in Python, `import helve from \"helve\"; await \
             helve.call(\"tool-name\", {{…}})` in JavaScript, `helve tool-name '{{…}}'` in the shell."
        ),
        move |input: Input, context: Context| {
            let runner = Arc::clone(&runner);
            async move { Box::pin(runner.run(input, context)).await }
        },
    )
    .alias("code:execute")
    .when_to_use(
        "For computing, parsing, converting and checking things that are easier in code than in words, and to do many \
         tool calls at once with loops and conditions instead of one by one. Print what you want to see. Not for \
         fetching web pages: other tools do that, also when the code calls them.",
    )
    .example_call(
        "What is the 200th prime?",
        json!({ "language": "python", "code": "n, found = 1, 0\nwhile found < 200:\n    n += 1\n    found += all(n % d for d in range(2, int(n ** 0.5) + 1))\nprint(n)" }),
    )
    .example_call(
        "Sum the second column of this CSV",
        json!({ "language": "python", "code": "import csv\nprint(sum(float(r[1]) for r in csv.reader(open('data.csv'))))", "files": [{ "path": "data.csv", "content": "a,1\nb,2\n" }] }),
    )
    .example_call("Which Node.js is this?", json!({ "language": "javascript", "code": "console.log(process.version)" }))
    .source(Source::Builtin)
    .category(Category::Code)
    .risk(Risk::Medium)
    .annotations(Annotations {
        title: Some("Run code".to_owned()),
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world,
    })
    .facets(facets)
    .recall_handled(move |input: Value, context: Context| {
        let recalled = recalling.recall(&input, &context);
        async move { Ok(recalled) }
    })
}

struct Runner {
    options: CodeOptions,
    sandbox: Sandbox,
    limits: Limits,
    warm: Warm,
    active: Active,
}

impl Runner {
    async fn run(&self, input: Input, context: Context) -> Result<Output, ToolError> {
        let _own = self.active.enter(&context)?;
        if let Some(command) = blocked::find(&input.code, &self.options.blocked_commands) {
            let message = format!("the code holds `{command}`, which is blocked here");
            return Err(ToolError::new(ErrorCode::SandboxViolation, message)
                .suggest("do it another way; the operator can change `code.blocked_commands`"));
        }
        let given = files::read(input.files)?;
        let session = self.open_session(input.session.as_deref(), &context).await?;
        let (session, mut all, before) = aside(move || {
            let mut all = match &session {
                Some(session) => session.load().map_err(|error| kept_failed(&error))?,
                None => Vec::new(),
            };
            all.retain(|old| given.iter().all(|new| new.path != old.path));
            all.extend(given);
            let before = files::digests(&all);
            Ok((session, all, before))
        })
        .await?;
        let code_file = input.language.code_file(&input.code);
        let code = match code_file.extension() {
            Some(newer) if newer == "mjs" => with_require(&input.code),
            _ => input.code,
        };
        all.push(helve_sandbox::FileIn {
            path: code_file.clone(),
            content: code.into_bytes(),
            executable: false,
        });

        let time = context.time_left().as_millis().min(u128::from(input.timeout_ms.unwrap_or(u64::MAX)));
        let limits = Limits { wall_ms: u64::try_from(time).unwrap_or(u64::MAX), ..self.limits.clone() };
        let stdin = input.stdin.unwrap_or_default().into_bytes();
        let (mut running, stdin) = self.start(input.language, &code_file, all, stdin, &limits).await?;
        let stop = context.cancellation().child_token();
        // Dropped with this, and with it whatever it answers.
        let mut bridge = JoinSet::new();
        if let Some(listener) = running.listeners.pop() {
            bridge.spawn(bridge::serve(listener, context.clone(), stop.clone()));
        }
        let attendance = Attendance { stdin: Some(stdin), limits, ..Attendance::default() };
        let finished = running.attend(attendance, stop.clone()).await;
        self.warm_up(input.language);
        if stop.is_cancelled() && !context.is_cancelled() {
            // Calls parallel to the one that waits are still wanted: the code will ask for them again.
            let _ = tokio::time::timeout(context.time_left(), bridge.join_next()).await;
            // What it left is forgotten: when a person has decided, the code runs again from its start.
            return Err(ToolError::new(ErrorCode::PermissionDenied, "a call of the code waits for a person"));
        }
        drop(bridge);
        if finished.end == End::Cancelled && !context.time_left().is_zero() {
            return Err(ToolError::new(ErrorCode::Cancelled, "the call was taken back and the code stopped"));
        }
        let (work_bytes, limits, call) = (self.limits.work_bytes, self.artifact_limits(), context.call_id());
        aside(move || {
            let (left, mut left_out) = take(&finished, work_bytes)?;
            let mut not_kept = None;
            if let Some(session) = session {
                session.save(call, &left).map_err(|error| kept_failed(&error))?;
                left.iter().filter(|file| keepable(file).is_none()).for_each(|file| left_out.add(&file.path));
                not_kept = NotKept::of(&left_out);
            }
            Ok(output(finished, files::artifacts(&left, &before, &limits), not_kept))
        })
        .await
    }

    /// What became of a call that was cut short.
    ///
    /// What it does outside of its box it does by other tools, which know how far they have come: so it can run
    /// again when a person has decided about one of them. Of what it did over a network nobody knows; and on a
    /// folder that already holds what it left, it would not do the same again.
    fn recall(&self, input: &Value, context: &Context) -> Recalled {
        let is_kept = match (input["session"].as_str(), &self.options.sessions) {
            (Some(name), Some(folder)) => {
                Session::was_kept_by(folder, context.caller(), name, context.call_id()).unwrap_or(true)
            }
            (_, None) | (None, _) => false,
        };
        match is_kept || !self.options.network.is_empty() {
            true => Recalled::Unknown,
            false => Recalled::WillNotHappen,
        }
    }

    /// A box in which the code runs, and what it reads: one that waited for it, or a new one.
    async fn start(
        &self,
        language: Language,
        code_file: &Path,
        files: Vec<helve_sandbox::FileIn>,
        stdin: Vec<u8>,
        limits: &Limits,
    ) -> Result<(RunningBox, Vec<u8>), ToolError> {
        if let Some(mut waiting) = self.warm.take(language)
            && waiting.put(&files).await.is_ok()
        {
            // The first line says that the code is there; what follows is the code's own.
            return Ok((waiting, [b"\n".as_slice(), &stdin].concat()));
        }
        let mut job = self.job(language, code_file);
        job.files.extend(files);
        job.policy.limits = limits.clone();
        let started = self.sandbox.start(job).await.map_err(|error| {
            let known = self.sandbox.check(&self.options.interpreter(language)).is_ok();
            let code = if known { ErrorCode::ExecutionFailed } else { ErrorCode::IntegrationMissing };
            ToolError::new(code, format!("{} cannot be run here: {error}", language.as_str()))
                .suggest("use another language, or tell the operator to run `helve doctor`")
        })?;
        Ok((started, stdin))
    }

    fn job(&self, language: Language, file: &Path) -> Job {
        let own = format!("{WORK_DIR}/{OWN_DIR}");
        let mut job = Job::new(self.options.interpreter(language))
            .env("HOME", WORK_DIR)
            .env("LANG", "C.UTF-8")
            .env("PATH", format!("{own}/bin:{}", helve_sandbox::policy::PATH));
        if language == Language::Python {
            job = job
                .env("PYTHONPATH", format!("{WORK_DIR}:{own}"))
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .args(["-u"]);
        }
        job = job.args([format!("{WORK_DIR}/{}", file.display())]);
        job.files = language.own_files();
        if self.options.call_tools {
            job.listen = vec![bridge::PORT];
        }
        job.policy = Policy {
            read: self.options.read.clone(),
            network: self.options.network.clone(),
            limits: self.limits.clone(),
            min_level: self.sandbox.min_level(),
            ..Policy::default()
        };
        job
    }

    /// Starts the interpreter for the next call.
    fn warm_up(&self, language: Language) {
        if let Some(file) = language.warm_file() {
            let mut job = self.job(language, &Path::new(OWN_DIR).join(file));
            if language == Language::Python {
                job = job.args([format!("{WORK_DIR}/{OWN_DIR}/code.py")]);
            }
            self.warm.fill(language, self.options.warm, &self.sandbox, job);
        }
    }

    async fn open_session(
        &self,
        name: Option<&str>,
        context: &Context,
    ) -> Result<Option<Session>, ToolError> {
        let Some(name) = name.map(str::to_owned) else { return Ok(None) };
        let Some(folder) = self.options.sessions.clone() else {
            return Err(ToolError::failed(
                "work directories cannot be kept here: the operator has named no folder",
            ));
        };
        let caller = Arc::clone(context.caller());
        // Asked again and again rather than waited for: who waits holds a thread, and there may be many.
        loop {
            let (folder, caller, name) = (folder.clone(), Arc::clone(&caller), name.clone());
            let opened = tokio::task::spawn_blocking(move || Session::open(&folder, &caller, &name)).await;
            match opened {
                Ok(Ok(Some(session))) => return Ok(Some(session)),
                Ok(Ok(None)) => tokio::time::sleep(SESSION_ASK_AGAIN).await,
                Ok(Err(error)) => return Err(kept_failed(&error)),
                Err(_) => return Err(ToolError::failed("the work directory could not be opened")),
            }
        }
    }

    fn artifact_limits(&self) -> files::Limits {
        files::Limits {
            files: self.options.artifacts_max,
            file_bytes: self.options.artifact_bytes_max,
            total_bytes: self.options.artifact_bytes_max.saturating_mul(4),
        }
    }
}

/// Work on files, where it holds up nobody: there may be many, and large ones.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(ToolError::failed("the work directory cannot be used")))
}

/// What the code has left in its work directory.
fn take(finished: &Finished, bytes: u64) -> Result<(Vec<FileOut>, LeftOut), ToolError> {
    let limits = CollectLimits { files: SESSION_FILES_MAX, file_bytes: bytes, total_bytes: bytes };
    let wanted = |path: &Path| !path.starts_with(OWN_DIR) && !path.ends_with("__pycache__");
    collect(std::os::fd::AsFd::as_fd(&finished.work_dir), limits, &wanted)
        .map_err(|error| ToolError::failed(format!("the files that the code made cannot be read: {error}")))
}

fn output(finished: Finished, artifacts: Vec<Artifact>, not_kept: Option<NotKept>) -> Output {
    let (exit_code, signal) = match finished.end {
        End::Exited { code } => (Some(code), None),
        End::Signaled { signal } => (None, Some(signal)),
        _ => (None, None),
    };
    // At the deadline the runtime also cancels; then time is what was missing.
    let end = if finished.end == End::Cancelled { End::Timeout } else { finished.end };
    Output {
        status: end.as_str(),
        exit_code,
        signal,
        stdout: String::from_utf8_lossy(&finished.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&finished.stderr).into_owned(),
        truncated: finished.truncated,
        artifacts,
        not_kept,
        usage: finished.usage,
        sandbox: finished.confinement,
    }
}

/// What the code can come by itself. What it does through other tools is theirs to say.
fn facets(options: &CodeOptions) -> Vec<Facet> {
    let mut facets = vec![Facet::Mutates];
    if !options.network.is_empty() {
        facets.extend([Facet::ReadsUntrusted, Facet::Egress]);
    }
    if !options.read.is_empty() {
        facets.push(Facet::ReadsPrivate);
    }
    facets
}

fn kept_failed(error: &std::io::Error) -> ToolError {
    ToolError::failed(format!("the kept work directory cannot be used: {error}"))
}
