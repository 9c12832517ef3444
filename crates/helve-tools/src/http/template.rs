//! Text with `{argument}` and `${env:NAME}` in it.

use serde_json::{Map, Value};

use super::secrets::Secrets;

/// A parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Argument(String),
    Variable(String),
}

impl Template {
    /// Reads a template, or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}', '$']) {
            literal.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("${") {
                let (name, after) = variable(after)?;
                push_text(&mut parts, &mut literal);
                parts.push(Part::Variable(name.to_owned()));
                rest = after;
            } else if rest.starts_with("{{") || rest.starts_with("}}") {
                literal.push_str(&rest[..1]);
                rest = &rest[2..];
            } else if let Some(after) = rest.strip_prefix('{') {
                let (name, after) =
                    after.split_once('}').ok_or("a `{` is never closed; write `{{` for a brace")?;
                if name.is_empty() || name.contains('{') {
                    return Err("`{}` must hold the name of an argument; write `{{` for a brace".to_owned());
                }
                push_text(&mut parts, &mut literal);
                parts.push(Part::Argument(name.to_owned()));
                rest = after;
            } else if rest.starts_with('}') {
                return Err("a `}` closes nothing; write `}}` for a brace".to_owned());
            } else {
                literal.push('$');
                rest = &rest[1..];
            }
        }
        literal.push_str(rest);
        push_text(&mut parts, &mut literal);
        Ok(Self(parts))
    }

    /// A template of parts that were read elsewhere.
    pub(crate) fn of(parts: Vec<Part>) -> Self {
        Self(parts)
    }

    /// A template that is one argument.
    pub(crate) fn argument(name: impl Into<String>) -> Self {
        Self(vec![Part::Argument(name.into())])
    }

    /// A template that is plain text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self(vec![Part::Text(text.into())])
    }

    /// This template behind some text.
    pub(crate) fn prefixed(mut self, text: &str) -> Self {
        self.0.insert(0, Part::Text(text.to_owned()));
        self
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The argument that it is, where it is just one: then its type can be kept.
    pub(crate) fn as_argument(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Argument(name)] => Some(name),
            _ => None,
        }
    }

    pub(crate) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Text(_) | Part::Variable(_) => None,
        })
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.as_str()),
            Part::Text(_) | Part::Argument(_) => None,
        })
    }

    /// The text with everything filled in; `None` where an argument is absent or null.
    pub(crate) fn render(&self, arguments: &Map<String, Value>, secrets: &Secrets) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Argument(name) => text.push_str(&plain(arguments.get(name)?)?),
                Part::Variable(name) => text.push_str(secrets.value(name)),
            }
        }
        Some(text)
    }
}

fn push_text(parts: &mut Vec<Part>, literal: &mut String) {
    if !literal.is_empty() {
        parts.push(Part::Text(std::mem::take(literal)));
    }
}

fn variable(text: &str) -> Result<(&str, &str), String> {
    let known = text.strip_prefix("env:").and_then(|text| text.split_once('}'));
    match known {
        Some((name, after)) if is_variable_name(name) => Ok((name, after)),
        _ => Err("`${` must be followed by `env:NAME}`, the name of an environment variable".to_owned()),
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A value as text: lists joined by commas, objects as JSON; `None` for null.
pub(crate) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Some(value.to_string()),
        Value::Array(items) => Some(items.iter().filter_map(plain).collect::<Vec<_>>().join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_into_their_parts() {
        let text = |text: &str| Part::Text(text.to_owned());
        let argument = |name: &str| Part::Argument(name.to_owned());
        let variable = |name: &str| Part::Variable(name.to_owned());
        let cases = [
            ("", vec![]),
            ("plain $5", vec![text("plain $5")]),
            ("{a}", vec![argument("a")]),
            ("x{a}y{b}", vec![text("x"), argument("a"), text("y"), argument("b")]),
            ("Bearer ${env:A_1}", vec![text("Bearer "), variable("A_1")]),
            ("{{a}} {filter[x]}", vec![text("{a} "), argument("filter[x]")]),
        ];
        for (template, parts) in cases {
            assert_eq!(Template::parse(template), Ok(Template(parts)), "{template}");
        }
        for template in ["{", "}", "{}", "a{b", "${env:}", "${A}", "${env:a b}", "${env:A", "{a{b}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }
}
