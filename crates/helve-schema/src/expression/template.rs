//! JSON with expressions in it: how arguments of one tool are made from those of another.
//!
//! A string that is one `{{ expression }}` becomes the expression's value, of whatever type; in a
//! longer string it becomes text. An object `{ "$pointer": "/steps/fetch/title" }` becomes the
//! value at that JSON Pointer. Everything else stays as it is.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::words::end_of_expression;
use crate::expression::{Expression, ExpressionError, Reference, Scope};

/// The one key of an object that stands for the value at a pointer.
const POINTER: &str = "$pointer";

/// JSON with expressions in it, parsed.
///
/// ```
/// use helve_schema::expression::Scope;
/// use helve_schema::template::Template;
/// use serde_json::json;
/// let template = Template::parse(json!({
///     "path": "notes/{{ arguments.day }}.md",
///     "size": "{{ result.bytes }}",
///     "body": { "$pointer": "/result/text" },
/// })).unwrap();
/// let (arguments, result) = (json!({ "day": 3 }), json!({ "bytes": 2, "text": "hi" }));
/// let scope = Scope::new().with("arguments", &arguments).with("result", &result);
/// assert_eq!(template.render(&scope).unwrap(), json!({ "path": "notes/3.md", "size": 2, "body": "hi" }));
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Template(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    json: Value,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Literal,
    Expression(Expression),
    Text(Vec<Piece>),
    Pointer(String),
    Array(Vec<(Node, Value)>),
    Object(Vec<(String, Node, Value)>),
}

#[derive(Debug)]
enum Piece {
    Text(String),
    Expression(Expression),
}

impl Template {
    /// Reads a template, or says what is wrong with it.
    pub fn parse(json: Value) -> Result<Self, ExpressionError> {
        let node = parse(&json)?;
        Ok(Self(Arc::new(Inner { json, node })))
    }

    /// JSON that is taken as it is, whatever is in it.
    pub fn literal(json: Value) -> Self {
        Self(Arc::new(Inner { json, node: Node::Literal }))
    }

    /// The template as it was written.
    pub fn json(&self) -> &Value {
        &self.0.json
    }

    /// The values that its expressions look at. Sorted.
    pub fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        collect_references(&self.0.node, &mut found);
        found.sort();
        found.dedup();
        found
    }

    /// What it always renders to; nothing where that depends on something, or fails.
    pub fn constant(&self) -> Option<Value> {
        let looks_at_nothing = self.references().is_empty();
        looks_at_nothing.then(|| self.render(&Scope::new()).ok()).flatten()
    }

    /// The JSON with its expressions' values in their places.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        render(&self.0.node, &self.0.json, scope)
    }
}

