//! One look at a server: connect, list, perhaps call a tool, and say what happened.
//!
//! It is pointed at servers that nobody knows yet, so it holds on to nothing: no pins, no
//! registry, and an end in time whatever the server does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve::registry::TOOLS_MAX;
use helve::{ErrorCode, Registry, Tool, ToolError};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::connect::{Who, connect};
use super::discover::{Discovery, discover, register};
use super::offer::Offer;
use super::result::{self, ToolResult};
use super::server::{Common, Server, identity};
use super::tool::{Failure, RESULT};
use super::{Surroundings, text_of};
use crate::client::Answers;
use crate::client::connection::{Ask, Connection};
use crate::client::headers::ParamHeaders;
use crate::client::hub::Hub;
use crate::client::link::LinkError;
use crate::config::ServerConfig;
use crate::era::Era;
use crate::log::{Line, Log, Source};
use crate::message::{Fields, raw};
use crate::text;

/// How much of the time in all is kept for ending the server.
const CLOSE_MAX: Duration = Duration::from_secs(4);
/// How many lines of a server's standard error are shown.
const STDERR_LINES: usize = 20;
/// Most remarks that are shown.
const REMARKS_MAX: usize = 100;
/// The longest remark, error or text of a result that is shown whole.
const SHOWN_CHARS_MAX: usize = 2_000;
/// How much is shown of what is no message.
const NOISE_CHARS_MAX: usize = 300;
/// The largest result that is shown.
const RESULT_BYTES_MAX: usize = 1 << 20;

/// One look at a server.
#[derive(Debug, Clone)]
pub struct Probe {
    /// How long connecting, listing and calling may take each.
    pub step: Duration,
    /// How long all of it may take, ending the server included.
    pub total: Duration,
    /// A tool to call, by the server's name for it, and with what.
    pub call: Option<(String, Value)>,
    /// How many tools there may be.
    pub tools_max: usize,
}

impl Default for Probe {
    fn default() -> Self {
        let (step, total) = (Duration::from_secs(10), Duration::from_secs(30));
        Self { step, total, call: None, tools_max: TOOLS_MAX }
    }
}

/// How far a probe came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Connecting and greeting.
    #[default]
    Connect,
    /// Reading what the server offers.
    List,
    /// Calling a tool.
    Call,
    /// All that was asked for.
    Done,
}

/// What a probe found. Texts of the server are cleaned.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Whether all that was asked for worked.
    pub ok: bool,
    /// Where it ended.
    pub stage: Stage,
    /// Why it ended there, where something failed.
    pub error: Option<ReportError>,
    /// How it is spoken to: `stdio`, `http`, `sse`, `ws`.
    pub transport: Option<&'static str>,
    /// The protocol's era.
    pub era: Option<Era>,
    /// The protocol's version.
    pub protocol: Option<String>,
    /// The server's own name and version.
    pub server: Option<String>,
    /// Its tools that can be used, as it defines them.
    pub tools: Vec<Arc<RawValue>>,
    /// How many resources it lists.
    pub resources: usize,
    /// How many prompts it lists.
    pub prompts: usize,
    /// What is not as it should be.
    pub remarks: Vec<String>,
    /// What came of the call.
    pub call: Option<Called>,
    /// The last that it wrote to its standard error.
    pub stderr: Vec<String>,
    /// How long it took.
    pub duration_ms: u64,
}

/// Why a probe ended early.
#[derive(Debug, Clone, Serialize)]
pub struct ReportError {
    /// One of Helve's error codes.
    pub code: &'static str,
    /// What went wrong, for people.
    pub message: String,
}

/// A call that a probe made.
#[derive(Debug, Clone, Serialize)]
pub struct Called {
    /// The tool, by the server's name.
    pub tool: String,
    /// Its result as one value, as a model would see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// How long it took.
    pub duration_ms: u64,
}

impl Report {
    /// A report of a probe of which nothing was heard in time.
    pub fn unheard(total: Duration) -> Self {
        let error = too_long(total);
        let error = ReportError { code: error.code().as_str(), message: error.message().to_owned() };
        Self { error: Some(error), duration_ms: total.as_millis() as u64, ..Self::default() }
    }
}

impl Probe {
    /// Looks at a server. Ends within the time that it has, and leaves nothing running.
    pub async fn look(self, config: ServerConfig, surroundings: Surroundings) -> Report {
        let began = Instant::now();
        let end = began + self.total.saturating_sub(CLOSE_MAX).max(self.total / 2);
        let looking = Arc::new(Looking {
            log: Arc::default(),
            seen: Mutex::default(),
            connection: Mutex::default(),
            step: self.step,
            end,
            registry: Registry::with_limit(self.tools_max),
        });
        // In its own task: where something takes a thread for itself, this clock still runs.
        let task = tokio::spawn(Arc::clone(&looking).steps(config, surroundings, self.call));
        let ended = tokio::time::timeout_at(end + Duration::from_millis(200), task);
        let outcome = ended.await.unwrap_or_else(|_| Ok(Err(too_long(self.total)))).unwrap_or_else(|_| {
            Err(ToolError::new(ErrorCode::Internal, "the test broke off; this is a defect in Helve"))
        });
        let connection = looking.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(connection) = connection {
            // What does not end in time ends with this process.
            let _ = tokio::time::timeout_at(began + self.total, connection.close()).await;
        }
        looking.report(outcome, began)
    }
}

