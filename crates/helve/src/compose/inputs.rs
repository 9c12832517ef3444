//! The input schema of a composition, from what its parts take and its templates name.

use helve_core::Problem;
use helve_core::expression::Reference;
use helve_core::template::Template;
use serde_json::{Map, Value, json};

use super::embed::{Embedding, embed};
use super::plan::{Arguments, Kind, Make, Part, Plan, Test, Way};

/// The schema, or the fields on which the parts do not agree.
pub(super) fn schema(plan: &Plan) -> Result<Value, Vec<Problem>> {
    let mut inputs = match &plan.kind {
        Kind::Sequence(parts) => Inputs::of_steps(parts),
        Kind::Parallel { parts, .. } => {
            let mut inputs = Inputs::default();
            parts.iter().for_each(|part| inputs.add_part(part, Pass::Whole));
            inputs
        }
        Kind::Conditional { decide, branches, otherwise } => {
            of_branches(decide.as_ref(), branches, otherwise.as_deref())
        }
        Kind::Map { part, over, item, .. } => of_map(part, over, item),
    };
    if let Some(output) = &plan.output {
        inputs.add_optional(&match output {
            Make::Template(template) => template.references(),
            Make::Expression(expression) => expression.references(),
            Make::Code(_) => Vec::new(),
        });
    }
    inputs.into_schema()
}

/// What a step without arguments gets.
#[derive(Clone, Copy, PartialEq)]
enum Pass {
    /// What it asks for.
    Whole,
    /// Something that an earlier step made, or what is there.
    Rest,
}

#[derive(Default)]
struct Inputs {
    fields: Map<String, Value>,
    required: Vec<String>,
    defs: Map<String, Value>,
    /// Some part takes fields that nobody lists.
    open: bool,
    /// The one schema that says it all.
    whole: Option<Value>,
    problems: Vec<Problem>,
}

fn of_branches(decide: Option<&Part>, branches: &[Way], otherwise: Option<&[Part]>) -> Inputs {
    let mut inputs = Inputs::default();
    if let Some(decide) = decide {
        inputs.add_part(decide, Pass::Whole);
    }
    for way in branches {
        inputs.add_test(Some(&way.when));
    }
    let ways: Vec<_> = branches.iter().map(|way| way.parts.as_slice()).chain(otherwise).collect();
    let mut ways = ways.into_iter().map(Inputs::of_steps);
    let Some(mut merged) = ways.next() else { return inputs };
    for way in ways {
        // Required is what every way needs.
        merged.required.retain(|field| way.required.contains(field));
        merged.merge(way);
    }
    let required = std::mem::take(&mut merged.required);
    inputs.merge(merged);
    inputs.require(required);
    inputs
}

fn of_map(part: &Part, over: &Make, item: &str) -> Inputs {
    let mut inputs = Inputs::default();
    let items = match &part.arguments {
        Arguments::Passed => Some(part.schema.json().clone()),
        Arguments::Template(template) => {
            let field = plain_fields(template).find(|(_, name, below)| *name == item && below.is_none());
            field.and_then(|(key, ..)| field_schema(part, key)).cloned()
        }
        Arguments::Code(_) => None,
    };
    let items =
        items.map_or_else(|| json!({}), |schema| embed(&schema, part.schema.json(), &mut inputs.defs));
    match over {
        Make::Expression(expression) => {
            for Reference { name, field, needed } in expression.references() {
                let (true, Some(field)) = (name == "input", field) else { continue };
                // `input.urls` is the list itself; in anything longer it may be something else.
                let is_list = expression.as_str() == format!("input.{field}");
                let schema = if is_list { json!({ "type": "array", "items": items }) } else { json!({}) };
                inputs.add_field(&field, schema);
                inputs.require(needed.then_some(field));
            }
        }
        Make::Template(_) | Make::Code(_) => inputs.open = true,
    }
    if let Arguments::Template(template) = &part.arguments {
        inputs.add_template(part, template);
    }
    inputs.open |= matches!(part.arguments, Arguments::Code(_));
    inputs
}

impl Inputs {
    fn of_steps(parts: &[Part]) -> Self {
        let mut inputs = Self::default();
        for (index, part) in parts.iter().enumerate() {
            inputs.add_part(part, if index == 0 { Pass::Whole } else { Pass::Rest });
        }
        inputs
    }

    fn add_part(&mut self, part: &Part, pass: Pass) {
        self.add_test(part.when.as_ref());
        let required = self.required.len();
        match (&part.arguments, pass) {
            (Arguments::Template(template), _) => self.add_template(part, template),
            (Arguments::Code(_), _) => self.open = true,
            (Arguments::Passed, Pass::Whole) => self.add_whole(part.schema.json()),
            (Arguments::Passed, Pass::Rest) => {}
        }
        if part.when.is_some() {
            // What a step needs that may be skipped is not always needed.
            self.required.truncate(required);
            if pass == Pass::Whole {
                self.whole = None;
            }
        }
    }

    fn add_test(&mut self, test: Option<&Test>) {
        match test {
            Some(Test::Expression(expression)) => self.add_optional(&expression.references()),
            Some(Test::Code(_)) => self.open = true,
            None => {}
        }
    }

