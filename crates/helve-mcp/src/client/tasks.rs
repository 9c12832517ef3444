//! Calls that a server turns into tasks: followed to their end, in the form of either era.

use std::collections::BTreeSet;
use std::time::Duration;

use helve::run::Progress;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::connection::{Ask, Connection, ROUNDS_MAX, cancelled};
use super::link::{LinkError, RpcResult};
use crate::era::Era;
use crate::message::{Fields, Raw, RpcError, empty, in_words, raw};

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
pub(crate) async fn ask(connection: &Connection, ask: Ask) -> Result<RpcResult, LinkError> {
    let mut follow = Follow {
        connection,
        end: Instant::now() + ask.timeout_total,
        total: ask.timeout_total,
        timeout: ask.timeout,
        client: ask.client.clone(),
        progress: ask.progress.clone(),
        cancellation: ask.cancellation.clone(),
        looks: 0.0,
        answered: BTreeSet::new(),
        rounds: 0,
    };
    let answer = connection.ask(ask).await?;
    match &answer {
        Ok(result) => match begun(result) {
            Some(task) => {
                let id = task.task_id.clone();
                match follow.until_done(task).await {
                    Err(error) => {
                        // Nobody will ask for what comes of it.
                        follow.give_up(&id).await;
                        // The task was begun, whatever became of a look at it.
                        Err(error.once_sent())
                    }
                    done => done,
                }
            }
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
    /// How long it may take in all.
    total: Duration,
    /// How long the server may be silent.
    timeout: Duration,
    client: Option<std::sync::Arc<dyn helve::ports::Client>>,
    progress: Option<super::connection::Report>,
    cancellation: Option<tokio_util::sync::CancellationToken>,
    looks: f64,
    /// The questions that were answered, by the server's names for them: it may show them once more.
    answered: BTreeSet<String>,
    /// How often it had new ones.
    rounds: usize,
}

impl Follow<'_> {
    async fn until_done(&mut self, mut task: Task) -> Result<RpcResult, LinkError> {
        let id = task.task_id.clone();
        loop {
            match (task.status, self.connection.greeting().era) {
                (Status::Completed | Status::Failed | Status::Cancelled, Era::Session) => {
                    return self.tell("tasks/result", &id, self.timeout).await;
                }
                // The result is there when the answers are, which are asked for on the way, and all that
                // comes after them is done: as long as that may take.
                (Status::InputRequired, Era::Session) => {
                    return self.tell("tasks/result", &id, self.total).await;
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
            let looked = self.tell("tasks/get", &id, self.timeout).await?;
            task = match looked {
                Ok(result) => serde_json::from_str(result.get()).map_err(|error| {
                    LinkError::Protocol(format!("a task cannot be read: {}", in_words(&error)))
                })?,
                Err(error) => return Ok(Err(error)),
            };
        }
    }

    async fn wait(&self, task: &Task) -> Result<(), LinkError> {
        let poll = task.poll_interval.map_or(POLL_DEFAULT, Duration::from_millis).clamp(POLL_MIN, POLL_MAX);
        tokio::select! {
            () = tokio::time::sleep(poll) => {}
            () = tokio::time::sleep_until(self.end) => {}
            () = cancelled(self.cancellation.as_ref()) => return Err(LinkError::Cancelled),
        }
        match Instant::now() < self.end {
            true => Ok(()),
            false => Err(LinkError::timed_out(self.total)),
        }
    }

    /// Answers what the task needs to go on, each question once.
    async fn answer(&mut self, task: &Task) -> Result<(), LinkError> {
        let mut requests = Fields::default();
        for (key, request) in task.input_requests.iter() {
            if self.answered.insert(key.to_owned()) {
                requests.set(key, request.to_owned());
            }
        }
        if requests.is_empty() {
            return Ok(());
        }
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            let problem = format!("it asked back more than {ROUNDS_MAX} times in one task");
            return Err(LinkError::Protocol(problem));
        }
        let responses = self.connection.responses(&requests, self.client.clone()).await;
        let mut params = Fields::default();
        // A question that is refused leaves the task waiting; the server learns that there is nothing.
        params.set("inputResponses", responses.unwrap_or_else(|_| empty()));
        self.tell_with("tasks/update", &task.task_id, params, self.timeout).await.map(drop)
    }

    /// Has the server stop working on it.
    async fn give_up(&self, id: &str) {
        if self.connection.closed().is_some() {
            return;
        }
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

    async fn tell(&self, method: &'static str, id: &str, timeout: Duration) -> Result<RpcResult, LinkError> {
        self.tell_with(method, id, Fields::default(), timeout).await
    }

    async fn tell_with(
        &self,
        method: &'static str,
        id: &str,
        mut params: Fields,
        timeout: Duration,
    ) -> Result<RpcResult, LinkError> {
        params.set("taskId", raw(&id));
        let left = self.end.saturating_duration_since(Instant::now());
        let ask = Ask {
            client: self.client.clone(),
            cancellation: self.cancellation.clone(),
            timeout,
            timeout_total: left,
            ..Ask::new(method, params)
        };
        self.connection.ask(ask).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use helve::BoxFuture;
    use serde_json::{Value, json};

    use super::super::answers::Answers;
    use super::super::connection::Greeting;
    use super::super::hub::Hub;
    use super::super::link::{Link, Outgoing};
    use super::*;
    use crate::log::Log;
    use crate::message::Notification;

    /// What a server says to a question, by its method and how many of that method came before, and how long
    /// it takes.
    type Says = fn(&str, usize) -> (Result<Value, LinkError>, Duration);

    /// A server that turns each call into a task.
    struct Working {
        says: Says,
        asked: Arc<Mutex<Vec<String>>>,
    }

    impl Link for Working {
        fn request(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<RpcResult, LinkError>> {
            let mut asked = self.asked.lock().unwrap();
            let before = asked.iter().filter(|method| **method == outgoing.method).count();
            asked.push(outgoing.method.clone());
            let (said, takes) = (self.says)(&outgoing.method, before);
            Box::pin(async move {
                tokio::time::sleep(takes).await;
                Ok(Ok(raw(&said?)))
            })
        }

        fn notify(&self, _: Notification) -> BoxFuture<'_, Result<(), LinkError>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn closed(&self) -> Option<String> {
            None
        }

        fn wait_closed(&self) -> BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }

        fn close(&self) -> BoxFuture<'_, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    fn task(status: &str, more: &Value) -> Value {
        let mut task = json!({ "resultType": "task", "taskId": "t", "status": status, "pollInterval": 50 });
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    }

    fn needs(key: &str) -> Value {
        task("input_required", &json!({ "inputRequests": { key: { "method": "elicitation/create" } } }))
    }

    /// What comes of a call, and what the server was asked for it.
    async fn call(era: Era, says: Says) -> (Result<RpcResult, LinkError>, Vec<String>) {
        let asked = Arc::default();
        let answers = Answers::default();
        let hub = Hub::new(answers.identity(), answers, Arc::new(Log::default()));
        let greeting = Greeting {
            era,
            version: "2026-07-28".to_owned(),
            server_info: empty(),
            capabilities: Fields::default(),
            instructions: None,
        };
        let link = Working { says, asked: Arc::clone(&asked) };
        let connection = Connection::new(Box::new(link), hub, greeting);
        let timeout = Duration::from_millis(200);
        let call = Ask {
            timeout,
            timeout_total: Duration::from_secs(20),
            ..Ask::new("tools/call", Fields::default())
        };
        let came = ask(&connection, call).await;
        let asked = asked.lock().unwrap().clone();
        (came, asked)
    }

    fn count(asked: &[String], method: &str) -> usize {
        asked.iter().filter(|one| *one == method).count()
    }

    const NOW: Duration = Duration::ZERO;

    #[tokio::test]
    async fn a_question_that_a_task_shows_again_is_answered_once() {
        let says: Says = |method, before| match (method, before) {
            ("tasks/get", 0..3) => (Ok(needs("who")), NOW),
            ("tasks/get", _) => (Ok(task("completed", &json!({ "result": { "done": true } }))), NOW),
            _ => (Ok(task("working", &json!({}))), NOW),
        };
        let (came, asked) = call(Era::Stateless, says).await;
        assert_eq!(came.unwrap().unwrap().get(), r#"{"done":true}"#);
        assert_eq!(count(&asked, "tasks/update"), 1, "{asked:?}");
        assert_eq!(count(&asked, "tasks/cancel"), 0, "{asked:?}");
    }

    #[tokio::test]
    async fn a_task_that_asks_without_end_is_given_up() {
        let says: Says = |method, before| match method {
            "tasks/get" => (Ok(needs(&format!("q{before}"))), NOW),
            _ => (Ok(task("working", &json!({}))), NOW),
        };
        let (came, asked) = call(Era::Stateless, says).await;
        assert!(matches!(came, Err(LinkError::Protocol(_))), "{came:?}");
        assert_eq!((count(&asked, "tasks/update"), count(&asked, "tasks/cancel")), (ROUNDS_MAX, 1));
    }

    #[tokio::test]
    async fn a_task_that_cannot_be_looked_at_is_given_up_and_not_begun_again() {
        let says: Says = |method, _| match method {
            "tasks/get" => (Err(LinkError::SessionGone), NOW),
            _ => (Ok(task("working", &json!({}))), NOW),
        };
        let (came, asked) = call(Era::Stateless, says).await;
        assert!(came.is_err_and(|error| !error.is_unsent()));
        assert_eq!(count(&asked, "tasks/cancel"), 1);
    }

    #[tokio::test]
    async fn the_result_of_a_task_with_questions_may_take_as_long_as_the_call() {
        let says: Says = |method, _| match method {
            "tasks/result" => (Ok(json!({ "content": [] })), Duration::from_secs(1)),
            _ => (Ok(json!({ "task": task("input_required", &json!({})) })), NOW),
        };
        let (came, asked) = call(Era::Session, says).await;
        assert_eq!(came.unwrap().unwrap().get(), r#"{"content":[]}"#);
        assert_eq!(asked, ["tools/call", "tasks/result"]);
    }
}
