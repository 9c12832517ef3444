//! A call that a person must approve: its client is asked to open the page on which they decide, and
//! the call waits for it.
//!
//! INVARIANT: a client decides nothing. All it gets is the page's address, and nothing in that lets
//! anybody in: the person who decides signs in there with their own secret. What a client answers only
//! says whether the call waits. A form is never used for it, since the caller's own client, or the model
//! behind it, would fill it in.

use std::sync::Arc;
use std::time::Duration;

use helve::formats::{MCP_ERROR, mcp_error};
use helve::ports::{Client, Question};
use helve::run::Progress;
use helve::{ApprovalId, Pending, Status};
use helve_net::Url;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::asker::Asker;
use super::backend::{Backend, Incoming, ToolAnswer, ToolCall};
use crate::era::Era;
use crate::message::{Raw, RpcError, raw};
use crate::text::clean;

/// Most questions of one call, such as one whose parts each need an approval.
const QUESTIONS_MAX: usize = 32;
/// How often a client is told that its call waits, so that it does not give up.
const BEAT: Duration = Duration::from_secs(10);
/// How long a client may take to open the page before it is told in words instead. Clients give a request up after
/// a minute unless they hear of progress, and some say that they open pages and then have nobody who would.
const OPEN_MAX: Duration = Duration::from_secs(30);
/// How long a call waits for a decision whose client does not hear of progress.
const SILENT_MAX: Duration = Duration::from_secs(50);
/// Longest message to a client.
const MESSAGE_BYTES_MAX: usize = 2_000;

/// Takes a pending call to its end, as far as people decide in time. Else its client is told that it
/// waits for an approval, and the question stands.
pub(super) async fn approve(
    backend: &Arc<dyn Backend>,
    asker: &Asker,
    call: ToolCall,
    incoming: Incoming,
    mut pending: Pending,
    wait: Duration,
) -> Result<ToolAnswer, RpcError> {
    let Some(page) = incoming.page.clone() else { return Ok(ToolAnswer::Pending(pending)) };
    let time = Time::of(asker, &incoming, wait);
    let mut beats = Beats(0);
    for _ in 0..QUESTIONS_MAX {
        let id = pending.approval_id;
        let shown = tokio::select! {
            shown = beats.during(asker, show(asker, &page, &call.name, &pending)) => shown,
            () = incoming.cancellation.cancelled() => Shown::Refused,
            () = time.open_ends() => Shown::Refused,
        };
        let waits = match shown {
            Shown::Opened => true,
            Shown::Refused => false,
            // A task has nobody to ask at times. It waits all the same, as without a page.
            Shown::Unreachable => !incoming.patience.is_zero(),
        };
        if !waits {
            return Ok(ToolAnswer::Pending(pending));
        }
        let decided = tokio::select! {
            biased;
            decided = beats.during(asker, Arc::clone(backend).decided(id)) => Some(decided?),
            () = incoming.cancellation.cancelled() => None,
            () = tokio::time::sleep_until(time.until) => None,
        };
        if decided.is_none() {
            return Ok(ToolAnswer::Pending(pending));
        }
        if asker.peer().era == Era::Session {
            asker.tell("notifications/elicitation/complete", &raw(&json!({ "elicitationId": id })));
        }
        let answer =
            Arc::clone(backend).after_decision(pending.clone(), call.clone(), incoming.clone()).await?;
        match answer {
            // The next question of the same call.
            ToolAnswer::Pending(next) if next.approval_id != id => pending = next,
            answer => return Ok(answer),
        }
    }
    Ok(ToolAnswer::Pending(pending))
}

/// What a client did with a page.
enum Shown {
    Opened,
    Refused,
    Unreachable,
}

async fn show(asker: &Asker, page: &Url, tool: &str, pending: &Pending) -> Shown {
    #[derive(Deserialize)]
    struct VisitReply {
        action: String,
    }
    let Ok(answer) = asker.ask(Question::VisitPage, question(page, tool, pending)).await else {
        return Shown::Unreachable;
    };
    match serde_json::from_str::<VisitReply>(answer.get()) {
        Ok(answer) if answer.action == "accept" => Shown::Opened,
        Ok(_) | Err(_) => Shown::Refused,
    }
}

