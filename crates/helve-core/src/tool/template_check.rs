//! Checks, when a tool is made, which names the templates of its effects, undo and recall refer to: a typo would otherwise
//! come up only after the tool has changed the world.

use serde_json::Value;

use crate::definition::{Definition, Problem};
use crate::effect::{Change, StateOperation};
use crate::expression::{Expression, Reference};
use crate::memory::{MemoryError, RESERVED_PREFIX};
use crate::run::Undo;
use crate::template::Template;

/// Most names in one message.
const SHOWN_MAX: usize = 20;

/// The problems of all templates. `has_own_code` tells which effects the tool applies by code of its own.
pub(crate) fn problems(definition: &Definition, has_own_code: impl Fn(usize) -> bool) -> Vec<Problem> {
    let mut check = Check { definition, problems: Vec::new() };
    let call = ["arguments", "result"];
    for (index, effect) in definition.effects.iter().enumerate() {
        let at = |field: &str| format!("effects/{index}/{field}");
        // Only a call that failed has an error.
        let ended = if effect.after_failure() { &["arguments", "result", "error"][..] } else { &call };
        check.expression(at("when"), effect.when.as_ref(), ended);
        if has_own_code(index) {
            continue;
        }
        let with_former = ["arguments", "result", "former"];
        match &effect.change {
            Change::StateChange { state, value, change, .. } => {
                check.template(at("state"), Some(state), &call);
                check.key(at("state"), state);
                check.template(at("value"), value.as_ref(), &with_former);
                check.count(at("value"), *change, value.as_ref());
            }
            Change::Memory { key, value, .. } => {
                check.template(at("key"), Some(key), &call);
                check.key(at("key"), key);
                check.template(at("value"), value.as_ref(), &with_former);
            }
            Change::Notification { payload, .. } => check.template(at("payload"), payload.as_ref(), ended),
            Change::Cascade { arguments, .. } => check.template(at("arguments"), Some(arguments), &call),
        }
    }
    if let Some(Undo::Tool { tool, arguments }) = &definition.undo {
        if *tool == *definition.name.as_str() || definition.aliases.contains(tool) {
            let message = "a tool cannot undo itself by doing it again".to_owned();
            check.problems.push(Problem { at: "undo/tool".to_owned(), message });
        }
        check.template("undo/arguments".to_owned(), Some(arguments), &call);
    }
    if let Some(recall) = &definition.recall {
        let answered = ["arguments", "key", "answer"];
        check.template("recall/arguments".to_owned(), Some(&recall.arguments), &answered[..2]);
        check.expression("recall/happened".to_owned(), Some(&recall.happened), &answered);
        check.template("recall/result".to_owned(), recall.result.as_ref(), &answered);
    }
    check.problems
}

struct Check<'a> {
    definition: &'a Definition,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn template(&mut self, at: String, template: Option<&Template>, known: &[&str]) {
        self.references(&at, template.map(Template::references).unwrap_or_default(), known);
    }

    /// A key in memory that can never be written.
    fn key(&mut self, at: String, key: &Template) {
        let reserved = key.json().as_str().is_some_and(|key| key.starts_with(RESERVED_PREFIX));
        let problem = reserved.then(|| Problem { at, message: MemoryError::Reserved.to_string() });
        self.problems.extend(problem);
    }

    /// Something that can never be counted by.
    fn count(&mut self, at: String, change: StateOperation, value: Option<&Template>) {
        let counts = matches!(change, StateOperation::Increment | StateOperation::Decrement);
        let constant = value.filter(|_| counts).and_then(Template::constant);
        if constant.is_some_and(|value| !value.is_number()) {
            let message = "only a number can be counted up or down by".to_owned();
            self.problems.push(Problem { at, message });
        }
    }

    fn expression(&mut self, at: String, expression: Option<&Expression>, known: &[&str]) {
        self.references(&at, expression.map(Expression::references).unwrap_or_default(), known);
    }

    fn references(&mut self, at: &str, references: Vec<Reference>, known: &[&str]) {
        for reference in references {
            let message = reference.unknown(known).or_else(|| self.no_such_field(&reference));
            self.problems.extend(message.map(|message| Problem { at: at.to_owned(), message }));
        }
    }

    /// That a schema which takes no other fields than its own does not have this one.
    fn no_such_field(&self, reference: &Reference) -> Option<String> {
        let (whose, schema) = match reference.name.as_str() {
            "arguments" => ("input_schema", Some(&self.definition.input_schema)),
            "result" => ("output_schema", self.definition.output_schema.as_ref()),
            _ => return None,
        };
        let (schema, field) = (schema?, reference.field.as_ref()?);
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
            && schema.get("patternProperties").is_none();
        let fields = schema.get("properties").and_then(Value::as_object);
        if !is_closed || fields.is_some_and(|fields| fields.contains_key(field)) {
            return None;
        }
        let names: Vec<_> = fields.into_iter().flat_map(|fields| fields.keys()).take(SHOWN_MAX).collect();
        let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let has = if list.is_empty() { "none".to_owned() } else { list };
        Some(format!("`{}.{field}`: the {whose} has no such field; it has {has}", reference.name))
    }
}

