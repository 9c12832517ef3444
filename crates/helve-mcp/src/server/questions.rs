//! Questions that reach the client in the call's own answer, and answers when it
//! makes the call again: the stateless era's way of asking.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve::BoxFuture;
use helve::ports::{AskError, Question};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot};

use crate::message::{Raw, RpcError, raw};

/// Most questions of one call that wait at once, and most answers that are kept for later ones.
const OPEN_MAX: usize = 32;

/// Where a tool names its question, so that answers can be given before it is put. It never reaches
/// the client.
pub const KEY: &str = "helve/key";

/// The open questions of one call.
#[derive(Default)]
pub(super) struct Questions {
    inner: Mutex<Inner>,
    asked: Notify,
}

#[derive(Default)]
struct Inner {
    /// Answers that came before their question.
    given: HashMap<String, Raw>,
    open: BTreeMap<String, Open>,
    count: usize,
}

struct Open {
    question: Question,
    params: Raw,
    answer: oneshot::Sender<Raw>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a question, and waits until the client answers it.
    pub(super) fn ask(
        self: &Arc<Self>,
        question: Question,
        params: Raw,
    ) -> BoxFuture<'static, Result<Raw, AskError>> {
        let (key, params) = split_key(params);
        let mut inner = self.lock();
        inner.count += 1;
        let key = key.unwrap_or_else(|| format!("{}-{}", word(question), inner.count));
        if let Some(answer) = inner.given.remove(&key).filter(|answer| fits(question, answer)) {
            return Box::pin(async move { Ok(answer) });
        }
        if inner.open.len() >= OPEN_MAX || inner.open.contains_key(&key) {
            return Box::pin(async move { Err(refused(format!("question `{key}` cannot be put now"))) });
        }
        let (answer, answered) = oneshot::channel();
        inner.open.insert(key.clone(), Open { question, params, answer });
        drop(inner);
        self.asked.notify_one();
        let withdrawal = Withdrawal { questions: Arc::clone(self), key };
        Box::pin(async move {
            let answer = answered.await;
            drop(withdrawal);
            answer.map_err(|_| refused("the question was not answered".to_owned()))
        })
    }

    /// Waits until a question is put.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// The open questions in the protocol's form. None where there are none.
    pub(super) fn to_requests(&self) -> Option<Value> {
        let inner = self.lock();
        let requests: Map<String, Value> = inner
            .open
            .iter()
            .map(|(key, open)| {
                // What was raw a moment ago can be read again.
                let params: Value = serde_json::from_str(open.params.get()).unwrap_or_default();
                (key.clone(), serde_json::json!({ "method": open.question.method(), "params": params }))
            })
            .collect();
        (!requests.is_empty()).then_some(Value::Object(requests))
    }

    /// Takes answers. Those that fit no question are kept for later ones, and those that are no
    /// answer are passed over: then the question is put again.
    pub(super) fn give(&self, responses: Option<&RawValue>) -> Result<(), RpcError> {
        let Some(responses) = responses else { return Ok(()) };
        let responses: BTreeMap<String, Raw> = serde_json::from_str(responses.get())
            .map_err(|error| RpcError::invalid_params(format!("invalid `inputResponses`: {error}")))?;
        let mut inner = self.lock();
        for (key, response) in responses.into_iter().take(OPEN_MAX) {
            match inner.open.remove(&key) {
                Some(open) if fits(open.question, &response) => {
                    // The asker may have gone meanwhile.
                    let _ = open.answer.send(response);
                }
                Some(open) => {
                    inner.open.insert(key, open);
                }
                None => {
                    inner.given.insert(key, response);
                }
            }
        }
        Ok(())
    }
}

/// Takes a question back that nobody waits for any more.
struct Withdrawal {
    questions: Arc<Questions>,
    key: String,
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        self.questions.lock().open.remove(&self.key);
    }
}

/// The name that a tool gave its question, and the parameters without it.
pub(super) fn split_key(params: Raw) -> (Option<String>, Raw) {
    if !params.get().contains(KEY) {
        return (None, params);
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_str(params.get()) else { return (None, params) };
    let Some(Value::Object(meta)) = fields.get_mut("_meta") else { return (None, params) };
    let key = meta.remove(KEY).and_then(|key| key.as_str().map(str::to_owned));
    if meta.is_empty() {
        fields.remove("_meta");
    }
    (key, raw(&fields))
}

fn word(question: Question) -> &'static str {
    match question {
        Question::FillForm => "form",
        Question::VisitPage => "page",
        Question::Sample => "sample",
        Question::ListRoots => "roots",
    }
}

/// Whether an answer has the shape that its question asks for.
fn fits(question: Question, answer: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Head<'a> {
        action: Option<&'a str>,
        #[serde(borrow)]
        roots: Option<&'a RawValue>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let Ok(head) = serde_json::from_str::<Head<'_>>(answer.get()) else { return false };
    match question {
        Question::FillForm | Question::VisitPage => {
            head.action.is_some_and(|action| matches!(action, "accept" | "decline" | "cancel"))
        }
        Question::Sample => head.content.is_some(),
        Question::ListRoots => head.roots.is_some_and(|roots| roots.get().starts_with('[')),
    }
}

fn refused(message: String) -> AskError {
    AskError { code: RpcError::INTERNAL, message, data: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(key: Option<&str>) -> Raw {
        match key {
            Some(key) => raw(&json!({ "message": "?", "_meta": { KEY: key } })),
            None => raw(&json!({ "message": "?" })),
        }
    }

    fn give(questions: &Questions, responses: Value) {
        questions.give(Some(&raw(&responses))).unwrap();
    }

    #[tokio::test]
    async fn answers_find_their_questions_and_nonsense_finds_none() {
        let questions = Arc::new(Questions::default());
        let named = questions.ask(Question::FillForm, form(Some("name")));
        let unnamed = questions.ask(Question::ListRoots, form(None));
        questions.asked().await;
        let requests = questions.to_requests().unwrap();
        assert_eq!(requests["name"], json!({ "method": "elicitation/create", "params": { "message": "?" } }));
        assert_eq!(requests["roots-2"]["method"], "roots/list");
        for nonsense in
            [json!({ "name": 7 }), json!({ "name": {} }), json!({ "name": { "action": "shout" } })]
        {
            give(&questions, nonsense);
            assert_eq!(questions.to_requests().unwrap().as_object().unwrap().len(), 2);
        }
        assert!(questions.give(Some(&raw(&7))).is_err());
        give(&questions, json!({ "name": { "action": "decline" }, "roots-2": { "roots": [] }, "other": {} }));
        assert_eq!(named.await.unwrap().get(), r#"{"action":"decline"}"#);
        assert_eq!(unnamed.await.unwrap().get(), r#"{"roots":[]}"#);
        assert!(questions.to_requests().is_none());
    }

    #[tokio::test]
    async fn an_answer_can_come_before_its_question() {
        let questions = Arc::new(Questions::default());
        give(&questions, json!({ "name": { "action": "cancel" } }));
        let answer = questions.ask(Question::FillForm, form(Some("name"))).await.unwrap();
        assert_eq!(answer.get(), r#"{"action":"cancel"}"#);
    }

    #[test]
    fn a_question_that_nobody_waits_for_is_gone() {
        let questions = Arc::new(Questions::default());
        drop(questions.ask(Question::FillForm, form(None)));
        assert!(questions.to_requests().is_none());
    }
}
