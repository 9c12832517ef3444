use helve_core::ErrorCode;
use serde_json::json;

use super::super::{Branch, OnError, Step, conditional};
use super::{host, host_on_record};

#[tokio::test]
async fn the_first_branch_that_holds_runs_and_no_other_tool_does() {
    let host = host();
    let tool = host.built(
        conditional("choose")
            .branch(Branch::when("input.n > 100").named("large").step(Step::of("fail")))
            .branch(
                Branch::when("input.n > 10")
                    .named("medium")
                    .step(Step::of("math/add").arguments(json!({ "a": "{{ input.n }}", "b": 1 })))
                    .step(
                        Step::of("echo")
                            .arguments(json!({ "n": "{{ steps.add.sum }}", "in": "{{ branch }}" })),
                    ),
            )
            .branch(Branch::when("input.n > 5").step(Step::of("fail")))
            .otherwise([Step::of("echo").arguments(json!({ "small": true }))]),
    );
    let result = host.call(&tool, json!({ "n": 50 })).await.unwrap();
    assert_eq!(result, json!({ "branch": "medium", "result": { "n": 51.0, "in": "medium" } }));
    assert_eq!(host.paths(), ["medium.add", "medium.echo"]);
    let result = host.call(&tool, json!({ "n": 1 })).await.unwrap();
    assert_eq!(result, json!({ "branch": "otherwise", "result": { "small": true } }));
    let error = host.call(&tool, json!({ "n": 6 })).await.unwrap_err();
    assert_eq!(error.message(), "step `branch_3.fail` failed: the line is dead");
}

#[tokio::test]
async fn a_decision_is_made_by_one_call() {
    let host = host();
    let tool = host.built(
        conditional("decided")
            .decide(Step::of("math/add"))
            .branch(
                Branch::when("decision.sum >= 10")
                    .named("big")
                    .step(Step::of("echo").arguments(json!({ "sum": "{{ decision.sum }}" }))),
            )
            .otherwise([]),
    );
    let result = host.call(&tool, json!({ "a": 7, "b": 4 })).await.unwrap();
    assert_eq!(result, json!({ "branch": "big", "result": { "sum": 11.0 } }));
    assert_eq!(host.paths(), ["decide", "big.echo"]);
    let result = host.call(&tool, json!({ "a": 1, "b": 1 })).await.unwrap();
    assert_eq!(result, json!({ "branch": "otherwise", "result": null }));
    let again = host_on_record(&host);
    again.call(&tool, json!({ "a": 7, "b": 4 })).await.unwrap();
    assert_eq!(again.paths()[0], "decide");
}

#[tokio::test]
async fn conditions_can_look_at_the_caller_and_be_code() {
    let host = host();
    let tool = host.built(
        conditional("who")
            .branch(
                Branch::when_code(|scope| Ok(scope.pointer("/input/x").is_some()))
                    .named("code")
                    .step(Step::of("echo")),
            )
            .branch(
                Branch::when("context.session == 's-1' and not context.loop")
                    .named("mine")
                    .step(Step::of("echo")),
            ),
    );
    assert_eq!(host.call(&tool, json!({ "x": 1 })).await.unwrap()["branch"], "code");
    assert_eq!(host.call(&tool, json!({})).await.unwrap()["branch"], "mine");
}

#[tokio::test]
async fn where_nothing_fits_the_conditions_are_told() {
    let host = host();
    let tool = host.built(
        conditional("narrow")
            .branch(Branch::when("input.kind == 'a'").named("a").step(Step::of("echo")))
            .branch(Branch::when("input.kind == 'b'").step(Step::of("echo"))),
    );
    let error = host.call(&tool, json!({ "kind": "c" })).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NoBranchMatched);
    assert_eq!(
        error.suggestions(),
        [
            "branch `a` is taken when `input.kind == 'a'` holds",
            "branch `branch_2` is taken when `input.kind == 'b'` holds"
        ]
    );
    assert!(host.paths().is_empty());
}

#[tokio::test]
async fn errors_of_a_branch_and_of_the_decision_are_kept() {
    let host = host();
    let tool = host.built(
        conditional("goes-on")
            .decide(Step::of("fail").on_error(OnError::Continue))
            .branch(
                Branch::when("errors.decide.code == 'network'")
                    .named("offline")
                    .step(Step::of("fail-softly").on_error(OnError::Continue)),
            )
            .otherwise([]),
    );
    let result = host.call(&tool, json!({})).await.unwrap();
    assert_eq!((&result["branch"], &result["result"]), (&json!("offline"), &json!(null)));
    assert_eq!(result["errors"]["decide"]["code"], "network");
    assert_eq!(result["errors"]["fail_softly"]["message"], "not today");
}

#[tokio::test]
async fn a_condition_that_cannot_be_read_is_an_error_and_not_a_no() {
    let host = host();
    let tool = host
        .built(conditional("torn").branch(Branch::when("input.n > 1").step(Step::of("echo"))).otherwise([]));
    let error = host.call(&tool, json!({ "n": {} })).await;
    // Jinja orders values of all types; what it cannot do is an error with the branch's name.
    if let Err(error) = error {
        assert!(error.message().contains("branch_1"), "{error}");
    }
    let tool = host.built(
        conditional("worse").branch(Branch::when("input.n.x() > 1").step(Step::of("echo"))).otherwise([]),
    );
    let error = host.call(&tool, json!({ "n": {} })).await.unwrap_err();
    assert!(error.message().contains("the condition of branch `branch_1`"), "{error}");
}