    /// All that a part takes.
    fn add_whole(&mut self, schema: &Value) {
        let alone = self.fields.is_empty() && !self.open;
        let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut embedding = Embedding::new(schema, &mut self.defs);
        let fields: Vec<_> = fields.map(|(key, field)| (key, embedding.embed(field))).collect();
        for (key, field) in fields {
            self.add_field(key, field.unwrap_or_else(|| json!({})));
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        self.require(required.filter_map(Value::as_str).map(str::to_owned));
        self.open |= schema.get("additionalProperties") != Some(&Value::Bool(false));
        self.whole = alone.then(|| schema.clone());
    }

    /// What a template names. A field that becomes a part's field as it is has that one's schema.
    fn add_template(&mut self, part: &Part, template: &Template) {
        let known: Vec<_> = plain_fields(template)
            .filter_map(|(key, name, below)| {
                let below = below.filter(|_| name == "input")?;
                Some((below.to_owned(), key.to_owned()))
            })
            .collect();
        let mut embedding = Embedding::new(part.schema.json(), &mut self.defs);
        let schemas: Vec<_> =
            known.iter().map(|(_, key)| embedding.embed(field_schema(part, key)?)).collect();
        for ((field, _), schema) in known.iter().zip(schemas) {
            self.add_field(field, schema.unwrap_or_else(|| json!({})));
        }
        for Reference { name, field, needed } in template.references() {
            let (true, Some(field)) = (name == "input", field) else { continue };
            if !known.iter().any(|(one, _)| *one == field) {
                self.add_untyped(&field);
            }
            self.require(needed.then_some(field));
        }
    }

    fn add_optional(&mut self, references: &[Reference]) {
        for Reference { name, field, .. } in references {
            if let Some(field) = field.as_ref().filter(|_| name == "input") {
                self.add_untyped(field);
            }
        }
    }

    fn add_untyped(&mut self, field: &str) {
        if !self.fields.contains_key(field) {
            self.fields.insert(field.to_owned(), json!({}));
            self.whole = None;
        }
    }

    fn add_field(&mut self, field: &str, schema: Value) {
        self.whole = None;
        match self.fields.get(field) {
            None => {}
            Some(known) if known == &json!({}) => {}
            Some(known) if without_texts(known) == without_texts(&schema) => return,
            Some(_) if schema == json!({}) => return,
            Some(_) => return self.disagree(field),
        }
        self.fields.insert(field.to_owned(), schema);
    }

    fn disagree(&mut self, field: &str) {
        let message = format!("its parts do not agree on what `{field}` is; give an input schema");
        let problem = Problem { at: "input_schema".to_owned(), message };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn require(&mut self, fields: impl IntoIterator<Item = String>) {
        for field in fields {
            if !self.required.contains(&field) {
                self.required.push(field);
            }
        }
    }

    /// The fields of another, none of them required.
    fn merge(&mut self, other: Self) {
        let alone = self.fields.is_empty() && !self.open;
        let root = json!({ "$defs": other.defs });
        let mut embedding = Embedding::new(&root, &mut self.defs);
        let fields: Vec<_> =
            other.fields.into_iter().map(|(field, schema)| (field, embedding.embed(&schema))).collect();
        for (field, schema) in fields {
            let is_known = self.fields.get(&field).is_some_and(|known| known != &json!({}));
            match schema {
                Some(schema) => self.add_field(&field, schema),
                // In the same words it would mean something else.
                None if is_known => self.disagree(&field),
                None => self.add_field(&field, json!({})),
            }
        }
        self.open |= other.open;
        self.problems.extend(other.problems);
        self.whole = other.whole.filter(|_| alone);
    }

    fn into_schema(self) -> Result<Value, Vec<Problem>> {
        if !self.problems.is_empty() {
            return Err(self.problems);
        }
        if let Some(whole) = self.whole {
            return Ok(whole);
        }
        let mut schema = json!({ "type": "object" });
        if !self.fields.is_empty() {
            schema["properties"] = Value::Object(self.fields);
        }
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        if !self.open {
            schema["additionalProperties"] = json!(false);
        }
        if !self.defs.is_empty() {
            schema["$defs"] = Value::Object(self.defs);
        }
        Ok(schema)
    }
}

/// A field's schema without what is only said to people.
fn without_texts(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        for word in ["description", "title", "examples"] {
            fields.remove(word);
        }
    }
    schema
}

fn field_schema<'p>(part: &'p Part, key: &str) -> Option<&'p Value> {
    part.schema.json().get("properties")?.get(key)
}

/// Fields of a template that are one plain value: `{ url = "{{ input.page }}" }` gives
/// (`url`, `input`, `page`).
fn plain_fields(template: &Template) -> impl Iterator<Item = (&str, &str, Option<&str>)> {
    let fields = template.json().as_object().into_iter().flatten();
    fields.filter_map(|(key, value)| {
        let (name, below) = match value {
            Value::String(text) => {
                let path = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
                path.split_once('.').map_or((path, None), |(name, below)| (name, Some(below)))
            }
            Value::Object(_) => {
                let pointer = value.get("$pointer")?.as_str()?.strip_prefix('/')?;
                pointer.split_once('/').map_or((pointer, None), |(name, below)| (name, Some(below)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (plain(name) && below.is_none_or(plain)).then_some((key.as_str(), name, below))
    })
}
