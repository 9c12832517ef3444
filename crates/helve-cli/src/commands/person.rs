//! The person at the terminal, for tools that have a question while they run.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

use helve::BoxFuture;
use helve::ports::{AskError, Client, Question};
use helve::record::RawJson;
use helve::run::Progress;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::ui::escape::{one_line, visible};

/// The longest text of a question that is shown.
const TEXT_CHARS_MAX: usize = 2_000;
/// How many fields a form may have.
const FIELDS_MAX: usize = 50;
/// How often a field is asked for before the form is given up.
const TRIES_MAX: usize = 3;

/// The person at the terminal. Nothing is ever opened or filled in without them.
#[derive(Debug, Default)]
pub(crate) struct Person {
    /// One question at a time.
    turn: Arc<Mutex<()>>,
}

impl Person {
    /// The person, if one is there.
    pub(crate) fn at_terminal() -> Option<Arc<dyn Client>> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then(|| Arc::new(Self::default()) as _)
    }
}

impl Client for Person {
    fn id(&self) -> &str {
        "terminal"
    }

    fn can(&self, question: Question) -> bool {
        matches!(question, Question::FillForm | Question::VisitPage)
    }

    fn ask(&self, question: Question, params: RawJson) -> BoxFuture<'static, Result<RawJson, AskError>> {
        let turn = Arc::clone(&self.turn);
        Box::pin(async move {
            let _turn = turn.lock().await;
            let asking = tokio::task::spawn_blocking(move || {
                let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
                let (mut input, mut output) = (io::stdin().lock(), io::stderr());
                match question {
                    Question::FillForm => fill_form(&params, &mut input, &mut output),
                    Question::VisitPage => visit_page(&params, &mut input, &mut output),
                    Question::Sample | Question::ListRoots => Ok(None),
                }
            });
            let failed = |message: String| AskError { code: -32603, message, data: None };
            let answer = asking.await.map_err(|error| failed(error.to_string()))?;
            let answer = answer.map_err(|error| failed(error.to_string()))?;
            let answer = answer.ok_or_else(|| AskError::unsupported(question))?;
            to_raw_value(&answer).map_err(|error| failed(error.to_string()))
        })
    }

    fn progress(&self, _progress: &Progress) {}

    fn log(&self, _message: &RawValue) {}

    fn meta(&self) -> Option<&RawValue> {
        None
    }
}

/// Asks for each field of a form, and whether to send it.
fn fill_form(params: &Value, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<Option<Value>> {
    let message = params.get("message").and_then(Value::as_str).unwrap_or("The tool has a question.");
    writeln!(output, "\nThe tool asks: {}", one_line(message, TEXT_CHARS_MAX))?;
    let schema = params.get("requestedSchema").cloned().unwrap_or_default();
    let empty = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match said(input, output, "Answer it? [y]es, [n]o, Enter to leave it open: ")?.as_str() {
        "y" | "yes" => {}
        "n" | "no" => return Ok(Some(json!({ "action": "decline" }))),
        _ => return Ok(Some(json!({ "action": "cancel" }))),
    }
    let mut content = Map::new();
    for (name, field) in fields.iter().take(FIELDS_MAX) {
        match ask_field(name, field, required.contains(&name.as_str()), input, output)? {
            Filled::Value(value) => drop(content.insert(name.clone(), value)),
            Filled::LeftOut => {}
            Filled::GaveUp => return Ok(Some(json!({ "action": "cancel" }))),
        }
    }
    Ok(Some(json!({ "action": "accept", "content": content })))
}

enum Filled {
    Value(Value),
    LeftOut,
    GaveUp,
}

fn ask_field(
    name: &str,
    field: &Value,
    required: bool,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> io::Result<Filled> {
    let text = |key: &str| field.get(key).and_then(Value::as_str);
    let title = one_line(text("title").unwrap_or(name), 100);
    if let Some(description) = text("description") {
        writeln!(output, "  {}", one_line(description, TEXT_CHARS_MAX))?;
    }
    let choices: Vec<&str> =
        field.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if !choices.is_empty() {
        writeln!(output, "  one of: {}", one_line(&choices.join(", "), TEXT_CHARS_MAX))?;
    }
    let default = field.get("default").filter(|default| !default.is_null());
    let hint = match (default, required) {
        (Some(default), _) => format!(" [{}]", one_line(&default.to_string(), 100)),
        (None, true) => String::new(),
        (None, false) => " [Enter leaves it out]".to_owned(),
    };
    for _ in 0..TRIES_MAX {
        let line = said_as_is(input, output, &format!("  {title}{hint}: "))?;
        match (line.is_empty(), default) {
            (true, Some(default)) => return Ok(Filled::Value(default.clone())),
            (true, None) if !required => return Ok(Filled::LeftOut),
            _ => {}
        }
        match read_field(field, &choices, &line) {
            Ok(value) => return Ok(Filled::Value(value)),
            Err(reason) => writeln!(output, "  {reason}")?,
        }
    }
    Ok(Filled::GaveUp)
}

/// What was typed, as the field's type.
fn read_field(field: &Value, choices: &[&str], typed: &str) -> Result<Value, &'static str> {
    if !choices.is_empty() {
        return match choices.contains(&typed) {
            true => Ok(json!(typed)),
            false => Err("that is none of them"),
        };
    }
    match field.get("type").and_then(Value::as_str) {
        Some("boolean") => match typed.to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" => Ok(json!(true)),
            "n" | "no" | "false" => Ok(json!(false)),
            _ => Err("yes or no"),
        },
        Some("integer") => {
            typed.parse::<i64>().map(|number| json!(number)).map_err(|_| "a whole number, please")
        }
        Some("number") => match typed.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(json!(number)),
            _ => Err("a number, please"),
        },
        Some("array") => {
            Ok(json!(typed.split(',').map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>()))
        }
        _ if typed.is_empty() => Err("it cannot be empty"),
        _ => Ok(json!(typed)),
    }
}

