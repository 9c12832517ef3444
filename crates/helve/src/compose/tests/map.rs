use std::sync::atomic::Ordering;

use helve_core::ErrorCode;
use serde_json::json;

use super::super::{OnError, map};
use super::{host, host_on_record};

#[tokio::test(start_paused = true)]
async fn results_are_in_the_order_of_the_items() {
    let host = host();
    let tool = host
        .built(map("waits", "wait", "input.times").arguments(json!({ "ms": "{{ item }}" })).concurrency(3));
    let result = host.call(&tool, json!({ "times": [50, 10, 30, 1] })).await.unwrap();
    assert_eq!(result, json!([{ "waited": 50 }, { "waited": 10 }, { "waited": 30 }, { "waited": 1 }]));
    assert_eq!(host.running_max.load(Ordering::SeqCst), 3);
    assert_eq!(host.paths(), ["wait[0]", "wait[1]", "wait[2]", "wait[3]"]);
    assert_eq!(host.ends.lock().unwrap()[0].0, "wait[1]");
}

#[tokio::test]
async fn items_have_a_name_and_a_number() {
    let host = host();
    let tool = host.built(
        map("numbered", "echo", "input.pages")
            .item_name("page")
            .arguments(json!({ "title": "{{ index }}: {{ page.title }}", "of": "{{ input.book }}" }))
            .output(json!({ "count": "{{ results | length }}", "first": "{{ results[0] }}" })),
    );
    let result = host.call(&tool, json!({ "pages": [{ "title": "One" }], "book": "B" })).await.unwrap();
    assert_eq!(result, json!({ "count": 1, "first": { "title": "0: One", "of": "B" } }));
}

#[tokio::test]
async fn without_arguments_an_item_is_the_arguments() {
    let host = host();
    let tool = host.built(map("sums", "math/add", "input.pairs"));
    let result =
        host.call(&tool, json!({ "pairs": [{ "a": 1, "b": 2 }, { "a": 3, "b": 4 }] })).await.unwrap();
    assert_eq!(result, json!([{ "sum": 3.0 }, { "sum": 7.0 }]));
    let coded = host.built(
        map("coded", "math/add", "input.pairs")
            .over_code(|_| Ok(json!([1, 2])))
            .transform(|item, input| Ok(json!({ "a": item, "b": input["b"] }))),
    );
    assert_eq!(host.call(&coded, json!({ "b": 1 })).await.unwrap(), json!([{ "sum": 2.0 }, { "sum": 3.0 }]));
}

#[tokio::test]
async fn an_item_that_fails_stops_all_or_stands_as_an_error() {
    let host = host();
    let pairs = json!({ "pairs": [{ "a": 1, "b": 2 }, { "a": "x" }, { "a": 3, "b": 4 }] });
    let open = |tool: super::super::ComposedBuilder<_>| tool.input_schema(json!({ "type": "object" }));
    let goes_on = host.built(open(map("goes-on", "math/add", "input.pairs").on_error(OnError::Continue)));
    let result = host.call(&goes_on, pairs.clone()).await.unwrap();
    assert_eq!((&result[0], &result[2]), (&json!({ "sum": 3.0 }), &json!({ "sum": 7.0 })));
    assert_eq!(result[1]["error"]["code"], "validation_failed");
    let stops = host.built(open(map("stops", "math/add", "input.pairs").concurrency(1)));
    let error = host.call(&stops, pairs).await.unwrap_err();
    assert!(error.message().starts_with("step `add[1]` failed: "), "{error}");
    assert_eq!(
        host.paths().iter().filter(|path| *path == "add[2]").count(),
        1,
        "only the first map got there"
    );
}

#[tokio::test]
async fn too_many_items_and_no_list_are_refused_before_anything_runs() {
    let host = host();
    let tool =
        host.built(map("few", "echo", "input.items").items_max(2).input_schema(json!({ "type": "object" })));
    for arguments in [json!({ "items": [{}, {}, {}] }), json!({ "items": "no list" })] {
        let error = host.call(&tool, arguments).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationFailed);
    }
    let usual = host.built(map("usual", "echo", "input.items"));
    let error = host.call(&usual, json!({ "items": vec![json!({}); 1_001] })).await.unwrap_err();
    assert_eq!(error.message(), "the list has 1001 items, and at most 1000 are allowed");
    assert!(host.paths().is_empty());
}

#[tokio::test]
async fn an_empty_list_gives_an_empty_list() {
    let host = host();
    let tool = host.built(map("none", "echo", "input.items"));
    assert_eq!(host.call(&tool, json!({ "items": [] })).await.unwrap(), json!([]));
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_same_items_are_asked_for() {
    let host = host();
    let tool = host.built(map("again", "wait", "input.times").arguments(json!({ "ms": "{{ item }}" })));
    let arguments = json!({ "times": [5, 3, 1, 4] });
    let first = host.call(&tool, arguments.clone()).await.unwrap();
    let again = host_on_record(&host);
    assert_eq!(again.call(&tool, arguments).await.unwrap(), first);
    assert_eq!(*host.calls.lock().unwrap(), *again.calls.lock().unwrap());
}
