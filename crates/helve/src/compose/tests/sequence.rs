use helve_core::{ErrorCode, Implementation, ToolError};
use serde_json::json;

use super::super::{OnError, Step, sequence};
use super::{host, host_on_record};

#[tokio::test]
async fn templates_see_input_earlier_steps_and_the_previous_result() {
    let host = host();
    let tool = host.built(
        sequence("sums")
            .step(Step::call("first", "math/add").arguments(json!({ "a": "{{ input.x }}", "b": 1 })))
            .step(
                Step::of("math/add")
                    .arguments(json!({ "a": "{{ previous.sum }}", "b": { "$pointer": "/steps/first/sum" } })),
            )
            .step(Step::of("text/upper").arguments(
                json!({ "text": "{{ steps.first.sum }} and {{ steps.add.sum }} of {{ context.agent }}" }),
            )),
    );
    let result = host.call(&tool, json!({ "x": 2 })).await.unwrap();
    assert_eq!(
        result,
        json!({ "results": { "first": { "sum": 3.0 }, "add": { "sum": 6.0 },
            "upper": { "text": "3.0 AND 6.0 OF BOT" } } })
    );
    assert_eq!(host.paths(), ["first", "add", "upper"]);
}

#[tokio::test]
async fn an_output_that_cannot_be_made_says_which_step_did_not_run() {
    let host = host();
    let composed = sequence("some")
        .step(Step::call("sum", "math/add").arguments(json!({ "a": 1, "b": 1 })))
        .step(Step::call("shout", "text/upper").arguments(json!({ "text": "x" })).when("steps.sum.sum > 5"))
        .output(json!({ "text": "{{ steps.shout.text }}" }));
    let error = host.call(&host.built(composed), json!({})).await.unwrap_err();
    assert!(error.message().starts_with("`output` cannot be made"), "{error}");
    assert!(error.suggestions().iter().any(|hint| hint.contains("`shout` did not run")), "{error:?}");
}

#[tokio::test]
async fn without_arguments_a_step_gets_what_fits_it() {
    let host = host();
    let tool = host.built(
        sequence("pass")
            .step(Step::call("shout", "text/upper"))
            .step(Step::call("again", "text/upper"))
            .step(Step::call("sum", "math/add").arguments(json!({ "a": 1, "b": 1 })))
            .step(Step::call("back", "text/upper")),
    );
    host.call(&tool, json!({ "text": "ada" })).await.unwrap();
    assert_eq!(host.arguments("shout"), json!({ "text": "ada" }), "the input");
    assert_eq!(host.arguments("again"), json!({ "text": "ADA" }), "the previous result");
    assert_eq!(host.arguments("back"), json!({ "text": "ada" }), "a sum does not fit, so the input");
}

#[tokio::test]
async fn code_can_stand_in_for_templates_and_conditions() {
    let host = host();
    let tool = host.built(
        sequence("coded")
            .step(Step::call("sum", "math/add"))
            .step(
                Step::call("twice", "math/add")
                    .transform(|previous, input| Ok(json!({ "a": previous["sum"], "b": input["a"] }))),
            )
            .step(Step::of("echo").when_code(|scope| Ok(scope.pointer("/steps/sum/sum") == Some(&json!(0)))))
            .output_code(|scope| {
                let sum = scope.pointer("/steps/twice/sum").ok_or_else(|| ToolError::failed("no sum"))?;
                Ok(json!([sum]))
            }),
    );
    assert_eq!(host.call(&tool, json!({ "a": 1, "b": 2 })).await.unwrap(), json!([4.0]));
    assert_eq!(host.paths(), ["sum", "twice"]);
    assert!(tool.handler().fingerprint().ends_with("+code"));
}

#[tokio::test]
async fn a_step_whose_condition_does_not_hold_is_skipped() {
    let host = host();
    let tool = host.built(
        sequence("perhaps")
            .step(Step::call("sum", "math/add"))
            .step(Step::call("big", "echo").when("previous.sum > 10"))
            .step(Step::call("last", "echo").arguments(json!({ "sum": "{{ previous.sum }}" }))),
    );
    let result = host.call(&tool, json!({ "a": 1, "b": 2 })).await.unwrap();
    assert_eq!(result["results"], json!({ "sum": { "sum": 3.0 }, "last": { "sum": 3.0 } }));
    let result = host.call(&tool, json!({ "a": 10, "b": 2 })).await.unwrap();
    assert!(result["results"].get("big").is_some());
}

#[tokio::test]
async fn a_failure_stops_and_names_its_step() {
    let host = host();
    let tool =
        host.built(sequence("stops").step(Step::of("echo")).step(Step::of("fail")).step(Step::of("wait")));
    let error = host.call(&tool, json!({})).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Network);
    assert_eq!(error.message(), "step `fail` failed: the line is dead");
    assert_eq!(error.suggestions(), ["wait"]);
    assert!(!error.is_retryable(), "the first step would be done twice");
    assert_eq!(host.paths(), ["echo", "fail"]);
    let at_once = host.built(sequence("fails-at-once").step(Step::of("fail")));
    assert!(host.call(&at_once, json!({})).await.unwrap_err().is_retryable());
}

