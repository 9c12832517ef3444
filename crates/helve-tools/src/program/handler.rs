//! One call of a program tool.

use std::path::PathBuf;
use std::sync::Arc;

use helve::json::{JsonLimits, parse};
use helve::ports::{Exit, ExitStatus, Launcher, Program};
use helve::{BoxFuture, Context, ErrorCode, Handler, Implementation, ToolError};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::excerpt::{Part, excerpt};

/// Where a program finds others, unless its configuration says so.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What runs when a program tool is called.
#[derive(Clone)]
pub(super) struct ProgramHandler {
    pub(super) launcher: Arc<dyn Launcher>,
    pub(super) command: PathBuf,
    pub(super) args: Vec<String>,
    pub(super) variables: Vec<(String, Variable)>,
    pub(super) work_dir: Option<PathBuf>,
    pub(super) output_bytes_max: usize,
}

/// The value of a variable.
#[derive(Debug, Clone)]
pub(super) enum Variable {
    /// As it stands in the configuration.
    Literal(String),
    /// The value of this variable of Helve's own environment. Taken to be a secret.
    FromEnvironment(String),
}

impl Handler for ProgramHandler {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let handler = self.clone();
        Box::pin(async move { handler.run(&arguments, &context).await })
    }

    fn implementation(&self) -> Implementation {
        Implementation::Program
    }
}

impl ProgramHandler {
    async fn run(&self, arguments: &Value, context: &Context) -> Result<Value, ToolError> {
        let secrets = self.secrets()?;
        let mut stdin = arguments.to_string().into_bytes();
        stdin.push(b'\n');
        let program = Program {
            command: self.command.clone(),
            args: self.args.clone(),
            env: self.environment(&secrets, context),
            work_dir: self.work_dir.clone(),
            stdin,
            timeout: context.time_left(),
            output_bytes_max: self.output_bytes_max,
        };
        let exit = self.launcher.launch(program, context.cancellation().clone()).await.map_err(|error| {
            ToolError::failed(error.to_string())
                .suggest("tell the operator: the tool is not set up on this machine")
        })?;
        self.check_status(&exit, &secrets, context)?;
        self.read_answer(&exit.stdout, &secrets)
    }

    /// The variables that come from Helve's environment. Read anew for every call and kept no
    /// longer.
    fn secrets(&self) -> Result<Vec<(&str, SecretString)>, ToolError> {
        let mut secrets = Vec::new();
        for (name, variable) in &self.variables {
            if let Variable::FromEnvironment(source) = variable {
                let value = std::env::var(source).map_err(|_| {
                    let message = format!(
                        "the tool needs the environment variable `{source}`, which is not set for Helve"
                    );
                    ToolError::new(ErrorCode::IntegrationMissing, message)
                        .suggest(format!("tell the operator to set `{source}` and start Helve again"))
                })?;
                secrets.push((name.as_str(), SecretString::from(value)));
            }
        }
        Ok(secrets)
    }

    fn environment(&self, secrets: &[(&str, SecretString)], context: &Context) -> Vec<(String, String)> {
        let literals = self.variables.iter().filter_map(|(name, variable)| match variable {
            Variable::Literal(value) => Some((name.clone(), value.clone())),
            Variable::FromEnvironment(_) => None,
        });
        let secrets =
            secrets.iter().map(|(name, value)| ((*name).to_owned(), value.expose_secret().to_owned()));
        let mut env: Vec<_> = literals.chain(secrets).collect();
        if !env.iter().any(|(name, _)| name == "PATH") {
            env.push(("PATH".to_owned(), PATH.to_owned()));
        }
        env.push(("HELVE_CALL_ID".to_owned(), context.call_id().to_string()));
        if let Some(key) = context.idempotency_key() {
            env.push(("HELVE_IDEMPOTENCY_KEY".to_owned(), key.to_owned()));
        }
        env
    }

    fn check_status(
        &self,
        exit: &Exit,
        secrets: &[(&str, SecretString)],
        context: &Context,
    ) -> Result<(), ToolError> {
        let said = || match excerpt(&exit.stderr, Part::End, secrets) {
            text if text.is_empty() => "; it wrote nothing to stderr".to_owned(),
            text => format!(": {text}"),
        };
        let error = match exit.status {
            ExitStatus::Code(0) => return Ok(()),
            ExitStatus::Code(code) => {
                ToolError::failed(format!("the program failed with exit code {code}{}", said()))
            }
            ExitStatus::Signal(signal) => {
                ToolError::failed(format!("the program was killed by signal {signal}{}", said()))
            }
            ExitStatus::TimedOut => timed_out(),
            // At the deadline the runtime also cancels; then time is what was missing.
            ExitStatus::Cancelled if context.time_left().is_zero() => timed_out(),
            ExitStatus::Cancelled => {
                ToolError::new(ErrorCode::Cancelled, "the call was taken back and the program stopped")
            }
            ExitStatus::OutputTooLarge => {
                let max = self.output_bytes_max;
                let message = format!("the program wrote more than {max} bytes and was stopped");
                ToolError::new(ErrorCode::OutputTooLarge, message)
                    .suggest("ask for less, or tell the operator to raise `output_bytes_max`")
            }
        };
        Err(error)
    }

    fn read_answer(&self, stdout: &[u8], secrets: &[(&str, SecretString)]) -> Result<Value, ToolError> {
        let limits = JsonLimits { bytes: self.output_bytes_max, ..JsonLimits::default() };
        parse(stdout, limits).map_err(|error| {
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
        })
    }
}

fn timed_out() -> ToolError {
    ToolError::new(ErrorCode::Timeout, "the program did not finish in time and was stopped")
}
