//! What a model reads of an outcome, and the messages that carry it.

use std::time::Duration;

use helve::formats::{
    Format, ParseLimits, ProviderCall, ResultBudget, parse_calls, result_message, result_messages,
    result_text,
};
use helve::{ApprovalId, CallId, ErrorCode, FieldError, Outcome, Output, Pending, Status, ToolError};
use proptest::prelude::*;
use serde_json::{Value, json};

fn outcome(status: Status) -> Outcome {
    let id: CallId = "call_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
    Outcome::new(id, "mail/send", status)
}

pub(crate) fn done(value: Value) -> Outcome {
    outcome(Status::Done(Output::success(value)))
}

pub(crate) fn failed() -> Outcome {
    let field = FieldError::new("/to/0", "an email address", "\"ada\"");
    let error = ToolError::new(ErrorCode::ValidationFailed, "the arguments of `mail/send` do not fit")
        .with_fields(vec![field])
        .with_example(json!({ "to": ["ada@example.com"] }))
        .suggest("ask the user for the address");
    outcome(Status::Failed(error))
}

pub(crate) fn pending() -> Outcome {
    let approval_id: ApprovalId = "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
    let reasons = vec!["`mail/send` has a high risk".to_owned()];
    outcome(Status::Pending(Pending { approval_id, reasons, binding: "b".to_owned() }))
}

fn call(format: Format) -> ProviderCall {
    let answer = match format {
        Format::Anthropic => json!({ "type": "tool_use", "id": "c1", "name": "mail__send", "input": {} }),
        Format::OpenAi => {
            json!({ "type": "function_call", "call_id": "c1", "name": "mail__send", "arguments": "" })
        }
        Format::OpenAiChat => json!({ "id": "c1", "function": { "name": "mail__send", "arguments": "" } }),
        Format::Gemini => json!({ "functionCall": { "id": "c1", "name": "mail__send" } }),
        Format::Mcp | Format::Llm => json!({ "name": "mail__send" }),
    };
    parse_calls(format, &answer, &ParseLimits::default()).unwrap().remove(0)
}

fn text(outcome: &Outcome) -> String {
    result_text(outcome, &ResultBudget::default())
}