fn too_long(total: Duration) -> ToolError {
    let message =
        format!("it could not be ended within {:.1} s, with the time that ending takes", total.as_secs_f32());
    ToolError::new(ErrorCode::Timeout, message)
}

/// A probe on its way.
struct Looking {
    log: Arc<Log>,
    seen: Mutex<Report>,
    connection: Mutex<Option<Arc<Connection>>>,
    step: Duration,
    end: Instant,
    /// Where tools are tried; nobody calls them from there.
    registry: Registry,
}

impl Looking {
    fn seen(&self) -> MutexGuard<'_, Report> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that a step has.
    fn time(&self) -> Duration {
        self.step.min(self.end.saturating_duration_since(Instant::now()))
    }

    async fn steps(
        self: Arc<Self>,
        config: ServerConfig,
        surroundings: Surroundings,
        call: Option<(String, Value)>,
    ) -> Result<(), ToolError> {
        let server = self.server(config, surroundings.clone());
        let link = |error: LinkError| error.into_tool_error("server", None);
        let connection = self.connect(server.config(), &surroundings).await.map_err(link)?;
        self.seen().stage = Stage::List;
        let tools = self.list(&server, &connection).await.map_err(link)?;
        if let Some((tool, arguments)) = call {
            self.seen().stage = Stage::Call;
            match self.call(&connection, &tools, &tool, &arguments).await {
                // A session that has ended cannot have begun the call: a new one, once.
                Err(Failure::Link(LinkError::SessionGone)) => {
                    let anew = self.connect(server.config(), &surroundings).await.map_err(link)?;
                    self.call(&anew, &tools, &tool, &arguments).await
                }
                other => other,
            }
            .map_err(|failure| failure.into_error("server", None))?;
        }
        self.seen().stage = Stage::Done;
        Ok(())
    }

    /// The server as `discover` wants it; nothing looks after it.
    fn server(&self, config: ServerConfig, surroundings: Surroundings) -> Arc<Server> {
        let surroundings = Surroundings { pins: None, ..surroundings };
        let (events, _) = broadcast::channel(1);
        let (answers, log) = (nobody_answers(), Arc::clone(&self.log));
        let common = Common { registry: self.registry.clone(), surroundings, events };
        Server::new("server", config, answers, &[], common, log)
    }