#[cfg(test)]
mod tests {
    use crate::effect::Effect;
    use crate::run::{Recall, Undo};
    use crate::{Tool, ToolError};
    use serde_json::{Value, json};

    fn refused(effects: Value, undo: Value, recall: Value) -> Vec<String> {
        let mut tool = Tool::builder("pay")
            .description("Pays a person.")
            .input_schema(json!({ "type": "object", "additionalProperties": false,
                "properties": { "to": {}, "sum": {} } }))
            .output_schema(json!({ "type": "object", "additionalProperties": false,
                "properties": { "id": {} } }))
            .handler(|_, _| async { Ok::<_, ToolError>(Value::Null) });
        for effect in serde_json::from_value::<Vec<Effect>>(effects).unwrap() {
            tool = tool.effect(effect);
        }
        if let Some(undo) = serde_json::from_value::<Option<Undo>>(undo).unwrap() {
            tool = tool.undo(undo);
        }
        if let Some(recall) = serde_json::from_value::<Option<Recall>>(recall).unwrap() {
            tool = tool.recall(recall);
        }
        match tool.build() {
            Ok(_) => Vec::new(),
            Err(error) => error.problems.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn what_is_known_is_taken() {
        let effects = json!([
            { "type": "memory", "description": "d", "scope": "long-term", "operation": "write",
              "key": "k/{{ arguments.to }}", "value": "{{ (former or []) + [result.id] }}",
              "when": "arguments.sum > 1 and range(3)" },
            { "type": "notification", "description": "d", "event": "e", "payload": { "$pointer": "/result/id" } },
        ]);
        let undo = json!({ "tool": "take-back", "arguments": { "id": "{{ result.id }}" } });
        let recall = json!({ "tool": "find", "arguments": { "key": "{{ key }}" },
            "happened": "answer.found", "result": { "id": "{{ answer.whatever }}" } });
        assert_eq!(refused(effects, undo, recall), Vec::<String>::new());
    }

    #[test]
    fn a_slip_of_the_pen_is_found_before_anything_runs() {
        let effects = json!([
            { "type": "memory", "description": "d", "scope": "long-term", "operation": "write",
              "key": "{{ former }}", "value": "{{ reslt.id }}", "when": "argumnts.sum > 1" },
            { "type": "cascade", "description": "d", "tool": "t", "arguments": { "a": "{{ arguments.tu }}" } },
            { "type": "notification", "description": "d", "event": "e", "payload": { "$pointer": "/result/ids" } },
        ]);
        let undo = json!({ "tool": "take-back", "arguments": { "id": "{{ reslt.id }}" } });
        let recall = json!({ "tool": "find", "arguments": { "key": "{{ answer }}" },
            "happened": "result.id", "result": "{{ kee }}" });
        let expected = [
            "effects/0/when: `argumnts` is not known here; there are `arguments`, `result`",
            "effects/0/key: `former` is not known here; there are `arguments`, `result`",
            "effects/0/value: `reslt` is not known here; there are `arguments`, `result`, `former`",
            "effects/1/arguments: `arguments.tu`: the input_schema has no such field; it has `to`, `sum`",
            "effects/2/payload: `result.ids`: the output_schema has no such field; it has `id`",
            "undo/arguments: `reslt` is not known here; there are `arguments`, `result`",
            "recall/arguments: `answer` is not known here; there are `arguments`, `key`",
            "recall/happened: `result` is not known here; there are `arguments`, `key`, `answer`",
            "recall/result: `kee` is not known here; there are `arguments`, `key`, `answer`",
        ];
        assert_eq!(refused(effects, undo, recall), expected);
    }
}
