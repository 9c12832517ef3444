//! One TOML file as JSON, with the line of every value.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use helve::json::escape_pointer;
use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::origin::{Origin, short};
use crate::error::HostError;

/// Largest file that is read as configuration.
const FILE_BYTES_MAX: usize = 4 << 20;

/// Deepest nesting in a file. The parser itself stops a little later.
const DEPTH_MAX: usize = 64;

/// A configuration file: its values, and where each stands in the text.
pub struct Document {
    pub path: PathBuf,
    pub value: Value,
    /// JSON Pointer to where the key, or in a list the item, stands in the text.
    spans: HashMap<String, Range<usize>>,
    text: String,
}

impl Document {
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let text = read_text(path, FILE_BYTES_MAX)?;
        let (value, spans) = parse(&text).map_err(|(message, span)| {
            let origin = place(path, &text, span);
            HostError::usage(format!("{} is not valid TOML", short(path)))
                .detail(format!("{}  {message}", at(&origin)))
        })?;
        Ok(Self { path: path.to_owned(), value, spans, text })
    }

    /// Where the value at `pointer`, or else the nearest one around it, stands.
    pub fn origin(&self, pointer: &str) -> Origin {
        let mut pointer = pointer;
        loop {
            if let Some(span) = self.spans.get(pointer) {
                return place(&self.path, &self.text, span.clone());
            }
            match pointer.rfind('/') {
                Some(cut) => pointer = &pointer[..cut],
                None => return place(&self.path, &self.text, 0..0),
            }
        }
    }
}

/// `file:line:column`, for problems.
pub fn at(origin: &Origin) -> String {
    match origin {
        Origin::File { path, line, column } => format!("{}:{line}:{column}", short(path)),
        Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => origin.to_string(),
    }
}

/// Reads a text file of at most `bytes_max`.
pub fn read_text(path: &Path, bytes_max: usize) -> Result<String, HostError> {
    let refuse = |why: String| HostError::usage(format!("cannot read {}", short(path))).detail(why);
    let file = File::open(path).map_err(|error| refuse(error.to_string()))?;
    let mut bytes = Vec::new();
    // One byte more than allowed is enough to know that it is too much.
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(|error| refuse(error.to_string()))?;
    if bytes.len() > bytes_max {
        return Err(refuse(format!("it is larger than {} MiB", bytes_max >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8 text".to_owned()))
}

fn place(path: &Path, text: &str, span: Range<usize>) -> Origin {
    let before = text.get(..span.start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Origin::File {
        path: path.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

type Parsed = (Value, HashMap<String, Range<usize>>);

fn parse(text: &str) -> Result<Parsed, (String, Range<usize>)> {
    let table = DeTable::parse(text)
        .map_err(|error| (error.message().to_owned(), error.span().unwrap_or_default()))?;
    let mut spans = HashMap::new();
    let value = table_to_json(table.get_ref(), "", 0, &mut spans)?;
    Ok((value, spans))
}

fn table_to_json(
    table: &DeTable<'_>,
    at: &str,
    depth: usize,
    spans: &mut HashMap<String, Range<usize>>,
) -> Result<Value, (String, Range<usize>)> {
    let mut object = Map::new();
    for (key, value) in table.iter() {
        let pointer = format!("{at}/{}", escape_pointer(key.get_ref()));
        spans.insert(pointer.clone(), key.span());
        object.insert(key.get_ref().to_string(), to_json(value, &pointer, depth + 1, spans)?);
    }
    Ok(Value::Object(object))
}

fn to_json(
    value: &Spanned<DeValue<'_>>,
    at: &str,
    depth: usize,
    spans: &mut HashMap<String, Range<usize>>,
) -> Result<Value, (String, Range<usize>)> {
    let refuse = |message: &str| (message.to_owned(), value.span());
    if depth > DEPTH_MAX {
        return Err(refuse("nested too deeply"));
    }
    match value.get_ref() {
        DeValue::String(text) => Ok(Value::from(text.as_ref())),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .map_err(|_| refuse("the integer does not fit in 64 bits")),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(Value::Number)
            .ok_or_else(|| refuse("not a finite number")),
        DeValue::Boolean(flag) => Ok(json!(flag)),
        DeValue::Datetime(when) => Ok(Value::from(when.to_string())),
        DeValue::Array(items) => {
            let mut array = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let pointer = format!("{at}/{index}");
                spans.insert(pointer.clone(), item.span());
                array.push(to_json(item, &pointer, depth + 1, spans)?);
            }
            Ok(Value::Array(array))
        }
        DeValue::Table(table) => table_to_json(table, at, depth, spans),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_line() {
        let text = "[a]\nb = 1\n\n[[c]]\nd = [1,\n  2]\n";
        let (value, spans) = parse(text).unwrap();
        assert_eq!(value, json!({ "a": { "b": 1 }, "c": [{ "d": [1, 2] }] }));
        let line = |pointer: &str| match place(Path::new("x"), text, spans[pointer].clone()) {
            Origin::File { line, column, .. } => (line, column),
            other => panic!("{other}"),
        };
        assert_eq!([line("/a/b"), line("/c/0/d"), line("/c/0/d/1")], [(2, 1), (5, 1), (6, 3)]);
    }
}