    async fn connect(
        &self,
        config: &ServerConfig,
        surroundings: &Surroundings,
    ) -> Result<Arc<Connection>, LinkError> {
        let answers = nobody_answers();
        let hub = Hub::new(answers.identity(), answers, Arc::clone(&self.log));
        let time = self.time();
        let connecting = Box::pin(connect("server", Who::Nobody, config, surroundings, hub, None, time));
        // Its own clock is for what it waits for; what it does not wait for takes time too.
        let made = tokio::time::timeout(time + Duration::from_millis(500), connecting).await;
        let (connection, way) = made.unwrap_or(Err(LinkError::timed_out(time)))?;
        let connection = Arc::new(connection);
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&connection));
        let greeting = connection.greeting();
        let mut seen = self.seen();
        seen.transport = Some(way.transport.as_str());
        seen.era = Some(greeting.era);
        seen.protocol = Some(greeting.version.clone());
        seen.server = identity(&greeting.server_info);
        drop(seen);
        Ok(connection)
    }

    async fn list(
        &self,
        server: &Arc<Server>,
        connection: &Connection,
    ) -> Result<Vec<(String, Tool)>, LinkError> {
        let time = self.time();
        let reading = Box::pin(discover(server, connection, time));
        // Its own clock is for what it waits for, and names it; what it does not wait for takes time too.
        let found = tokio::time::timeout(time + Duration::from_millis(500), reading).await;
        let Discovery { mut offer, tools, late } = found.unwrap_or(Err(LinkError::timed_out(time)))?;
        let usable = register(&self.registry, &[], tools.clone(), &mut offer);
        let own = |tool: &Tool| text_of(offer.tools.get(tool.name())?, "name");
        let tools = tools
            .into_iter()
            .filter(|tool| usable.contains(tool.name()))
            .filter_map(|tool| Some((own(&tool)?, tool)))
            .collect();
        self.see(&offer);
        if let Some(late) = late {
            self.see(&offer.with_resources_and_prompts(late.await));
        }
        Ok(tools)
    }

    fn see(&self, offer: &Offer) {
        let mut seen = self.seen();
        seen.tools = offer.tools.values().cloned().collect();
        seen.resources = offer.resources.len();
        seen.prompts = offer.prompts.len();
        seen.remarks.clone_from(&offer.remarks);
    }

    async fn call(
        &self,
        connection: &Connection,
        tools: &[(String, Tool)],
        name: &str,
        arguments: &Value,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let Some((_, tool)) = tools.iter().find(|(own, _)| own == name) else {
            let message = format!("the server has no usable tool `{}`", text::one_line(name, 64));
            return Err(Failure::Unfit(ToolError::new(ErrorCode::ToolNotFound, message)));
        };
        if let Err(fields) = tool.input().validate(arguments) {
            let first = fields.first().map(|field| field.message.clone()).unwrap_or_default();
            let error = ToolError::new(ErrorCode::ValidationFailed, first).with_fields(fields);
            return Err(Failure::Unfit(error));
        }
        let headers = ParamHeaders::of(&tool.definition().input_schema).unwrap_or_default();
        let mut params = Fields::default();
        params.set("name", raw(&name));
        params.set("arguments", raw(arguments));
        let time = self.time();
        let ask =
            Ask { headers: headers.for_arguments(arguments), ..Ask::new("tools/call", params).within(time) };
        let asking = Box::pin(crate::client::tasks::ask(connection, ask));
        let answer = tokio::time::timeout(time, asking).await;
        let answer = answer.unwrap_or(Err(LinkError::timed_out(time)));
        let answer = answer.map_err(Failure::Link)?.map_err(Failure::Refused)?;
        let ToolResult { value, findings, .. } =
            result::read(answer, "server", RESULT).map_err(Failure::Unfit)?;
        let cleaned = findings.iter().map(|found| format!("in the result of the call, {found}"));
        self.seen().remarks.extend(cleaned);
        let value = value.map_err(Failure::Unfit)?;
        check_promise(tool, &value).map_err(Failure::Unfit)?;
        self.seen().call = Some(Called {
            tool: text::one_line(name, 128),
            result: Some(shown(value)),
            duration_ms: millis(began),
        });
        Ok(())
    }

    fn report(&self, outcome: Result<(), ToolError>, began: Instant) -> Report {
        let mut report = std::mem::take(&mut *self.seen());
        report.ok = outcome.is_ok();
        report.error = outcome.err().map(|error| {
            // There is only one server, and it has no name.
            let message = error.message();
            let message = message.strip_prefix("MCP server `server`: ").unwrap_or(message);
            let message = message.replacen("MCP server `server`", "the server", 1);
            ReportError { code: error.code().as_str(), message: text::one_line(&message, SHOWN_CHARS_MAX) }
        });
        let lines = self.log.last(usize::MAX);
        report.remarks.extend(remark_on_noise(&lines));
        let left_out = report.remarks.len().saturating_sub(REMARKS_MAX);
        report.remarks.truncate(REMARKS_MAX);
        for remark in &mut report.remarks {
            *remark = text::one_line(remark, SHOWN_CHARS_MAX);
        }
        if left_out > 0 {
            report.remarks.push(format!("and {left_out} more"));
        }
        let stderr = lines.into_iter().filter(|line| line.source == Source::Stderr);
        let mut stderr: Vec<String> = stderr.map(|line| line.text).collect();
        report.stderr = stderr.split_off(stderr.len().saturating_sub(STDERR_LINES));
        report.duration_ms = millis(began);
        report
    }
}

/// What to say of what a server wrote that is no message, with the reason why the first of it is none.
fn remark_on_noise(lines: &[Line]) -> Option<String> {
    let mut noise = lines.iter().filter(|line| line.source == Source::Noise);
    let first = text::one_line(&noise.next()?.text, NOISE_CHARS_MAX);
    Some(match noise.count() {
        0 => format!("it wrote a line that is no message, or answers nothing: {first}"),
        more => format!(
            "it wrote {} lines or more that are no message, or answer nothing; the first: {first}",
            more + 1
        ),
    })
}

/// Nobody is there to be asked.
fn nobody_answers() -> Answers {
    Answers { elicitation: false, sampling: false, ..Answers::default() }
}

/// Whether a result is what the tool promises.
fn check_promise(tool: &Tool, value: &Value) -> Result<(), ToolError> {
    let Some(schema) = tool.output() else { return Ok(()) };
    let Err(fields) = schema.validate(value) else { return Ok(()) };
    let first = fields.first().map(|field| field.message.replacen("the arguments", "the result", 1));
    let message = format!("the result breaks the tool's output schema: {}", first.unwrap_or_default());
    Err(ToolError::new(ErrorCode::OutputInvalid, message).with_fields(fields))
}

/// A result of a size that can be shown.
fn shown(value: Value) -> Value {
    let bytes = helve::json::size(&value);
    if bytes <= RESULT_BYTES_MAX {
        return value;
    }
    Value::String(format!("({bytes} bytes; more than is shown)"))
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