/// Asks to open the page at this question.
fn question(page: &Url, tool: &str, pending: &Pending) -> Raw {
    let id = pending.approval_id;
    let url = page_of(page, id);
    let message = format!(
        "A person must approve this call of `{tool}` before it runs. Open the page, sign in and decide there; \
         opening it decides nothing. ParsedRequest because: {}",
        pending.reasons.join("; ")
    );
    let mut message = clean(&message).text.into_owned();
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    raw(&json!({ "mode": "url", "message": message, "url": url.as_str(), "elicitationId": id }))
}

/// The address of the page at this question.
fn page_of(page: &Url, id: ApprovalId) -> Url {
    let mut url = page.clone();
    url.set_path(&format!("/approvals/{id}"));
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// How a person approves a call, for clients that are told in words: the command, and the page where there is one.
pub(crate) struct HowToApprove {
    command: String,
    page: Option<Url>,
}

impl HowToApprove {
    pub(crate) fn of(pending: &Pending, page: Option<&Url>) -> Self {
        let id = pending.approval_id;
        Self { command: format!("helve approvals approve {id}"), page: page.map(|page| page_of(page, id)) }
    }

    /// One sentence for a model to pass on.
    pub(crate) fn in_words(&self) -> String {
        match &self.page {
            Some(page) => format!("A person approves it at {page} or with `{}`.", self.command),
            None => format!("A person approves it with `{}`.", self.command),
        }
    }

    /// The same for programs.
    pub(crate) fn describe(&self, parts: &mut Value) {
        parts["approval_command"] = self.command.as_str().into();
        if let Some(page) = &self.page {
            parts["approval_url"] = page.as_str().into();
        }
    }
}

/// Tells a model that a person must approve its call, and how they do. It counts as an error: a result would have
/// to fit the tool's output schema.
pub(super) fn approval_required(pending: Pending, page: Option<&Url>) -> Arc<RawValue> {
    let how = HowToApprove::of(&pending, page);
    let text = format!(
        "Not run yet: a person must approve this call first ({}): {}\n{}\nTell the user that, and make the same \
         call again once it is approved.",
        pending.approval_id,
        pending.reasons.join("; "),
        how.in_words(),
    );
    let mut parts = mcp_error(&Status::Pending(pending)).unwrap_or_default();
    how.describe(&mut parts);
    raw(&json!({
        "content": [{ "type": "text", "text": clean(&text).text }],
        "isError": true,
        "_meta": { MCP_ERROR: parts },
    }))
    .into()
}

/// How long a call waits for people.
struct Time {
    /// How long its client may take to open a page.
    open_max: Option<Duration>,
    /// When it no longer waits for a decision.
    until: Instant,
}

impl Time {
    fn of(asker: &Asker, incoming: &Incoming, wait: Duration) -> Self {
        // Nobody waits for the answer of a task, and in the stateless era a question is an answer.
        let is_waited_for = asker.peer().era == Era::Session && incoming.patience.is_zero();
        let wait = if is_waited_for && !asker.hears_progress() { wait.min(SILENT_MAX) } else { wait };
        Self { open_max: is_waited_for.then_some(OPEN_MAX), until: Instant::now() + wait }
    }

    async fn open_ends(&self) {
        match self.open_max {
            Some(open_max) => tokio::time::sleep(open_max).await,
            None => std::future::pending().await,
        }
    }
}

/// What a client hears while it waits, so that it does not give up.
struct Beats(u32);

impl Beats {
    async fn during<T>(&mut self, asker: &Asker, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            self.0 += 1;
            asker.progress(&Progress {
                // A tool's own progress begins beyond this, and progress must grow.
                done: f64::from(self.0) * 1e-6,
                total: None,
                message: Some("waiting for a person to decide".to_owned()),
            });
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(BEAT) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_address_of_the_page_and_nothing_else() {
        let page = Url::parse("https://helve.example.com/x?token=s3cret#helve_s3cret").unwrap();
        let approval_id = "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let pending =
            Pending { approval_id, reasons: vec!["hidden\u{202e} ".repeat(1_000)], binding: "b".to_owned() };
        let asked: Value = serde_json::from_str(question(&page, "deed", &pending).get()).unwrap();
        assert_eq!(asked["url"], "https://helve.example.com/approvals/apr_01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let message = asked["message"].as_str().unwrap();
        assert!(message.len() <= MESSAGE_BYTES_MAX && !message.contains('\u{202e}'), "{message}");
    }
}
