//! The built-in tools, through their schemas.

use helve::{Annotations, Category, ErrorCode, Example, Risk, Source, Tool};
use helve_tools::builtin_tools;
use serde_json::json;

use crate::{call, context};

fn builtin(name: &str) -> Tool {
    builtin_tools().into_iter().find(|tool| tool.name().as_str() == name).unwrap()
}

#[test]
fn there_are_four_and_all_are_harmless() {
    let tools = builtin_tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.name().as_str()).collect();
    assert_eq!(names, ["time-now", "math-eval", "text-stats", "json-query"]);
    for tool in &tools {
        let definition = tool.definition();
        assert_eq!(definition.source, Source::Builtin);
        assert_eq!((definition.category, definition.risk), (Category::Data, Risk::Low));
        assert_eq!(definition.annotations, Annotations::pure());
        assert!(definition.examples.len() >= 2 && definition.output_schema.is_some());
        assert_eq!(tool.warnings(), [], "{}", tool.name());
    }
}

#[test]
fn what_models_see_of_them() {
    for tool in builtin_tools() {
        insta::assert_json_snapshot!(tool.name().as_str(), tool.definition());
    }
}

#[tokio::test]
async fn every_example_runs_and_its_answer_fits_the_output_schema() {
    for tool in builtin_tools() {
        for example in &tool.definition().examples {
            let Example::Arguments { arguments, .. } = example else {
                panic!("an example without arguments")
            };
            call(&tool, arguments.clone()).await.unwrap();
        }
    }
}

#[test]
fn arguments_that_a_tool_does_not_know_are_refused() {
    for tool in builtin_tools() {
        let Some(Example::Arguments { arguments, .. }) = tool.definition().examples.first() else { panic!() };
        let mut arguments = arguments.clone();
        arguments["extra"] = json!(1);
        assert!(tool.input().validate(&arguments).is_err(), "{}", tool.name());
    }
}

#[tokio::test]
async fn a_wrong_argument_is_an_error_that_the_model_can_correct() {
    for (name, arguments, field) in [
        ("time-now", json!({ "timezone": "Europe/Berln" }), "/timezone"),
        ("math-eval", json!({ "expression": "1 / 0" }), "/expression"),
        ("json-query", json!({ "data": {}, "query": "nothing" }), "/query"),
    ] {
        let error = call(&builtin(name), arguments).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationFailed);
        assert!(error.is_retryable());
        assert_eq!(error.field_errors()[0].path, field);
    }
}

#[tokio::test]
async fn a_megabyte_that_slips_past_the_schema_is_still_refused() {
    let huge = "1+".repeat(500_000);
    for (name, arguments) in [
        ("math-eval", json!({ "expression": huge })),
        ("text-stats", json!({ "text": huge })),
        ("json-query", json!({ "data": {}, "query": huge })),
        ("time-now", json!({ "timezone": huge })),
    ] {
        let tool = builtin(name);
        let error = tool.handler().call(arguments, context(&tool)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationFailed);
        assert!(serde_json::to_string(&error).unwrap().len() < 1_000, "{name}: the error repeats the input");
    }
}
