//! A call that a person must approve: its client is asked to open the page on which they decide, and
//! the call waits for it.
//!
//! INVARIANT: a client decides nothing. All it gets is the page's address, and nothing in that lets
//! anybody in: whoever decides signs in there with a secret of their own. What a client answers only
//! says whether the call waits. A form is never used for it, since the caller's own client, or the model
//! behind it, would fill it in.

use std::sync::Arc;
use std::time::Duration;

use helve::Pending;
use helve::ports::{Client, Question};
use helve::run::Progress;
use helve_net::Url;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::asker::Asker;
use super::backend::{Backend, Incoming, Reply, ToolAnswer, ToolCall, approval_required};
use crate::era::Era;
use crate::message::{Raw, RpcError, raw};
use crate::text::clean;

/// Most questions of one call, such as one whose parts each need an approval.
const QUESTIONS_MAX: usize = 32;
/// How often a client is told that its call waits, so that it does not give up.
const BEAT: Duration = Duration::from_secs(10);
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
    let Some(page) = incoming.page.clone() else { return Ok(approval_required(&pending)) };
    let until = Instant::now() + wait;
    for _ in 0..QUESTIONS_MAX {
        let id = pending.approval_id;
        let shown = tokio::select! {
            shown = show(asker, &page, &call.name, &pending) => shown,
            () = incoming.cancellation.cancelled() => Shown::Refused,
        };
        let waits = match shown {
            Shown::Opened => true,
            Shown::Refused => false,
            // A task has nobody to ask at times. It waits all the same, as without a page.
            Shown::Unreachable => !incoming.patience.is_zero(),
        };
        let decided = Arc::clone(backend).decided(id);
        if !waits || !is_decided(asker, decided, &incoming, until).await? {
            return Ok(approval_required(&pending));
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
    Ok(approval_required(&pending))
}

/// What a client did with a page.
enum Shown {
    Opened,
    Refused,
    Unreachable,
}

async fn show(asker: &Asker, page: &Url, tool: &str, pending: &Pending) -> Shown {
    #[derive(Deserialize)]
    struct Answer {
        action: String,
    }
    let Ok(answer) = asker.ask(Question::VisitPage, question(page, tool, pending)).await else {
        return Shown::Unreachable;
    };
    match serde_json::from_str::<Answer>(answer.get()) {
        Ok(answer) if answer.action == "accept" => Shown::Opened,
        Ok(_) | Err(_) => Shown::Refused,
    }
}

/// Asks to open the page at this question.
fn question(page: &Url, tool: &str, pending: &Pending) -> Raw {
    let id = pending.approval_id;
    let mut url = page.clone();
    url.set_path(&format!("/approvals/{id}"));
    url.set_query(None);
    url.set_fragment(None);
    let message = format!(
        "A person must approve this call of `{tool}` before it runs. Open the page, sign in and decide there; \
         opening it decides nothing. Asked because: {}",
        pending.reasons.join("; ")
    );
    let mut message = clean(&message).text.into_owned();
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    raw(&json!({ "mode": "url", "message": message, "url": url.as_str(), "elicitationId": id }))
}

/// Waits for a decision. False where there is none in time.
async fn is_decided(
    asker: &Asker,
    mut decided: Reply<()>,
    incoming: &Incoming,
    until: Instant,
) -> Result<bool, RpcError> {
    // A tool's own progress begins beyond this, and progress must grow.
    let mut beats = 0_u32;
    loop {
        beats += 1;
        asker.progress(&Progress {
            done: f64::from(beats) * 1e-6,
            total: None,
            message: Some("waiting for a person to decide".to_owned()),
        });
        tokio::select! {
            biased;
            decided = &mut decided => return decided.map(|()| true),
            () = incoming.cancellation.cancelled() => return Ok(false),
            () = tokio::time::sleep_until(until) => return Ok(false),
            () = tokio::time::sleep(BEAT) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
