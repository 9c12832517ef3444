//! Hooks that are commands: the event as JSON on stdin, the answer on stdout, and the exit code.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helve::BoxFuture;
use helve::hook::{Background, Hook, HookContext, HookEvent, HookFailure, HookInput, HookOutput};
use helve::ports::{Access, Exit, ExitStatus, LaunchError, Launcher, Program, Seen};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::config::HookConfig;
use super::read_answer;
use crate::common::is_invisible;
use crate::program::Variable;

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
/// Most that a command may go on by itself, whatever it asks for.
const ASYNC_MAX: Duration = Duration::from_secs(600);
/// Longest first line that is looked at while the command runs.
const FIRST_LINE_BYTES_MAX: usize = 4_096;

/// A hook that runs a program.
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
        let env = config.env.iter().map(|(name, value)| {
            let variable = Variable::read(name, value).map_err(|why| format!("env/{name}: {why}"))?;
            Ok((name.clone(), variable))
        });
        let access = config.reach.clone().placed(|path| within(folder, path)).access();
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

    /// Lets a command that has said so go on by itself, for as long as it asked for.
    fn leave(
        &self,
        background: Background,
        running: Pin<Box<dyn Future<Output = Result<Exit, LaunchError>> + Send>>,
        token: CancellationToken,
        context: &HookContext,
    ) -> Result<HookOutput, HookFailure> {
        let time = background.async_timeout.map_or(self.timeout, Duration::from_millis).min(ASYNC_MAX);
        let by = self.label.clone();
        let rest = async move {
            let _ended = token.drop_guard();
            match tokio::time::timeout(time, running).await {
                Ok(Ok(Exit { status: ExitStatus::Code(0), .. })) => {}
                Ok(Ok(exit)) => tracing::warn!(by, status = ?exit.status, "a hook in the background failed"),
                Ok(Err(error)) => tracing::warn!(by, "a hook in the background failed: {error}"),
                Err(_) => tracing::warn!(by, ?time, "a hook in the background took too long and was stopped"),
            }
        };
        if !context.go_on(Box::pin(rest)) {
            return Err(HookFailure::new("too many hooks run in the background; it was stopped"));
        }
        let mut output = HookOutput::none();
        output.background = background;
        Ok(output)
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
            timeout: self.timeout.max(ASYNC_MAX) + SPARE,
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
            // Its own: a command that goes on by itself outlives its event.
            let token = CancellationToken::new();
            let guard = token.clone().drop_guard();
            let (first_line, mut goes_on) = FirstLine::watch(input.event.clone());
            let (launcher, cancelled) = (Arc::clone(&self.launcher), token.clone());
            let mut running =
                Box::pin(async move { launcher.launch_seen(program, cancelled, first_line).await });
            let exit = tokio::select! {
                biased;
                exit = &mut running => exit,
                () = context.cancellation().cancelled() => {
                    token.cancel();
                    running.await
                }
                Some(background) = goes_on.recv() => {
                    guard.disarm();
                    return self.leave(background, running, token, &context);
                }
            };
            answer(&input, &exit.map_err(|error| HookFailure::new(error.to_string()))?)
        })
    }

    fn label(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.label)
    }
}

/// Looks at the first line of a command's output, where it may say that nobody need wait for it.
struct FirstLine {
    event: HookEvent,
    /// None once it was looked at.
    line: Option<Vec<u8>>,
    tell: mpsc::Sender<Background>,
}

impl FirstLine {
    fn watch(event: HookEvent) -> (Seen, mpsc::Receiver<Background>) {
        let (tell, goes_on) = mpsc::channel(1);
        let first = Mutex::new(Self { event, line: Some(Vec::new()), tell });
        let seen = move |bytes: &[u8]| first.lock().unwrap_or_else(PoisonError::into_inner).see(bytes);
        (Arc::new(seen), goes_on)
    }

    fn see(&mut self, bytes: &[u8]) {
        let Some(line) = &mut self.line else { return };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
        let is_too_long = line.len() > FIRST_LINE_BYTES_MAX;
        if end.is_none() && !is_too_long {
            return;
        }
        let answer = self.line.take().filter(|_| !is_too_long);
        let answer = answer.and_then(|line| HookOutput::from_json(&self.event, &line).ok());
        if let Some(output) = answer.filter(HookOutput::is_async) {
            // Nobody listens any more where the command has just ended.
            let _ = self.tell.try_send(output.background);
        }
    }
}

fn answer(input: &HookInput, exit: &Exit) -> Result<HookOutput, HookFailure> {
    let failed = |how: String| {
        let said = shown(&exit.stderr);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        Err(HookFailure::new(format!("{how}{said}")))
    };
    match exit.status {
        ExitStatus::Code(0) => {
            let mut output = read_answer(&input.event, &exit.stdout)?;
            output.stderr = Some(shown(&exit.stderr)).filter(|text| !text.is_empty());
            Ok(output)
        }
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

/// Whether a command finds a program on this machine, by its name or where it says.
pub(super) fn is_found(program: &Path) -> bool {
    PATH.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// A path that starts at `folder`, or at the person's home.
fn within(folder: &Path, path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) | (Err(_), _) => folder.join(path),
    }
}
