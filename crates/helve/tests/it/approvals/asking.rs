//! Putting a question: the journal, limits, previews.

use super::*;

#[tokio::test]
async fn questions_and_decisions_are_in_the_journal() {
    let bench = Bench::new();
    let ids = [bench.ask(send("ada")).await.approval_id, bench.ask(send("eve")).await.approval_id];
    bench.approve(ids[0]).await;
    bench.decide(ids[1], Decision::deny("not her")).await.unwrap();
    let steps: Vec<_> = bench
        .ledger
        .entries()
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Step(step) => Some((step.kind, step.payload.unwrap().get().to_owned())),
            Entry::Started(_) | Entry::Finished(_) => None,
        })
        .collect();
    let by = Some("local user ada".to_owned());
    let decided = |approval_id, decision| StepKind::Decided { approval_id, decision, by: by.clone() };
    let kinds: Vec<_> = steps.iter().map(|(kind, _)| kind.clone()).collect();
    assert_eq!(
        kinds,
        [
            StepKind::Asked { approval_id: ids[0] },
            StepKind::Asked { approval_id: ids[1] },
            decided(ids[0], ApprovalState::Approved),
            decided(ids[1], ApprovalState::Denied),
        ]
    );
    assert!(steps[0].1.contains("is of high risk") && steps[3].1.contains("not her"), "{steps:?}");
}

#[tokio::test]
async fn a_ledger_that_refuses_means_no() {
    for allowed in 0..6 {
        let witness = Witness::default();
        let inner: Arc<dyn Ledger> = Arc::new(VolatileLedger::default());
        let build = |ledger: Arc<dyn Ledger>| {
            Runtime::builder().ledger(ledger).tool(witness.tool("send")).unwrap().build()
        };
        let faulty = build(Arc::new(FaultyLedger::failing_after(inner.clone(), allowed)));
        let asked = faulty.call(send("ada")).await;
        let Status::Pending(pending) = asked.status else {
            assert_eq!((code(&asked), allowed < 2), ("journal_unavailable", true), "{allowed}");
            continue;
        };
        let decided = faulty.approvals().decide(pending.approval_id, Decision::approve(), &ada()).await;
        let outcome = faulty.call(send("ada")).await;
        match decided {
            // The question itself, its call's end and the decision have been written: three.
            Ok(_) => assert!(allowed >= 3, "{allowed}"),
            Err(error) => assert!(matches!(error, DecideError::Journal(_)), "{error}"),
        }
        // The start, which uses the approval up, is the fifth; without it nothing runs.
        assert_eq!(witness.seen().len(), usize::from(allowed >= 5), "{allowed}: {outcome:?}");
    }
}

#[tokio::test]
async fn too_many_questions_are_not_put() {
    let bench = Bench::with(|tool| tool, |settings| settings.approvals.pending_max = 3);
    for to in ["a", "b", "c"] {
        bench.ask(send(to)).await;
    }
    let outcome = bench.runtime.call(send("d")).await;
    assert_eq!(code(&outcome), "permission_denied");
    assert!(outcome.error().unwrap().message().contains("3 calls wait"), "{outcome:?}");
}

/// A handler that shows what it would do.
struct Shows(&'static str);

impl Handler for Shows {
    fn call(&self, _: Value, _: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        Box::pin(async { Ok(Value::Null) })
    }

    fn preview(
        &self,
        arguments: &Value,
        _: Context,
    ) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        let (how, to) = (self.0, arguments["to"].to_string());
        assert_ne!(how, "panics at once");
        Some(Box::pin(async move {
            match how {
                "fails" => Err(ToolError::failed("no idea")),
                "panics" => panic!("hidden"),
                "hangs" => std::future::pending().await,
                "floods" => Ok("x".repeat(2 << 20).into()),
                _ => Ok(format!("would write to {to}").into()),
            }
        }))
    }
}

#[tokio::test]
async fn a_preview_is_shown_and_never_keeps_a_person_from_deciding() {
    for (how, expected) in [
        ("works", "would write to \"ada\""),
        ("fails", "(no preview: no idea)"),
        ("panics", "(no preview: the tool's own code crashed)"),
        ("panics at once", "(no preview: the tool's own code crashed)"),
        ("hangs", "(no preview: the tool took too long)"),
        ("floods", "xxx"),
    ] {
        let settings = Settings { precondition_timeout: Duration::from_millis(50), ..Settings::default() };
        let tool = Tool::builder("send")
            .description("Sends.")
            .input_schema(json!({ "type": "object" }))
            .risk(Risk::High)
            .shared_handler(Arc::new(Shows(how)));
        let runtime = Runtime::builder().settings(settings).tool(tool).unwrap().build();
        let Status::Pending(pending) = runtime.call(send("ada")).await.status else { panic!("{how}") };
        let shown = runtime.approvals().get(pending.approval_id).await.unwrap().unwrap();
        let preview = shown.preview.unwrap();
        assert!(preview.contains(expected), "{how}: {preview}");
        assert!(preview.len() < helve::Preview::TEXT_BYTES_MAX + 20);
    }
}
