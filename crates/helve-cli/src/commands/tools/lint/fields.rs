//! What a tool of the file looks at that cannot be there: a program that is missing, a field that nobody gives.

use std::path::{Path, PathBuf};

use helve::template::Template;
use helve::{Problem, Registry, Tool};
use helve_host::suggest;
use serde_json::Value;

/// That a program's file is not there. A bare name is looked up when it runs, so nobody can tell of it here.
pub(super) fn missing_program(written: &Value, file: &Path) -> Option<Problem> {
    let command = Path::new(written.get("command")?.as_str()?);
    let program: PathBuf = file.parent().unwrap_or(Path::new("")).join(command).components().collect();
    let is_path = command.components().count() > 1;
    let message = format!("there is no file `{}`, so the tool cannot run", program.display());
    (is_path && !program.exists()).then(|| Problem { at: "command".to_owned(), message })
}

/// Fields that a composed tool's templates look at, and that its own schema, or the one of the step that they
/// should come from, does not list.
pub(super) fn unknown_fields(tool: &Tool, written: &Value, registry: &Registry) -> Vec<Problem> {
    // Where nobody says what the input is, it is what the templates name.
    let is_said = ["parameters", "input_schema"].iter().any(|key| written.get(key).is_some());
    let input = is_said.then(|| listed(tool.input().json())).flatten();
    let mut problems = Vec::new();
    each_template(written, String::new(), &mut |at, text| {
        let references = Template::parse(Value::String(text.to_owned())).map(|one| one.references());
        let asked = references.into_iter().flatten().filter(|reference| reference.name == "input");
        for field in asked.filter_map(|reference| reference.field) {
            let unknown = input.as_ref().and_then(|fields| unknown(&field, fields));
            problems.extend(unknown.map(|hint| Problem {
                at: at.to_owned(),
                message: format!("`input.{field}`: the tool takes no such field{hint}"),
            }));
        }
        for (step, field) in of_steps(text) {
            let Some(tool) = tool_of_step(written, step).and_then(|name| registry.get(name)) else {
                continue;
            };
            let fields = tool.tool.definition().output_schema.as_ref().and_then(listed);
            problems.extend(fields.and_then(|fields| unknown(field, &fields)).map(|hint| Problem {
                at: at.to_owned(),
                message: format!(
                    "`steps.{step}.{field}`: `{}` returns no such field{hint}",
                    tool.tool.name()
                ),
            }));
        }
    });
    problems
}

/// Calls `visit` with every text in which expressions may stand, and its place.
fn each_template(written: &Value, at: String, visit: &mut dyn FnMut(&str, &str)) {
    let below = |key: &dyn std::fmt::Display| match at.is_empty() {
        true => key.to_string(),
        false => format!("{at}/{key}"),
    };
    match written {
        Value::String(text) if text.contains("{{") => visit(&at, text),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| each_template(item, below(&index), visit));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| each_template(value, below(key), visit));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Every `steps.NAME.FIELD` in a text.
fn of_steps(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let word = |text: &'_ str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.match_indices("steps.").filter_map(move |(start, prefix)| {
        let rest = &text[start + prefix.len()..];
        let (step, rest) = rest.split_at(word(rest));
        let rest = rest.strip_prefix('.')?;
        let field = &rest[..word(rest)];
        // `.items()` is a method.
        let is_field = !step.is_empty() && !field.is_empty() && !rest[field.len()..].starts_with('(');
        is_field.then_some((step, field))
    })
}

/// The tool of the step of this name.
fn tool_of_step<'w>(written: &'w Value, step: &str) -> Option<&'w str> {
    let mut steps = written.get("steps")?.as_array()?.iter();
    steps.find(|one| one.get("name").and_then(Value::as_str) == Some(step))?.get("tool")?.as_str()
}

/// The fields of an object that has no others. None: it may have.
fn listed(schema: &Value) -> Option<Vec<&str>> {
    const WIDER: [&str; 8] =
        ["allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "patternProperties", "dependentSchemas"];
    let is_open = match schema.get("additionalProperties") {
        None | Some(Value::Bool(false)) => false,
        Some(_) => true,
    };
    if is_open || WIDER.iter().any(|key| schema.get(key).is_some()) {
        return None;
    }
    Some(schema.get("properties")?.as_object()?.keys().map(String::as_str).collect())
}

/// What is meant by a field that is not among these.
fn unknown(field: &str, fields: &[&str]) -> Option<String> {
    if fields.contains(&field) {
        return None;
    }
    let meant = suggest::nearest(field, fields.iter().copied());
    Some(meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_steps_are_found_in_expressions() {
        let found = |text| of_steps(text).collect::<Vec<_>>();
        assert_eq!(found("{{ steps.a.b }} and {{ steps.c_1.d | upper }}"), [("a", "b"), ("c_1", "d")]);
        assert_eq!(found("{{ steps.a }} {{ steps.a.items() }} {{ steps['a'].b }} steps. {{ steps.a. }}"), []);
    }
}
