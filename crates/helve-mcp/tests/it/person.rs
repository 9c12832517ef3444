//! Somebody at the other end of a call, as a test needs them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::BoxFuture;
use helve::ports::{AskError, Client, Question};
use helve::record::RawJson;
use helve::run::Progress;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// What somebody says to a question.
type Says = Box<dyn Fn(Question, &Value) -> Option<Value> + Send + Sync>;

/// Somebody who takes questions, and remembers all that they were asked and told.
pub(crate) struct Person {
    id: String,
    says: Says,
    /// How long they think.
    thinks: Duration,
    asked: Mutex<Vec<(Question, Value)>>,
    progress: Mutex<Vec<Progress>>,
    logged: Mutex<Vec<Value>>,
}

impl Person {
    pub(crate) fn new(
        id: &str,
        says: impl Fn(Question, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self::thinking(id, Duration::ZERO, says))
    }

    fn thinking(
        id: &str,
        thinks: Duration,
        says: impl Fn(Question, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self {
            id: id.to_owned(),
            says: Box::new(says),
            thinks,
            asked: Mutex::default(),
            progress: Mutex::default(),
            logged: Mutex::default(),
        }
    }

    /// Somebody who sends every form off as it came, with what was filled in already.
    pub(crate) fn agreeable(id: &str) -> Arc<Self> {
        Self::new(id, |question, params| match question {
            Question::FillForm => Some(json!({ "action": "accept", "content": filled_in(params) })),
            Question::VisitPage | Question::Sample | Question::ListRoots => None,
        })
    }

    /// Somebody who writes their name into every form.
    pub(crate) fn named(id: &str) -> Arc<Self> {
        Self::slow(id, Duration::ZERO)
    }

    /// The same, but it takes them so long.
    pub(crate) fn slow(id: &str, thinks: Duration) -> Arc<Self> {
        let name = id.to_owned();
        Arc::new(Self::thinking(id, thinks, move |question, _| match question {
            Question::FillForm => Some(json!({ "action": "accept", "content": { "name": name } })),
            Question::VisitPage | Question::Sample | Question::ListRoots => None,
        }))
    }

    pub(crate) fn asked(&self) -> Vec<(Question, Value)> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn progress(&self) -> Vec<Progress> {
        self.progress.lock().unwrap().clone()
    }

    pub(crate) fn logged(&self) -> Vec<Value> {
        self.logged.lock().unwrap().clone()
    }
}

/// A form's fields as it suggests them, or with something that fits.
fn filled_in(params: &Value) -> Value {
    let fields = params.pointer("/requestedSchema/properties").and_then(Value::as_object);
    let fields = fields.into_iter().flatten();
    fields.map(|(name, field)| (name.clone(), something(field))).collect()
}

/// A value that a plain schema takes.
pub(crate) fn something(schema: &Value) -> Value {
    if let Some(value) = schema.get("default") {
        return value.clone();
    }
    if let Some(value) = schema.pointer("/enum/0") {
        return value.clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let names = required.filter_map(Value::as_str);
            names.map(|name| (name.to_owned(), something(&schema["properties"][name]))).collect()
        }
        _ => json!("something"),
    }
}

impl std::fmt::Debug for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Person").field(&self.id).finish()
    }
}

impl Client for Person {
    fn id(&self) -> &str {
        &self.id
    }

    fn can(&self, question: Question) -> bool {
        (self.says)(question, &Value::Null).is_some()
    }

    fn ask(&self, question: Question, params: RawJson) -> BoxFuture<'static, Result<RawJson, AskError>> {
        let params: Value = serde_json::from_str(params.get()).unwrap();
        let said = (self.says)(question, &params);
        self.asked.lock().unwrap().push((question, params));
        let thinks = self.thinks;
        Box::pin(async move {
            tokio::time::sleep(thinks).await;
            let said = said.ok_or_else(|| AskError::unsupported(question))?;
            Ok(to_raw_value(&said).unwrap())
        })
    }

    fn progress(&self, progress: &Progress) {
        self.progress.lock().unwrap().push(progress.clone());
    }

    fn log(&self, message: &RawValue) {
        self.logged.lock().unwrap().push(serde_json::from_str(message.get()).unwrap());
    }

    fn meta(&self) -> Option<&RawValue> {
        None
    }
}

/// A request of a visitor who can be asked things.
pub(crate) fn incoming(visitor: helve_mcp::server::Visitor) -> helve_mcp::server::Incoming {
    helve_mcp::server::Incoming {
        params: std::sync::Arc::from(serde_json::value::RawValue::NULL.to_owned()),
        visitor,
        client: Person::named("somebody"),
        cancellation: Default::default(),
        patience: std::time::Duration::ZERO,
        page: None,
        decided_at: None,
        trace_parent: None,
    }
}
