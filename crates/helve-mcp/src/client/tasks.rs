//! Calls that a server turns into tasks: followed to their end, in the form of either era.

use std::time::Duration;

use helve::run::Progress;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::connection::{Ask, Connection};
use super::link::{Answer, LinkError};
use crate::era::Era;
use crate::message::{Fields, Raw, RpcError, empty, raw};

/// How often a task is looked at where its server does not say.
const POLL_DEFAULT: Duration = Duration::from_secs(1);
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    task_id: String,
    status: Status,
    status_message: Option<String>,
    #[serde(alias = "pollIntervalMs")]
    poll_interval: Option<u64>,
    /// What came of it, in the stateless era.
    result: Option<Raw>,
    error: Option<RpcError>,
    #[serde(default)]
    input_requests: Fields,
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// Asks, and where the answer is a task, follows that to its end.
pub(crate) async fn ask(connection: &Connection, ask: Ask) -> Result<Answer, LinkError> {
    let end = Instant::now() + ask.timeout_total;
    let mut follow = Follow {
        connection,
        end,
        timeout: ask.timeout,
        client: ask.client.clone(),
        progress: ask.progress.clone(),
        cancellation: ask.cancellation.clone(),
        looks: 0.0,
    };
    let answer = connection.ask(ask).await?;
    match &answer {
        Ok(result) => match begun(result) {
            Some(task) => follow.until_done(task).await,
            None => Ok(answer),
        },
        Err(_) => Ok(answer),
    }
}

/// The task that an answer is, if it is one.
fn begun(result: &RawValue) -> Option<Task> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        result_type: Option<String>,
        task: Option<Task>,
    }
    // Nearly no answer is one, and reading it twice would cost.
    if !result.get().contains("\"taskId\"") {
        return None;
    }
    let kind: Kind = serde_json::from_str(result.get()).ok()?;
    match kind.result_type.as_deref() {
        Some("task") => serde_json::from_str(result.get()).ok(),
        _ => kind.task,
    }
}

struct Follow<'a> {
    connection: &'a Connection,
    end: Instant,
    timeout: Duration,
    client: Option<std::sync::Arc<dyn helve::ports::Client>>,
    progress: Option<super::connection::Report>,
    cancellation: Option<tokio_util::sync::CancellationToken>,
    looks: f64,
}

impl Follow<'_> {
    async fn until_done(&mut self, mut task: Task) -> Result<Answer, LinkError> {
        let id = task.task_id.clone();
        loop {
            match (task.status, self.connection.greeting().era) {
                (Status::Completed | Status::Failed | Status::Cancelled, Era::Session) => {
                    return self.tell("tasks/result", &id, Fields::default()).await;
                }
                // The result is there when the answers are: they are asked for on the way.
                (Status::InputRequired, Era::Session) => {
                    return self.tell("tasks/result", &id, Fields::default()).await;
                }
                (Status::Completed, Era::Stateless) => return Ok(Ok(task.result.unwrap_or_else(empty))),
                (Status::Failed, Era::Stateless) => {
                    let unsaid = || RpcError::new(RpcError::INTERNAL, "the task failed and did not say why");
                    return Ok(Err(task.error.unwrap_or_else(unsaid)));
                }
                (Status::Cancelled, Era::Stateless) => {
                    return Ok(Err(RpcError::new(RpcError::INTERNAL, "the server has cancelled the task")));
                }
                (Status::InputRequired, Era::Stateless) => self.answer(&task).await?,
                (Status::Working, _) => {}
            }
            self.report(&task);
            self.wait(&task).await?;
            let looked = self.tell("tasks/get", &id, Fields::default()).await?;
            task = match looked {
                Ok(result) => serde_json::from_str(result.get())
                    .map_err(|error| LinkError::Protocol(format!("a task cannot be read: {error}")))?,
                Err(error) => return Ok(Err(error)),
            };
        }
    }

    async fn wait(&self, task: &Task) -> Result<(), LinkError> {
        let poll = task.poll_interval.map_or(POLL_DEFAULT, Duration::from_millis).clamp(POLL_MIN, POLL_MAX);
        let cancelled = async {
            match &self.cancellation {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(poll) => {}
            () = tokio::time::sleep_until(self.end) => {}
            () = cancelled => {
                self.give_up(&task.task_id).await;
                return Err(LinkError::Cancelled);
            }
        }
        if Instant::now() < self.end {
            return Ok(());
        }
        self.give_up(&task.task_id).await;
        Err(LinkError::TimedOut { after: self.timeout })
    }

    /// Answers what the task needs to go on.
    async fn answer(&self, task: &Task) -> Result<(), LinkError> {
        let requests = &task.input_requests;
        let responses = self.connection.responses(requests, self.client.clone()).await;
        let mut params = Fields::default();
        // A question that is refused leaves the task waiting; the server learns that there is nothing.
        params.set("inputResponses", responses.unwrap_or_else(|_| empty()));
        self.tell("tasks/update", &task.task_id, params).await.map(drop)
    }

    async fn give_up(&self, id: &str) {
        let mut params = Fields::default();
        params.set("taskId", raw(&id));
        let ask = Ask::new("tasks/cancel", params).within(Duration::from_secs(2));
        if let Err(error) = self.connection.ask(ask).await {
            tracing::debug!(%error, "a task was not cancelled");
        }
    }

    fn report(&mut self, task: &Task) {
        if let (Some(report), Some(message)) = (&self.progress, &task.status_message) {
            self.looks += 1.0;
            report(Progress { done: self.looks, total: None, message: Some(message.clone()) });
        }
    }

    async fn tell(&self, method: &'static str, id: &str, mut params: Fields) -> Result<Answer, LinkError> {
        params.set("taskId", raw(&id));
        let left = self.end.saturating_duration_since(Instant::now());
        let ask = Ask {
            client: self.client.clone(),
            cancellation: self.cancellation.clone(),
            timeout: self.timeout,
            timeout_total: left,
            ..Ask::new(method, params)
        };
        self.connection.ask(ask).await
    }
}
