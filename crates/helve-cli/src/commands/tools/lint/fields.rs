//! What a tool of the file looks at that cannot be there: a program that is missing, a field that nobody gives.

use std::path::{Path, PathBuf};

use helve::expression::{Expression, Reference};
use helve::template::Template;
use helve::{Problem, Registry, Tool};
use helve_host::suggest;
use helve_sandbox::Sandbox;
use serde_json::Value;

/// That a program or its script is not there, on this machine.
pub(super) fn missing_program(written: &Value, file: &Path) -> Vec<Problem> {
    let base = file.parent().unwrap_or(Path::new(""));
    let command = written.get("command").and_then(Value::as_str).and_then(|name| no_program(name, base));
    command.into_iter().chain(missing_script(written, base)).collect()
}

fn no_program(name: &str, base: &Path) -> Option<Problem> {
    let refuse = |message| Some(Problem { at: "command".to_owned(), message });
    let command = Path::new(name);
    if command.components().count() > 1 {
        let program: PathBuf = base.join(command).components().collect();
        let message = || format!("there is no file `{}`, so the tool cannot run", program.display());
        return if program.exists() { None } else { refuse(message()) };
    }
    refuse(Sandbox::default().check(command).err()?.to_string())
}

/// Endings of files that an interpreter runs.
const SCRIPT_ENDINGS: [&str; 10] = ["py", "sh", "bash", "js", "mjs", "cjs", "ts", "rb", "pl", "php"];

/// That the script is not there which an interpreter is to run: the first argument that is called like one.
fn missing_script(written: &Value, base: &Path) -> Option<Problem> {
    let start = base.join(written.get("work_dir").and_then(Value::as_str).unwrap_or_default());
    let args = written.get("args")?.as_array()?.iter().filter_map(Value::as_str).map(Path::new);
    let is_script = |arg: &Path| {
        let ending = arg.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| SCRIPT_ENDINGS.contains(&ending))
            && !arg.to_string_lossy().starts_with('-')
    };
    let (index, arg) = args.enumerate().find(|(_, arg)| is_script(arg))?;
    let script: PathBuf = start.join(arg).components().collect();
    let message = format!("there is no file `{}`, so the tool cannot run", script.display());
    (!script.exists()).then(|| Problem { at: format!("args/{index}"), message })
}

/// Fields that a composed tool's templates look at, and that its own schema, or the one of the step that they
/// should come from, does not list.
pub(super) fn unknown_fields(tool: &Tool, written: &Value, registry: &Registry) -> Vec<Problem> {
    // Where nobody says what the input is, it is what the templates name.
    let is_said = ["parameters", "input_schema"].iter().any(|key| written.get(key).is_some());
    let input = is_said.then(|| listed(tool.input().json())).flatten();
    let mut problems = Vec::new();
    each_template(written, String::new(), &mut |at, text| {
        let asked = references(text).into_iter().filter(|reference| reference.name == "input");
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

/// What a text with expressions, or an expression, looks at.
fn references(text: &str) -> Vec<Reference> {
    match text.contains("{{") {
        true => Template::parse(Value::String(text.to_owned())).map(|one| one.references()),
        false => Expression::parse(text).map(|one| one.references()),
    }
    .unwrap_or_default()
}

/// Keys whose text is an expression, without braces.
const EXPRESSIONS: [&str; 2] = ["when", "over"];

/// Calls `visit` with every text in which expressions may stand, and its place.
fn each_template(written: &Value, at: String, visit: &mut dyn FnMut(&str, &str)) {
    let below = |key: &dyn std::fmt::Display| match at.is_empty() {
        true => key.to_string(),
        false => format!("{at}/{key}"),
    };
    let is_expression = || EXPRESSIONS.iter().any(|key| at.rsplit('/').next() == Some(key));
    match written {
        Value::String(text) if text.contains("{{") || is_expression() => visit(&at, text),
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

/// The tool of the step of this name, also of one within a branch.
fn tool_of_step<'w>(written: &'w Value, step: &str) -> Option<&'w str> {
    let items = |key: &str| written.get(key).and_then(Value::as_array).into_iter().flatten();
    let named = |one: &&Value| one.get("name").and_then(Value::as_str) == Some(step);
    let here = items("steps").find(named).and_then(|one| one.get("tool")?.as_str());
    here.or_else(|| items("branches").find_map(|branch| tool_of_step(branch, step)))
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
