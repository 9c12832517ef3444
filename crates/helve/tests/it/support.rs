//! Tools and runtimes for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use helve::record::{Entry, Finished};
use helve::{
    Call, ErrorCode, Outcome, Runtime, RuntimeBuilder, Settings, Tool, ToolBuilder, ToolError, VolatileLedger,
};
use serde_json::{Value, json};

/// A runtime whose journal can be looked at.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) journal: Arc<VolatileLedger>,
}

impl Bench {
    pub(crate) fn new(tools: impl IntoIterator<Item = ToolBuilder>) -> Self {
        Self::with(tools, |builder| builder)
    }

    pub(crate) fn with(
        tools: impl IntoIterator<Item = ToolBuilder>,
        change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
    ) -> Self {
        let journal = Arc::new(VolatileLedger::default());
        let mut builder = change(Runtime::builder().ledger(journal.clone()));
        for tool in tools {
            builder = builder.tool(tool).unwrap();
        }
        Self { runtime: builder.build(), journal }
    }

    pub(crate) fn with_settings(
        tools: impl IntoIterator<Item = ToolBuilder>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        Self::with(tools, |builder| builder.settings(settings))
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.runtime.call(Call::new(tool, arguments)).await
    }

    /// The last record. Fails if the last entry is not the end of a call.
    pub(crate) fn last_record(&self) -> Finished {
        match self.journal.entries().pop() {
            Some(Entry::Finished(finished)) => *finished,
            other => panic!("the journal ends in {other:?}"),
        }
    }

    pub(crate) fn count(&self, wanted: impl Fn(&Entry) -> bool) -> usize {
        self.journal.entries().iter().filter(|entry| wanted(entry)).count()
    }
}

pub(crate) fn code(outcome: &Outcome) -> &'static str {
    outcome.error().map_or("none", |error| error.code().as_str())
}

/// A tool that answers with its arguments.
pub(crate) fn echo(name: &str) -> ToolBuilder {
    Tool::builder(name)
        .description("Answers with its arguments.")
        .input_schema(json!({ "type": "object" }))
        .read_only()
        .handler(|arguments, _| async move { Ok(arguments) })
}

/// A tool that counts how often it ran.
pub(crate) fn counter(name: &str) -> (ToolBuilder, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let tool = Tool::builder(name)
        .description("Counts how often it ran.")
        .input_schema(json!({ "type": "object" }))
        .handler(move |_, _| {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            async move { Ok(json!(number)) }
        });
    (tool, count)
}

pub(crate) fn ran(count: &AtomicU32) -> u32 {
    count.load(Ordering::SeqCst)
}

/// A tool that fails with `error` the first `failures` times, and how often it ran.
pub(crate) fn flaky(
    failures: u32,
    error: impl Fn() -> ToolError + Send + Sync + 'static,
) -> (ToolBuilder, Arc<AtomicU32>) {
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = attempts.clone();
    let tool = Tool::builder("flaky").description("Fails at first.").handler(move |_, _| {
        let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
        std::future::ready(if number <= failures { Err(error()) } else { Ok(json!(number)) })
    });
    (tool, attempts)
}

/// An error that says: the other side is unwell.
pub(crate) fn offline() -> ToolError {
    ToolError::new(ErrorCode::Network, "no route to host")
}
