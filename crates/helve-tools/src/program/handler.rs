//! One call of a program tool.

use std::path::PathBuf;
use std::sync::Arc;

use helve::json::{JsonLimits, parse};
use helve::ports::{Access, Exit, ExitStatus, Launcher, Program};
use helve::{BoxFuture, Context, ErrorCode, Handler, Implementation, Preview, ToolCode, ToolError};
use serde::Deserialize;
use serde_json::Value;

use super::excerpt::{Part, excerpt};
use super::variable::Variable;
use crate::http::secrets::Secrets;

/// Where a program finds others, unless its configuration says so.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Largest account of its own failure that a program may give.
const OWN_ERROR_BYTES_MAX: usize = 64 << 10;

/// What runs when a program tool is called.
#[derive(Clone)]
pub(super) struct ProgramHandler {
    pub(super) launcher: Arc<dyn Launcher>,
    pub(super) command: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) variables: Vec<(String, Variable)>,
    pub(super) work_dir: Option<PathBuf>,
    pub(super) output_bytes_max: usize,
    pub(super) access: Access,
}

impl Handler for ProgramHandler {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let handler = self.clone();
        Box::pin(async move { handler.run(&arguments, &context).await })
    }

    fn implementation(&self) -> Implementation {
        Implementation::Program
    }

    /// The command line is the same for every call; arguments go to standard input.
    fn preview(&self, _: &Value, _: Context) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        let words = [self.command.display().to_string()].into_iter().chain(self.args.iter().cloned());
        let line = words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ");
        let place = self.work_dir.as_ref().map(|folder| format!("\nin {}", folder.display()));
        let text = format!("{line}{}", place.unwrap_or_default());
        Some(Box::pin(std::future::ready(Ok(text.into()))))
    }
}

/// A word as a shell would take it, so that a blank in it does not look like two words.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

impl ProgramHandler {
    async fn run(&self, arguments: &Value, context: &Context) -> Result<Value, ToolError> {
        let (env, secrets) = self.environment(context)?;
        let mut stdin = arguments.to_string().into_bytes();
        stdin.push(b'\n');
        let program = Program {
            command: self.command.clone(),
            args: self.args.clone(),
            env,
            work_dir: self.work_dir.clone(),
            stdin,
            timeout: context.time_left(),
            output_bytes_max: self.output_bytes_max,
            access: self.access.clone(),
        };
        let exit = self.launcher.launch(program, context.cancellation().clone()).await.map_err(|error| {
            ToolError::failed(error.to_string())
                .suggest("tell the operator: the tool is not set up on this machine")
        })?;
        self.check_status(&exit, &secrets, context)?;
        self.read_answer(&exit.stdout, &secrets)
    }

    /// The program's whole environment, and which of it must not come back. References are read
    /// anew for every call, and their values kept no longer.
    fn environment(&self, context: &Context) -> Result<(Vec<(String, String)>, Secrets), ToolError> {
        let mut env = Vec::new();
        let mut hidden = Vec::new();
        for (name, variable) in &self.variables {
            let value = match variable {
                Variable::Literal(value) => value.clone(),
                Variable::FromEnvironment(source) => {
                    let value = std::env::var(source).ok().filter(|value| !value.trim().is_empty());
                    let value = value.ok_or_else(|| missing(source))?;
                    hidden.push(value.clone());
                    value
                }
            };
            env.push((name.clone(), value));
        }
        // Longest first: one secret may be a part of another.
        hidden.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
        let mut secrets = Secrets::default();
        hidden.iter().for_each(|value| secrets.hide(value));
        if !env.iter().any(|(name, _)| name == "PATH") {
            env.push(("PATH".to_owned(), PATH.to_owned()));
        }
        env.push(("HELVE_CALL_ID".to_owned(), context.call_id().to_string()));
        if let Some(key) = context.idempotency_key() {
            env.push(("HELVE_IDEMPOTENCY_KEY".to_owned(), key.to_owned()));
        }
        Ok((env, secrets))
    }