fn parse(json: &Value) -> Result<Node, ExpressionError> {
    let node = match json {
        Value::String(text) => parse_text(text)?,
        Value::Array(items) => {
            let nodes = items.iter().map(|item| Ok((parse(item)?, item.clone())));
            Node::Array(nodes.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => match pointer(fields) {
            Some(pointer) => Node::Pointer(pointer.to_owned()),
            None => {
                let nodes = fields.iter().map(|(key, value)| Ok((key.clone(), parse(value)?, value.clone())));
                Node::Object(nodes.collect::<Result<_, _>>()?)
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => Node::Literal,
    };
    let constant = match &node {
        Node::Array(nodes) => nodes.iter().all(|(node, _)| matches!(node, Node::Literal)),
        Node::Object(nodes) => nodes.iter().all(|(_, node, _)| matches!(node, Node::Literal)),
        Node::Literal | Node::Expression(_) | Node::Text(_) | Node::Pointer(_) => false,
    };
    Ok(if constant { Node::Literal } else { node })
}

fn pointer(fields: &Map<String, Value>) -> Option<&str> {
    if fields.len() == 1 { fields.get(POINTER)?.as_str() } else { None }
}

fn parse_text(text: &str) -> Result<Node, ExpressionError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        let end = end_of_expression(after)
            .ok_or_else(|| ExpressionError::new(text, "a `{{` is never closed by `}}`"))?;
        pieces.push(Piece::Expression(Expression::parse(&after[..end])?));
        rest = &after[end + 2..];
    }
    if pieces.is_empty() {
        return Ok(Node::Literal);
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(match <[Piece; 1]>::try_from(pieces) {
        Ok([Piece::Expression(expression)]) => Node::Expression(expression),
        Ok(one) => Node::Text(one.into()),
        Err(pieces) => Node::Text(pieces),
    })
}

fn collect_references(node: &Node, found: &mut Vec<Reference>) {
    match node {
        Node::Literal => {}
        Node::Expression(expression) => found.extend(expression.references()),
        Node::Text(pieces) => found.extend(pieces.iter().flat_map(|piece| match piece {
            Piece::Text(_) => Vec::new(),
            Piece::Expression(expression) => expression.references(),
        })),
        Node::Pointer(pointer) => {
            let mut names = pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
            if let Some(name) = names.next() {
                found.push(Reference { name, field: names.next(), needed: true });
            }
        }
        Node::Array(nodes) => nodes.iter().for_each(|(node, _)| collect_references(node, found)),
        Node::Object(nodes) => nodes.iter().for_each(|(_, node, _)| collect_references(node, found)),
    }
}

fn render(node: &Node, json: &Value, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
    match node {
        Node::Literal => Ok(json.clone()),
        Node::Expression(expression) => expression.evaluate(scope),
        Node::Pointer(pointer) => scope
            .pointer(pointer)
            .cloned()
            .ok_or_else(|| ExpressionError::new(pointer, "there is no value at this pointer")),
        Node::Text(pieces) => {
            let mut text = String::new();
            for piece in pieces {
                match piece {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Expression(expression) => match expression.evaluate(scope)? {
                        Value::String(value) => text.push_str(&value),
                        value => text.push_str(&value.to_string()),
                    },
                }
            }
            Ok(Value::String(text))
        }
        Node::Array(nodes) => nodes.iter().map(|(node, json)| render(node, json, scope)).collect(),
        Node::Object(nodes) => {
            let fields = nodes.iter().map(|(key, node, json)| Ok((key.clone(), render(node, json, scope)?)));
            Ok(Value::Object(fields.collect::<Result<_, ExpressionError>>()?))
        }
    }
}

impl Default for Template {
    fn default() -> Self {
        Self::literal(Value::Object(Map::new()))
    }
}

impl TryFrom<Value> for Template {
    type Error = ExpressionError;

    fn try_from(json: Value) -> Result<Self, ExpressionError> {
        Self::parse(json)
    }
}

impl From<Template> for Value {
    fn from(template: Template) -> Self {
        template.0.json.clone()
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.0.json == other.0.json
    }
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Value::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render_json(json: Value) -> Result<Value, ExpressionError> {
        let input = json!({ "n": 7, "text": "{{ input.n }}", "list": [1, { "a": null }] });
        Template::parse(json)?.render(&Scope::new().with("input", &input))
    }

    #[test]
    fn values_keep_their_types_and_are_never_templates_themselves() {
        assert_eq!(render_json(json!("{{ input.list }}")).unwrap(), json!([1, { "a": null }]));
        assert_eq!(render_json(json!("{{ input.text }}")).unwrap(), json!("{{ input.n }}"));
        assert_eq!(
            render_json(json!("a {{ input.n }} b {{ input.list }}")).unwrap(),
            json!("a 7 b [1,{\"a\":null}]")
        );
        assert_eq!(
            render_json(json!({ "x": [{ "$pointer": "/input/list/1/a" }] })).unwrap(),
            json!({ "x": [null] })
        );
        assert_eq!(
            render_json(json!({ "plain": [1, "two", null] })).unwrap(),
            json!({ "plain": [1, "two", null] })
        );
    }

    #[test]
    fn an_expression_may_hold_braces_of_its_own() {
        assert_eq!(render_json(json!("{{ {'x': {'y': input.n}} }}")).unwrap(), json!({ "x": { "y": 7 } }));
        assert_eq!(
            render_json(json!("a {{ '}}' }} b {{ {'z': input.n}}}!")).unwrap(),
            json!("a }} b {\"z\":7}!")
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(render_json(json!("{{ input.n")).unwrap_err().to_string().contains("never closed"));
        assert!(
            render_json(json!({ "$pointer": "/input/gone" }))
                .unwrap_err()
                .to_string()
                .contains("/input/gone")
        );
        assert!(render_json(json!(["{{ input.gone }}"])).unwrap_err().to_string().contains("input.gone"));
    }
}