/// Shows an address; the person opens it, or not.
fn visit_page(params: &Value, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<Option<Value>> {
    let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
    writeln!(output, "\nThe tool asks you to visit a page: {}", one_line(text("message"), TEXT_CHARS_MAX))?;
    writeln!(output, "  {}", visible(text("url")))?;
    let said = said(
        input,
        output,
        "Open it yourself if you trust it. Did you agree? [y]es, [n]o, Enter to leave it open: ",
    )?;
    let action = match said.as_str() {
        "y" | "yes" => "accept",
        "n" | "no" => "decline",
        _ => "cancel",
    };
    Ok(Some(json!({ "action": action })))
}

fn said(input: &mut dyn BufRead, output: &mut dyn Write, prompt: &str) -> io::Result<String> {
    said_as_is(input, output, prompt).map(|line| line.to_ascii_lowercase())
}

fn said_as_is(input: &mut dyn BufRead, output: &mut dyn Write, prompt: &str) -> io::Result<String> {
    write!(output, "{prompt}")?;
    output.flush()?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(typed: &str, params: Value) -> (Value, String) {
        let mut output = Vec::new();
        let answer = fill_form(&params, &mut typed.as_bytes(), &mut output).unwrap().unwrap();
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_form_is_filled_in_field_by_field() {
        let params = json!({ "message": "Who?\u{1b}[2J", "requestedSchema": { "type": "object", "properties": {
            "age": { "type": "integer" },
            "kind": { "type": "string", "enum": ["cat", "dog"] },
            "name": { "type": "string", "title": "Your name", "default": "Ann" },
            "news": { "type": "boolean" },
        }, "required": ["age", "news"] } });
        let (answer, shown) = form("y\nold\n41\n\n\nyes\n", params.clone());
        assert_eq!(
            answer,
            json!({ "action": "accept", "content": { "age": 41, "name": "Ann", "news": true } })
        );
        assert!(!shown.contains('\u{1b}') && shown.contains("a whole number"), "{shown}");
        assert_eq!(form("n\n", params.clone()).0, json!({ "action": "decline" }));
        assert_eq!(form("", params.clone()).0, json!({ "action": "cancel" }));
        assert_eq!(form("y\na\nb\nc\n", params).0, json!({ "action": "cancel" }));
    }

    #[test]
    fn a_page_is_shown_and_never_opened() {
        let mut output = Vec::new();
        let params = json!({ "mode": "url", "message": "Log in", "url": "https://example.com/\u{202e}x" });
        let answer = visit_page(&params, &mut "yes\n".as_bytes(), &mut output).unwrap().unwrap();
        assert_eq!(answer, json!({ "action": "accept" }));
        assert!(!String::from_utf8(output).unwrap().contains('\u{202e}'));
    }
}