    fn check_status(&self, exit: &Exit, secrets: &Secrets, context: &Context) -> Result<(), ToolError> {
        let said = || match excerpt(&exit.stderr, Part::End, secrets) {
            text if text.is_empty() => "; it wrote nothing to stderr".to_owned(),
            text => format!(": {text}"),
        };
        let error = match exit.status {
            ExitStatus::Code(0) => return Ok(()),
            ExitStatus::Code(code) => own_error(&exit.stdout, secrets).unwrap_or_else(|| {
                ToolError::failed(format!("the program failed with exit code {code}{}", said()))
            }),
            ExitStatus::Signal(signal) => {
                ToolError::failed(format!("the program was killed by signal {signal}{}", said()))
            }
            ExitStatus::TimedOut => timed_out(),
            // At the deadline the runtime also cancels; then time is what was missing.
            ExitStatus::Cancelled if context.time_left().is_zero() => timed_out(),
            ExitStatus::Cancelled => {
                ToolError::new(ErrorCode::Cancelled, "the call was taken back and the program stopped")
            }
            ExitStatus::OutOfMemory => ToolError::new(
                ErrorCode::SandboxViolation,
                "the program used more memory than it may and was stopped",
            )
            .suggest("ask for less, or tell the operator to raise `memory_mb`"),
            ExitStatus::OutOfTime => ToolError::new(
                ErrorCode::SandboxViolation,
                "the program used more time on the processor than it may and was stopped",
            )
            .suggest("ask for less, or tell the operator to raise `sandbox.cpu_s`"),
            ExitStatus::OutputTooLarge => {
                let max = self.output_bytes_max;
                let message = format!("the program wrote more than {max} bytes and was stopped");
                ToolError::new(ErrorCode::OutputTooLarge, message)
                    .suggest("ask for less, or tell the operator to raise `output_bytes_max`")
            }
        };
        Err(error)
    }

    fn read_answer(&self, stdout: &[u8], secrets: &Secrets) -> Result<Value, ToolError> {
        let limits = JsonLimits { bytes: self.output_bytes_max, ..JsonLimits::default() };
        let answer = parse(stdout, limits).map_err(|error| {
            let problem = match excerpt(stdout, Part::Start, secrets) {
                text if text.is_empty() => "the program wrote nothing to stdout".to_owned(),
                text => {
                    // The reason can quote the answer, too.
                    let reason = excerpt(error.to_string().as_bytes(), Part::Start, secrets);
                    format!("the program's answer cannot be used: {reason}; it begins: {text}")
                }
            };
            ToolError::new(ErrorCode::OutputInvalid, problem)
                .suggest("the program must write one JSON value to stdout (`null` if there is nothing to say) and all else to stderr")
        })?;
        Ok(secrets.redact_value(answer))
    }
}

/// What a program that failed says of it on stdout: `{"error": {"code": "NO_STOCK", "message": "…"}}`, and perhaps
/// `recoverable` and `suggestions`.
fn own_error(stdout: &[u8], secrets: &Secrets) -> Option<ToolError> {
    const SUGGESTIONS_MAX: usize = 8;
    #[derive(Deserialize)]
    struct ErrorLine {
        error: OwnError,
    }
    #[derive(Deserialize)]
    struct OwnError {
        code: ToolCode,
        message: String,
        #[serde(default)]
        recoverable: bool,
        #[serde(default)]
        suggestions: Vec<String>,
    }
    let limits = JsonLimits { bytes: OWN_ERROR_BYTES_MAX, ..JsonLimits::default() };
    let said = secrets.redact_value(parse(stdout, limits).ok()?);
    let ErrorLine { error } = serde_json::from_value(said).ok()?;
    let own =
        ToolError::failed(error.message).retryable(error.recoverable).with_tool_code(error.code.as_str());
    Some(error.suggestions.into_iter().take(SUGGESTIONS_MAX).fold(own, ToolError::suggest))
}

fn missing(variable: &str) -> ToolError {
    let message = format!("the environment variable `{variable}`, which the tool needs, is not set");
    ToolError::new(ErrorCode::IntegrationMissing, message)
        .suggest(format!("tell the operator to set `{variable}` where Helve runs"))
}

fn timed_out() -> ToolError {
    ToolError::new(ErrorCode::Timeout, "the program did not finish in time and was stopped")
}
