//! Our formats, held against the providers' own SDKs by `tests/sdk/check.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use helve::formats::{
    ExportOptions, Format, ParseLimits, ResultBudget, Strictness, export, parse_calls, result_messages,
};
use serde_json::{Map, Value, json};

use crate::formats::results::{done, failed, pending};
use crate::formats::tools::varied;

/// The formats that have an SDK.
const FORMATS: [Format; 5] =
    [Format::Anthropic, Format::OpenAi, Format::OpenAiChat, Format::Gemini, Format::Mcp];

#[test]
fn the_providers_sdks_take_what_we_write_and_we_read_what_they_write() {
    let folder = tempfile::tempdir().unwrap();
    let (given, answers) = (folder.path().join("given.json"), folder.path().join("answers.json"));
    std::fs::write(&given, written().to_string()).unwrap();

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/check.py");
    run_sdk(&python(), &[&script, &given, &answers]);

    let answers: Map<String, Value> = serde_json::from_slice(&std::fs::read(answers).unwrap()).unwrap();
    assert_eq!(answers.len(), 6);
    for (name, answer) in answers {
        let format: Format = name.trim_end_matches("-snake").parse().unwrap();
        check_calls(format, &name, &answer);
    }
}

/// All that the script looks at, by format.
fn written() -> Value {
    let tools = varied();
    let exported = |strictness| -> Map<String, Value> {
        let options = ExportOptions { strictness, ..ExportOptions::default() };
        FORMATS.iter().map(|format| (format.to_string(), export(&tools, *format, &options))).collect()
    };
    let results: Map<_, _> =
        FORMATS.iter().map(|format| (format.to_string(), results(*format).into())).collect();
    json!({
        "usual": exported(Strictness::Usual),
        "strict": exported(Strictness::WhereAllowed),
        "results": results,
    })
}

fn results(format: Format) -> Vec<Value> {
    let answer = match format {
        Format::Anthropic => json!({ "type": "tool_use", "id": "c1", "name": "mail__send", "input": {} }),
        Format::OpenAi => json!({ "type": "function_call", "call_id": "c1", "name": "x", "arguments": "" }),
        Format::OpenAiChat => json!({ "id": "c1", "function": { "name": "x", "arguments": "" } }),
        Format::Gemini => json!({ "functionCall": { "id": "c1", "name": "x" } }),
        Format::Mcp | Format::Llm => json!({ "name": "x" }),
    };
    let call = parse_calls(format, &answer, &ParseLimits::default()).unwrap().remove(0);
    let outcomes = [
        done(json!({ "sent": true })),
        done(json!("plain text")),
        done(json!([1, null])),
        done(json!(vec!["long"; 10_000])),
        failed(),
        pending(),
    ];
    let answered: Vec<_> = outcomes.into_iter().map(|outcome| (call.clone(), outcome)).collect();
    result_messages(format, &answered, &ResultBudget::default())
}

/// The same two calls stand in every answer that the script builds.
fn check_calls(format: Format, name: &str, answer: &Value) {
    let calls = parse_calls(format, answer, &ParseLimits::default()).unwrap();
    let first = json!({ "to": ["ada@example.com"], "body": "I am late. ä \"quoted\"" });
    let expected = [("c1", "mail__send", &first), ("c2", "ping", &json!({}))];
    let found: Vec<_> = calls
        .iter()
        .map(|call| (call.id.as_deref().unwrap(), call.name.as_str(), call.arguments.as_ref().unwrap()))
        .collect();
    assert_eq!(found, expected, "{name}");
    if format == Format::Gemini {
        assert_eq!(calls[0].extra["thoughtSignature"], "c2ln");
    }
}

/// The interpreter with the SDKs. In CI the environment must be there; elsewhere it is made.
fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let environment =
        std::env::var_os("HELVE_PYTHON_SDKS").map_or_else(|| root.join("target/python-sdks"), PathBuf::from);
    let python = environment.join("bin/python");
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let set_up = "scripts/setup-python-sdks.sh";
    assert!(
        !in_ci || python.exists(),
        "no Python environment at {}; run `{set_up} target/python-sdks` first",
        environment.display()
    );
    if !in_ci {
        // Does nothing where the environment is complete.
        run_sdk(&root.join(set_up), &[&environment]);
    }
    python
}

#[expect(clippy::disallowed_methods, reason = "a test runs its checker, no tool")]
fn run_sdk(program: &Path, arguments: &[&Path]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
}