#[tokio::test]
async fn with_continue_errors_stand_beside_results_and_later_steps_see_them() {
    let host = host();
    let tool = host.built(
        sequence("goes-on")
            .step(Step::call("soft", "fail-softly"))
            .step(Step::call("hard", "fail"))
            .step(Step::call("torn", "echo").arguments(json!({ "x": "{{ input.nothing }}" })))
            .step(
                Step::call("mend", "echo")
                    .when("errors.hard")
                    .arguments(json!({ "code": "{{ errors.hard.code }}" })),
            )
            .input_schema(json!({ "type": "object" }))
            .on_error(OnError::Continue),
    );
    let result = host.call(&tool, json!({})).await.unwrap();
    assert_eq!(result["results"], json!({ "mend": { "code": "network" } }));
    let codes = |name: &str| result["errors"][name]["code"].clone();
    assert_eq!(
        [codes("soft"), codes("hard"), codes("torn")],
        ["execution_failed", "network", "execution_failed"]
    );
    assert_eq!(result["errors"]["soft"]["message"], "not today");
}

#[tokio::test]
async fn a_question_to_a_person_ends_the_run_whatever_the_policy() {
    let host = host();
    let tool =
        host.built(sequence("asks").step(Step::of("ask")).step(Step::of("echo")).on_error(OnError::Continue));
    let error = host.call(&tool, json!({})).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PermissionDenied);
    assert!(error.message().starts_with("waiting for approval apr_"), "{error}");
    assert_eq!(host.paths(), ["ask"]);
}

#[tokio::test]
async fn a_call_that_is_taken_back_starts_nothing_more() {
    let host = host();
    let tool = host.built(sequence("long").step(Step::of("echo")).step(Step::call("second", "echo")));
    let context = host.context(&tool);
    context.cancellation().cancel();
    let error = tool.handler().call(json!({}), context).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Cancelled);
    assert!(host.paths().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_step_can_have_less_time_than_its_tool() {
    let host = host();
    let quick = Step::of("wait").arguments(json!({ "ms": 5000 })).timeout(std::time::Duration::from_secs(1));
    let tool = host.built(sequence("hasty").step(quick));
    assert_eq!(host.call(&tool, json!({})).await.unwrap_err().code(), ErrorCode::Timeout);
}

#[tokio::test]
async fn five_compositions_deep_each_part_has_its_own_path() {
    let host = host();
    host.registered(sequence("level-1").step(Step::of("math/add")).output(json!("{{ previous }}")));
    for level in 2..=5 {
        let inner = format!("level-{}", level - 1);
        let step = Step::call("in", inner);
        let after = Step::call("more", "math/add").arguments(json!({ "a": "{{ previous.sum }}", "b": 1 }));
        host.registered(
            sequence(format!("level-{level}")).step(step).step(after).output(json!("{{ previous }}")),
        );
    }
    let tool = host.registry.tool("level-5").unwrap();
    assert_eq!(host.call(&tool, json!({ "a": 1, "b": 1 })).await.unwrap(), json!({ "sum": 6.0 }));
    assert_eq!(
        host.paths(),
        [
            "in",
            "in/in",
            "in/in/in",
            "in/in/in/in",
            "in/in/in/in/add",
            "in/in/in/more",
            "in/in/more",
            "in/more",
            "more"
        ]
    );
}

#[tokio::test]
async fn an_inner_failure_says_where() {
    let host = host();
    host.registered(sequence("inner").step(Step::of("fail")));
    let outer = host.built(sequence("outer").step(Step::call("deep", "inner")));
    let error = host.call(&outer, json!({})).await.unwrap_err();
    assert_eq!(error.message(), "step `deep` failed: step `fail` failed: the line is dead");
}

#[tokio::test]
async fn after_a_crash_the_same_parts_are_asked_for_with_the_same_arguments() {
    let host = host();
    let tool = host.built(
        sequence("again")
            .step(Step::call("sum", "math/add"))
            .step(Step::of("fail").on_error(OnError::Continue))
            .step(Step::of("echo").when("errors.fail").arguments(json!({ "sum": "{{ steps.sum.sum }}" }))),
    );
    let arguments = json!({ "a": 1, "b": 2 });
    let first = host.call(&tool, arguments.clone()).await.unwrap();
    let second_host = host_on_record(&host);
    let second = second_host.call(&tool, arguments).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(*host.calls.lock().unwrap(), *second_host.calls.lock().unwrap());
}

#[tokio::test]
async fn progress_counts_parts_and_names_them() {
    let host = host();
    let tool = host.built(
        sequence("steps")
            .step(Step::of("echo"))
            .step(Step::call("no", "echo").when("false"))
            .step(Step::call("end", "echo")),
    );
    host.call(&tool, json!({})).await.unwrap();
    let reports = host.reports.lock().unwrap();
    let shown: Vec<_> =
        reports.iter().map(|one| (one.done, one.total.unwrap(), one.message.as_deref().unwrap())).collect();
    assert_eq!(shown, [(1.0, 3.0, "echo"), (3.0, 3.0, "end")]);
}

#[test]
fn the_handler_says_what_it_is() {
    let host = host();
    let undoing = host.built(sequence("undoes").step(Step::of("echo")).on_error(OnError::Undo));
    let handler = undoing.handler();
    assert!(handler.undoes_on_error() && handler.is_instant() && undoing.is_composed());
    assert_eq!(handler.implementation(), Implementation::Composition);
    assert_eq!(handler.parts(), ["echo"]);
    let by_step =
        host.built(sequence("one").step(Step::of("echo").on_error(OnError::Undo)).step(Step::of("wait")));
    assert!(by_step.handler().undoes_on_error());
    let plain = host.built(sequence("undoes").step(Step::of("echo")));
    assert!(!plain.handler().undoes_on_error());
    assert_ne!(plain.digest(), undoing.digest(), "the fingerprint is a part of the digest");
}