#[test]
fn each_provider_gets_its_own_message() {
    let outcomes = [done(json!({ "sent": true })), failed(), pending()];
    let messages: serde_json::Map<_, _> = Format::ALL
        .into_iter()
        .map(|format| {
            let pairs: Vec<_> = outcomes.iter().map(|outcome| (call(format), outcome.clone())).collect();
            (format.to_string(), result_messages(format, &pairs, &ResultBudget::default()).into())
        })
        .collect();
    insta::assert_json_snapshot!(messages, @r#"
    {
      "anthropic": [
        {
          "role": "user",
          "content": [
            {
              "type": "tool_result",
              "tool_use_id": "c1",
              "content": "{\"sent\":true}",
              "is_error": false
            },
            {
              "type": "tool_result",
              "tool_use_id": "c1",
              "content": "Error (validation_failed): the arguments of `mail/send` do not fit\n- `/to/0`: expected an email address, received \"ada\"\nArguments that would fit: {\"to\":[\"ada@example.com\"]}\nSuggestion: ask the user for the address\nCorrect the arguments and call again.",
              "is_error": true
            },
            {
              "type": "tool_result",
              "tool_use_id": "c1",
              "content": "Not run yet: a person must approve this call first (apr_01ARZ3NDEKTSV4RRFFQ69G5FAV).\n- `mail/send` has a high risk\nTell the user that it waits for approval. Do not repeat the call meanwhile.",
              "is_error": true
            }
          ]
        }
      ],
      "openai": [
        {
          "type": "function_call_output",
          "call_id": "c1",
          "output": "{\"sent\":true}"
        },
        {
          "type": "function_call_output",
          "call_id": "c1",
          "output": "Error (validation_failed): the arguments of `mail/send` do not fit\n- `/to/0`: expected an email address, received \"ada\"\nArguments that would fit: {\"to\":[\"ada@example.com\"]}\nSuggestion: ask the user for the address\nCorrect the arguments and call again."
        },
        {
          "type": "function_call_output",
          "call_id": "c1",
          "output": "Not run yet: a person must approve this call first (apr_01ARZ3NDEKTSV4RRFFQ69G5FAV).\n- `mail/send` has a high risk\nTell the user that it waits for approval. Do not repeat the call meanwhile."
        }
      ],
      "openai-chat": [
        {
          "role": "tool",
          "tool_call_id": "c1",
          "content": "{\"sent\":true}"
        },
        {
          "role": "tool",
          "tool_call_id": "c1",
          "content": "Error (validation_failed): the arguments of `mail/send` do not fit\n- `/to/0`: expected an email address, received \"ada\"\nArguments that would fit: {\"to\":[\"ada@example.com\"]}\nSuggestion: ask the user for the address\nCorrect the arguments and call again."
        },
        {
          "role": "tool",
          "tool_call_id": "c1",
          "content": "Not run yet: a person must approve this call first (apr_01ARZ3NDEKTSV4RRFFQ69G5FAV).\n- `mail/send` has a high risk\nTell the user that it waits for approval. Do not repeat the call meanwhile."
        }
      ],
      "gemini": [
        {
          "role": "user",
          "parts": [
            {
              "functionResponse": {
                "name": "mail__send",
                "response": {
                  "output": {
                    "sent": true
                  }
                },
                "id": "c1"
              }
            },
            {
              "functionResponse": {
                "name": "mail__send",
                "response": {
                  "error": "Error (validation_failed): the arguments of `mail/send` do not fit\n- `/to/0`: expected an email address, received \"ada\"\nArguments that would fit: {\"to\":[\"ada@example.com\"]}\nSuggestion: ask the user for the address\nCorrect the arguments and call again."
                },
                "id": "c1"
              }
            },
            {
              "functionResponse": {
                "name": "mail__send",
                "response": {
                  "error": "Not run yet: a person must approve this call first (apr_01ARZ3NDEKTSV4RRFFQ69G5FAV).\n- `mail/send` has a high risk\nTell the user that it waits for approval. Do not repeat the call meanwhile."
                },
                "id": "c1"
              }
            }
          ]
        }
      ],
      "mcp": [
        {
          "content": [
            {
              "type": "text",
              "text": "{\"sent\":true}"
            }
          ],
          "isError": false,
          "structuredContent": {
            "sent": true
          }
        },
        {
          "content": [
            {
              "type": "text",
              "text": "Error (validation_failed): the arguments of `mail/send` do not fit\n- `/to/0`: expected an email address, received \"ada\"\nArguments that would fit: {\"to\":[\"ada@example.com\"]}\nSuggestion: ask the user for the address\nCorrect the arguments and call again."
            }
          ],
          "isError": true,
          "_meta": {
            "helve/error": {
              "kind": "caller",
              "code": "validation_failed",
              "message": "the arguments of `mail/send` do not fit",
              "retryable": true,
              "suggestions": [
                "ask the user for the address"
              ],
              "field_errors": [
                {
                  "path": "/to/0",
                  "expected": "an email address",
                  "received": "\"ada\"",
                  "message": "`/to/0`: expected an email address, received \"ada\""
                }
              ],
              "example": {
                "to": [
                  "ada@example.com"
                ]
              }
            }
          }
        },
        {
          "content": [
            {
              "type": "text",
              "text": "Not run yet: a person must approve this call first (apr_01ARZ3NDEKTSV4RRFFQ69G5FAV).\n- `mail/send` has a high risk\nTell the user that it waits for approval. Do not repeat the call meanwhile."
            }
          ],
          "isError": true,
          "_meta": {
            "helve/error": {
              "code": "approval_required",
              "kind": "approval",
              "retryable": true,
              "approval_id": "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV",
              "reasons": [
                "`mail/send` has a high risk"
              ]
            }
          }
        }
      ],
      "llm": [
        {
          "name": "mail__send",
          "success": true,
          "result": "{\"sent\":true}"
        },
        {
          "name": "mail__send",
          "success": false,
          "result": "Error (validation_failed): the arguments of `mail/send` do not fit\n- `/to/0`: expected an email address, received \"ada\"\nArguments that would fit: {\"to\":[\"ada@example.com\"]}\nSuggestion: ask the user for the address\nCorrect the arguments and call again."
        },
        {
          "name": "mail__send",
          "success": false,
          "result": "Not run yet: a person must approve this call first (apr_01ARZ3NDEKTSV4RRFFQ69G5FAV).\n- `mail/send` has a high risk\nTell the user that it waits for approval. Do not repeat the call meanwhile.",
          "approvalRequired": true,
          "approvalId": "apr_01ARZ3NDEKTSV4RRFFQ69G5FAV"
        }
      ]
    }
    "#);
}

#[test]
fn one_answer_is_a_list_of_one() {
    for format in Format::ALL {
        let pair = (call(format), failed());
        let one = result_message(format, &pair.0, &pair.1, &ResultBudget::default());
        assert_eq!(result_messages(format, &[pair], &ResultBudget::default()), [one]);
        assert!(result_messages(format, &[], &ResultBudget::default()).is_empty());
    }
}

#[test]
fn failures_tell_the_model_what_to_do() {
    insta::assert_snapshot!(text(&failed()), @r#"
    Error (validation_failed): the arguments of `mail/send` do not fit
    - `/to/0`: expected an email address, received "ada"
    Arguments that would fit: {"to":["ada@example.com"]}
    Suggestion: ask the user for the address
    Correct the arguments and call again.
    "#);
    insta::assert_snapshot!(text(&pending()), @r"
    Not run yet: a person must approve this call first (apr_01ARZ3NDEKTSV4RRFFQ69G5FAV).
    - `mail/send` has a high risk
    Tell the user that it waits for approval. Do not repeat the call meanwhile.
    ");
    let wait = ToolError::new(ErrorCode::RateLimit, "slow down").retry_after(Duration::from_millis(1_500));
    insta::assert_snapshot!(text(&outcome(Status::Failed(wait.clone()))), @r"
    Error (rate_limit): slow down
    Calling again may help after 2 seconds.
    ");
    let denied = ToolError::new(ErrorCode::PermissionDenied, "not after six");
    insta::assert_snapshot!(text(&outcome(Status::Failed(denied))), @r"
    Error (permission_denied): not after six
    Do not repeat this call unchanged; it would fail again.
    ");
    let returned = outcome(Status::Done(Output::failure(&wait)));
    assert_eq!(text(&returned), text(&outcome(Status::Failed(wait))));
    let block =
        result_message(Format::Anthropic, &call(Format::Anthropic), &returned, &ResultBudget::default());
    assert_eq!(block["content"][0]["is_error"], true);
}

#[test]
fn texts_are_plain_and_clean() {
    assert_eq!(text(&done(json!("two\nlines"))), "two\nlines");
    assert_eq!(text(&done(json!(""))), "(the tool returned an empty text)");
    assert_eq!(text(&done(json!(null))), "null");
    assert_eq!(text(&done(json!({ "log": "\u{1b}[31mred\u{1b}[0m\r\n" }))), r#"{"log":"red\n"}"#);
    let error = ToolError::failed("bad \u{1b}]0;title\u{7}thing");
    assert!(text(&outcome(Status::Failed(error))).starts_with("Error (execution_failed): bad thing\n"));
}

#[test]
fn long_results_are_cut_where_it_hurts_least() {
    let rows: Vec<_> = (0..200).map(|id| json!({ "id": id, "title": "A title" })).collect();
    let budget = ResultBudget { bytes: 1_024 };
    insta::assert_snapshot!(result_text(&done(json!({ "rows": rows, "total": 200 })), &budget), @r#"
    {"total":200,"rows":[{"id":0,"title":"A title"},{"id":1,"title":"A title"},{"id":2,"title":"A title"},{"id":3,"title":"A title"},{"id":4,"title":"A title"},{"id":5,"title":"A title"},{"id":6,"title":"A title"},{"id":7,"title":"A title"},{"id":8,"title":"A title"},{"id":9,"title":"A title"},{"id":10,"title":"A title"},{"id":11,"title":"A title"},{"id":12,"title":"A title"}]}

    [Shortened: 376 of 5712 bytes. Shown: `/rows`: the first 13 of 200 items. For the rest, narrow the query or ask for a part. The full result is in the journal: `helve audit show call_01ARZ3NDEKTSV4RRFFQ69G5FAV`]
    "#);
    let prose = done(json!("word ".repeat(1_000)));
    let shown = result_text(&prose, &budget);
    assert!(shown.contains("word\n\n[Shortened: ") && shown.contains(" of 5000 bytes."), "{shown}");
    // Structured content is for programs: whole, or it would not fit the output schema.
    let message = result_message(Format::Mcp, &call(Format::Mcp), &done(json!({ "rows": rows })), &budget);
    assert_eq!(message["structuredContent"]["rows"].as_array().unwrap().len(), 200);
    assert!(message["content"][0]["text"].as_str().unwrap().len() <= 1_024);
}

#[test]
fn a_huge_error_stays_within_the_budget() {
    let field = FieldError::new("/x", "y".repeat(10_000), "z".repeat(10_000));
    let error =
        ToolError::failed("m".repeat(1 << 20)).with_fields(vec![field; 1_000]).suggest("s".repeat(1 << 20));
    assert!(text(&outcome(Status::Failed(error))).len() <= 16 * 1_024);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn results_never_pass_the_budget(words in proptest::collection::vec("[a-zä漢👩\"\n ]{0,30}", 0..100), bytes in 0usize..4_000) {
        let budget = ResultBudget { bytes };
        for value in [json!(words), json!(words.concat()), json!({ "a": words, "b": { "c": words } })] {
            prop_assert!(result_text(&done(value), &budget).len() <= bytes.max(1_024));
        }
    }
}
