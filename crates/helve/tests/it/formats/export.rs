//! What each provider sees of a tool.

use helve::Tool;
use helve::formats::{ExportOptions, Format, Strictness, export, export_one, strict_refusal};
use serde_json::{Value, json};

use super::tools::{representative, varied, with_schema};

fn entry(format: Format) -> Value {
    export_one(&representative(), format, &ExportOptions::default())
}

#[test]
fn anthropic_sees() {
    insta::assert_json_snapshot!(entry(Format::Anthropic), @r#"
    {
      "name": "mail__send",
      "input_schema": {
        "type": "object",
        "properties": {
          "to": {
            "type": "array",
            "items": {
              "type": "string",
              "format": "email"
            },
            "minItems": 1
          },
          "body": {
            "type": "string",
            "description": "Plain text"
          },
          "priority": {
            "type": "string",
            "enum": [
              "low",
              "high"
            ],
            "default": "low"
          }
        },
        "required": [
          "to",
          "body"
        ]
      },
      "input_examples": [
        {
          "to": [
            "ada@example.com"
          ],
          "body": "I am late."
        }
      ],
      "description": "Sends a mail.\n\nWhen to use:\nOnly when the user explicitly asks to send.\n\nExamples:\n- User: \"Draft a mail\" → not this tool\n- User: \"Tell Ada I am late\" → mail__send({\"to\":[\"ada@example.com\"],\"body\":\"I am late.\"})"
    }
    "#);
}

#[test]
fn openai_sees() {
    insta::assert_json_snapshot!(entry(Format::OpenAi), @r#"
    {
      "name": "mail__send",
      "description": "Sends a mail.\n\nWhen to use:\nOnly when the user explicitly asks to send.\n\nExamples:\n- User: \"Draft a mail\" → not this tool\n- User: \"Tell Ada I am late\" → mail__send({\"to\":[\"ada@example.com\"],\"body\":\"I am late.\"})",
      "strict": true,
      "parameters": {
        "required": [
          "to",
          "body",
          "priority"
        ],
        "properties": {
          "to": {
            "minItems": 1,
            "items": {
              "format": "email",
              "type": "string"
            },
            "type": "array"
          },
          "body": {
            "description": "Plain text",
            "type": "string"
          },
          "priority": {
            "description": "Default: \"low\"",
            "enum": [
              "low",
              "high",
              null
            ],
            "type": [
              "string",
              "null"
            ]
          }
        },
        "additionalProperties": false,
        "type": "object"
      },
      "type": "function"
    }
    "#);
}

#[test]
fn openai_chat_sees() {
    insta::assert_json_snapshot!(entry(Format::OpenAiChat), @r#"
    {
      "type": "function",
      "function": {
        "name": "mail__send",
        "description": "Sends a mail.\n\nWhen to use:\nOnly when the user explicitly asks to send.\n\nExamples:\n- User: \"Draft a mail\" → not this tool\n- User: \"Tell Ada I am late\" → mail__send({\"to\":[\"ada@example.com\"],\"body\":\"I am late.\"})",
        "strict": true,
        "parameters": {
          "required": [
            "to",
            "body",
            "priority"
          ],
          "properties": {
            "to": {
              "minItems": 1,
              "items": {
                "format": "email",
                "type": "string"
              },
              "type": "array"
            },
            "body": {
              "description": "Plain text",
              "type": "string"
            },
            "priority": {
              "description": "Default: \"low\"",
              "enum": [
                "low",
                "high",
                null
              ],
              "type": [
                "string",
                "null"
              ]
            }
          },
          "additionalProperties": false,
          "type": "object"
        }
      }
    }
    "#);
}

#[test]
fn gemini_sees() {
    insta::assert_json_snapshot!(entry(Format::Gemini), @r#"
    {
      "name": "mail__send",
      "description": "Sends a mail.\n\nWhen to use:\nOnly when the user explicitly asks to send.\n\nExamples:\n- User: \"Draft a mail\" → not this tool\n- User: \"Tell Ada I am late\" → mail__send({\"to\":[\"ada@example.com\"],\"body\":\"I am late.\"})",
      "parametersJsonSchema": {
        "type": "object",
        "properties": {
          "to": {
            "type": "array",
            "items": {
              "type": "string",
              "format": "email"
            },
            "minItems": 1
          },
          "body": {
            "type": "string",
            "description": "Plain text"
          },
          "priority": {
            "type": "string",
            "enum": [
              "low",
              "high"
            ],
            "default": "low"
          }
        },
        "required": [
          "to",
          "body"
        ]
      }
    }
    "#);
}

#[test]
fn mcp_sees() {
    insta::assert_json_snapshot!(entry(Format::Mcp), @r#"
    {
      "name": "mail__send",
      "description": "Sends a mail.\n\nWhen to use:\nOnly when the user explicitly asks to send.\n\nExamples:\n- User: \"Draft a mail\" → not this tool\n- User: \"Tell Ada I am late\" → mail__send({\"to\":[\"ada@example.com\"],\"body\":\"I am late.\"})",
      "annotations": {
        "readOnlyHint": false,
        "destructiveHint": true,
        "idempotentHint": false,
        "openWorldHint": true
      },
      "inputSchema": {
        "type": "object",
        "properties": {
          "to": {
            "type": "array",
            "items": {
              "type": "string",
              "format": "email"
            },
            "minItems": 1
          },
          "body": {
            "type": "string",
            "description": "Plain text"
          },
          "priority": {
            "type": "string",
            "enum": [
              "low",
              "high"
            ],
            "default": "low"
          }
        },
        "required": [
          "to",
          "body"
        ]
      },
      "outputSchema": {
        "type": "object",
        "properties": {
          "sent": {
            "type": "boolean"
          }
        }
      }
    }
    "#);
}

#[test]
fn a_prompt_of_ones_own_sees() {
    insta::assert_json_snapshot!(entry(Format::Llm), @r#"
    {
      "name": "mail__send",
      "description": "Sends a mail.",
      "whenToUse": "Only when the user explicitly asks to send.",
      "examples": [
        "User: \"Draft a mail\" → not this tool",
        "User: \"Tell Ada I am late\" → mail__send({\"to\":[\"ada@example.com\"],\"body\":\"I am late.\"})"
      ],
      "requiresApproval": true,
      "parameters": {
        "type": "object",
        "properties": {
          "to": {
            "type": "array",
            "items": {
              "type": "string",
              "format": "email"
            },
            "minItems": 1
          },
          "body": {
            "type": "string",
            "description": "Plain text"
          },
          "priority": {
            "type": "string",
            "enum": [
              "low",
              "high"
            ],
            "default": "low"
          }
        },
        "required": [
          "to",
          "body"
        ]
      }
    }
    "#);
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(format.as_str().parse::<Format>(), Ok(format));
    }
    assert!("claude".parse::<Format>().unwrap_err().to_string().contains("there are `anthropic`"));
}

#[test]
fn a_whole_list_is_what_a_request_takes() {
    let tools = varied();
    for format in Format::ALL {
        let list = export(&tools, format, &ExportOptions::default());
        let entries = if format == Format::Gemini { &list[0]["functionDeclarations"] } else { &list };
        assert_eq!(entries.as_array().map(Vec::len), Some(tools.len()), "{format}");
        assert_eq!(export([], format, &ExportOptions::default()), json!([]));
    }
}

#[test]
fn an_empty_input_stays_a_closed_object_everywhere() {
    let tool = with_schema("ping", json!({ "type": "object", "additionalProperties": false }));
    let closed = json!({ "type": "object", "additionalProperties": false });
    let strict = json!({ "type": "object", "additionalProperties": false, "properties": {}, "required": [] });
    let options = ExportOptions { strictness: Strictness::WhereAllowed, ..ExportOptions::default() };
    for (format, at, expected) in [
        (Format::Anthropic, "/input_schema", &closed),
        (Format::OpenAi, "/parameters", &strict),
        (Format::OpenAiChat, "/function/parameters", &strict),
        (Format::Gemini, "/parametersJsonSchema", &closed),
        (Format::Mcp, "/inputSchema", &closed),
        (Format::Llm, "/parameters", &closed),
    ] {
        assert_eq!(export_one(&tool, format, &options).pointer(at), Some(expected), "{format}");
    }
}

#[test]
fn what_providers_refuse_at_the_top_level_moves_into_the_description() {
    let tools = varied();
    let tool = tools.iter().find(|tool| tool.name().as_str() == "top-level-choice").unwrap();
    for (format, at) in [(Format::Anthropic, "input_schema"), (Format::OpenAi, "parameters")] {
        let entry = export_one(tool, format, &ExportOptions::default());
        let schema = &entry[at];
        assert!(schema.get("anyOf").is_none(), "{schema}");
        assert_eq!(schema["properties"]["name"], json!({ "type": "string" }));
        assert_eq!(
            schema["properties"]["id"],
            json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }] })
        );
        assert!(entry["description"].as_str().unwrap().contains("must also fit this JSON Schema"));
    }
}

#[test]
fn arrays_of_anything_say_so_where_providers_insist() {
    let tool = with_schema("x", json!({ "type": "object", "properties": { "list": { "type": "array" } } }));
    for (format, at) in [
        (Format::OpenAi, "/parameters/properties/list/items"),
        (Format::Gemini, "/parametersJsonSchema/properties/list/items"),
    ] {
        assert_eq!(export_one(&tool, format, &ExportOptions::default()).pointer(at), Some(&json!({})));
    }
}

#[test]
fn a_bounded_description_loses_examples_first() {
    let options = ExportOptions { description_chars_max: Some(80), ..ExportOptions::default() };
    let entry = export_one(&representative(), Format::OpenAi, &options);
    assert_eq!(
        entry["description"],
        "Sends a mail.\n\nWhen to use:\nOnly when the user explicitly asks to send."
    );
    let options = ExportOptions { description_chars_max: Some(9), ..ExportOptions::default() };
    assert_eq!(export_one(&representative(), Format::OpenAi, &options)["description"], "Sends a m");
}

#[test]
fn anthropic_strict_stops_at_the_limits_of_a_request() {
    let options = ExportOptions { strictness: Strictness::WhereAllowed, ..ExportOptions::default() };
    let strict = |tools: &[Tool]| {
        let list = export(tools, Format::Anthropic, &options);
        list.as_array().unwrap().iter().filter(|tool| tool["strict"] == true).count()
    };
    let field = |count: usize| -> Value {
        let fields: serde_json::Map<_, _> =
            (0..count).map(|n| (format!("f{n}"), json!({ "type": "string" }))).collect();
        json!({ "type": "object", "properties": fields, "required": ["f0"] })
    };
    let tools = |count: usize, fields: usize| -> Vec<_> {
        (0..count).map(|n| with_schema(&format!("t{n}"), field(fields))).collect()
    };
    assert_eq!(strict(&tools(30, 1)), 20, "tools");
    assert_eq!(strict(&tools(30, 5)), 6, "24 optional fields, four a tool");
    assert_eq!(strict(&[with_schema("u", field(30))]), 0);
    let union =
        json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": ["string", "null"] } } });
    let unions: Vec<_> = (0..20).map(|n| with_schema(&format!("u{n}"), union.clone())).collect();
    assert_eq!(strict(&unions), 16, "unions");
    assert!(strict_refusal(Format::Gemini, &union).unwrap().contains("no strict mode"));
}

#[test]
fn a_thousand_tools_are_exported_in_no_time() {
    let tool = representative();
    let tools: Vec<_> = (0..1_000).map(|n| tool.within(&format!("n{n}")).unwrap()).collect();
    for format in Format::ALL {
        let start = std::time::Instant::now();
        let list = export(&tools, format, &ExportOptions::default());
        // Generous: a debug build on a busy machine. It catches quadratic work, not microseconds.
        assert!(start.elapsed().as_millis() < 2_000, "{format}: {:?}", start.elapsed());
        assert!(!list.as_array().unwrap().is_empty());
    }
}
