//! Hooks that are commands: the event as JSON on stdin, the answer on stdout, and the exit code.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helve::BoxFuture;
use helve::hook::{Hook, HookContext, HookFailure, HookInput, HookOutput};
use helve::ports::{Access, Exit, ExitStatus, Launcher, Program};

use super::config::HookConfig;
use super::read_answer;
use crate::common::is_invisible;
use crate::http::{literal, template::Template};

/// Where a command finds programs, unless its configuration says so.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Most that it may write to stdout, and to stderr.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Longest reason that is passed on, in characters.
const REASON_CHARS_MAX: usize = 4_000;
/// The exit code that means: no.
const BLOCK: i32 = 2;
/// How much longer than the hook its command may take: the runtime, which waits for it, ends both.
const SPARE: Duration = Duration::from_secs(1);

/// A command.
pub(super) struct CommandHook {
    launcher: Arc<dyn Launcher>,
    label: String,
    command: PathBuf,
    args: Vec<String>,
    env: Vec<(String, Variable)>,
    folder: PathBuf,
    access: Access,
    timeout: Duration,
}

enum Variable {
    Literal(String),
    /// The value of this variable of Helve's own environment.
    FromEnvironment(String),
}

impl CommandHook {
    pub(super) fn new(
        config: &HookConfig,
        folder: &Path,
        timeout: Duration,
        launcher: Arc<dyn Launcher>,
    ) -> Result<Self, String> {
        let line = config.command.clone().unwrap_or_default();
        if line.contains('\0') || config.args.iter().flatten().any(|arg| arg.contains('\0')) {
            return Err("the command contains a NUL character".to_owned());
        }
        let (command, args) = match &config.args {
            Some(args) if line.contains('/') => (within(folder, Path::new(&line)), args.clone()),
            Some(args) => (PathBuf::from(&line), args.clone()),
            None => {
                let shell = config.shell.clone().unwrap_or_else(|| PathBuf::from("sh"));
                (shell, vec!["-c".to_owned(), line.clone()])
            }
        };
        let env = config.env.iter().map(|(name, value)| Ok((name.clone(), variable(name, value)?)));
        let paths = |paths: &[PathBuf]| paths.iter().map(|path| within(folder, path)).collect();
        let access = Access {
            read: paths(&config.read),
            write: paths(&config.write),
            network: config.network.clone(),
            unconfined: !config.confined,
            ..Access::default()
        };
        Ok(Self {
            launcher,
            label: line,
            command,
            args,
            env: env.collect::<Result<_, String>>()?,
            folder: folder.to_owned(),
            access,
            timeout,
        })
    }

    fn program(&self, input: &HookInput) -> Result<Program, HookFailure> {
        let folder = self.folder.to_string_lossy().into_owned();
        let home = std::env::home_dir().map(|home| home.to_string_lossy().into_owned());
        let mut env = vec![
            ("PATH".to_owned(), PATH.to_owned()),
            ("CLAUDE_PROJECT_DIR".to_owned(), folder.clone()),
            ("HELVE_PROJECT_DIR".to_owned(), folder),
            ("HELVE_HOOK_EVENT".to_owned(), input.event.as_str().to_owned()),
        ];
        env.extend(home.map(|home| ("HOME".to_owned(), home)));
        for (name, variable) in &self.env {
            let value = match variable {
                Variable::Literal(value) => value.clone(),
                Variable::FromEnvironment(source) => std::env::var(source).map_err(|_| {
                    HookFailure::new(format!(
                        "the environment variable `{source}`, which it needs, is not set"
                    ))
                })?,
            };
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), value));
        }
        let mut stdin = serde_json::to_vec(input).map_err(|error| HookFailure::new(error.to_string()))?;
        stdin.push(b'\n');
        Ok(Program {
            command: self.command.clone(),
            args: self.args.clone(),
            env,
            work_dir: Some(self.folder.clone()),
            stdin,
            timeout: self.timeout + SPARE,
            output_bytes_max: OUTPUT_BYTES_MAX,
            access: self.access.clone(),
        })
    }
}

impl Hook for CommandHook {
    fn fire(
        &self,
        input: Arc<HookInput>,
        context: HookContext,
    ) -> BoxFuture<'_, Result<HookOutput, HookFailure>> {
        Box::pin(async move {
            let program = self.program(&input)?;
            let exit = self.launcher.launch(program, context.cancellation().clone()).await;
            answer(&input, &exit.map_err(|error| HookFailure::new(error.to_string()))?)
        })
    }

    fn label(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.label)
    }
}

fn answer(input: &HookInput, exit: &Exit) -> Result<HookOutput, HookFailure> {
    let failed = |how: String| {
        let said = shown(&exit.stderr);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        Err(HookFailure::new(format!("{how}{said}")))
    };
    match exit.status {
        ExitStatus::Code(0) => read_answer(&input.event, &exit.stdout),
        ExitStatus::Code(BLOCK) => Ok(HookOutput::block(match shown(&exit.stderr) {
            text if text.is_empty() => "it exited with code 2 and gave no reason".to_owned(),
            text => text,
        })),
        ExitStatus::Code(code) => failed(format!("it exited with code {code}")),
        ExitStatus::Signal(signal) => failed(format!("it was killed by signal {signal}")),
        ExitStatus::TimedOut => failed("it did not answer in time".to_owned()),
        ExitStatus::OutputTooLarge => failed(format!("it wrote more than {OUTPUT_BYTES_MAX} bytes")),
        ExitStatus::OutOfMemory => failed("it used more memory than it may".to_owned()),
        ExitStatus::OutOfTime => failed("it used more of the processor than it may".to_owned()),
        ExitStatus::Cancelled => failed("it was stopped".to_owned()),
    }
}

/// What it wrote, safe to show to a model and in a terminal.
fn shown(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    let visible = text.trim().chars().filter(|c| *c != '\t' && !is_invisible(*c));
    visible.take(REASON_CHARS_MAX).collect()
}

/// A path that starts at `folder`, or at the person's home.
fn within(folder: &Path, path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) | (Err(_), _) => folder.join(path),
    }
}

fn variable(name: &str, value: &str) -> Result<Variable, String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    if !is_name(name) || name.starts_with("HELVE_") {
        return Err(format!(
            "env/{name}: a name has letters, digits and `_`, and does not begin with `HELVE_`"
        ));
    }
    if value.contains('\0') {
        return Err(format!("env/{name}: the value contains a NUL character"));
    }
    match value.strip_prefix("${env:").and_then(|rest| rest.strip_suffix('}')) {
        Some(source) if is_name(source) => Ok(Variable::FromEnvironment(source.to_owned())),
        Some(_) => Err(format!("env/{name}: a reference reads `${{env:NAME}}`")),
        None => match literal::refusal(name, &Template::text(value)) {
            Some(why) => Err(format!("env/{name}: {why}")),
            None => Ok(Variable::Literal(value.to_owned())),
        },
    }
}
