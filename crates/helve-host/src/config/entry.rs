//! Tools as they stand in a file: lists that add up over the files instead of replacing each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::Layer;
use serde_json::Value;

use super::Origin;
use super::document::Document;
use super::parts::{self, Problem};

/// The lists in a file, each with the sort of its entries.
pub(super) const TOOL_LISTS: [(&str, ToolKind); 7] = [
    ("/tool/http", ToolKind::Http),
    ("/tool/program", ToolKind::Program),
    ("/openapi", ToolKind::OpenApi),
    ("/tool/sequence", ToolKind::Composed(Sort::Sequence)),
    ("/tool/parallel", ToolKind::Composed(Sort::Parallel)),
    ("/tool/conditional", ToolKind::Composed(Sort::Conditional)),
    ("/tool/map", ToolKind::Composed(Sort::Map)),
];

/// One tool, or one OpenAPI document, from a file.
pub struct ToolEntry {
    pub kind: ToolKind,
    pub value: Value,
    pub layer: Layer,
    /// What is wrong with its shape.
    pub problems: Vec<Problem>,
    document: Arc<Document>,
    pointer: String,
}

impl ToolEntry {
    /// Its name, or what stands for one.
    pub fn label(&self) -> &str {
        let named = |key: &str| self.value.get(key).and_then(Value::as_str);
        named("name").or_else(|| named("namespace")).unwrap_or("(no name)")
    }

    /// The URL of an OpenAPI document that must be fetched.
    pub fn remote_document(&self) -> Option<&str> {
        let document = self.value.get("document").and_then(Value::as_str)?;
        (self.kind == ToolKind::OpenApi && crate::wire::is_remote(document)).then_some(document)
    }

    /// Its name, and others that it answers to.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let aliases = self.value.get("aliases").and_then(Value::as_array).into_iter().flatten();
        aliases.filter_map(Value::as_str).chain(Some(self.label()))
    }

    /// Where it stands.
    pub fn origin(&self) -> Origin {
        self.document.origin(&self.pointer)
    }

    /// Where a part of it stands, as in `input_schema/properties/to`.
    pub fn origin_of(&self, part: &str) -> Origin {
        self.document.origin(&format!("{}/{part}", self.pointer))
    }

    /// The file it stands in.
    pub fn file(&self) -> &Path {
        &self.document.path
    }

    /// Where relative paths start.
    pub(crate) fn base_dir(&self) -> PathBuf {
        self.document.path.parent().unwrap_or(Path::new(".")).to_owned()
    }
}

/// The sorts of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    Http,
    Program,
    OpenApi,
    Composed(Sort),
}

/// The sorts of composed tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    Sequence,
    Parallel,
    Conditional,
    Map,
}

impl ToolKind {
    /// The list in the file.
    pub fn section(self) -> &'static str {
        match self {
            Self::Http => "tool.http",
            Self::Program => "tool.program",
            Self::OpenApi => "openapi",
            Self::Composed(Sort::Sequence) => "tool.sequence",
            Self::Composed(Sort::Parallel) => "tool.parallel",
            Self::Composed(Sort::Conditional) => "tool.conditional",
            Self::Composed(Sort::Map) => "tool.map",
        }
    }
}

/// The tools of one file. `wrong` is what is wrong with parts of it, by their pointers.
pub fn tool_entries(
    layer: Layer,
    document: &Arc<Document>,
    wrong: &BTreeMap<String, Vec<Problem>>,
) -> Vec<ToolEntry> {
    let entries = parts::tool_lists(&document.value).into_iter().flat_map(|list| {
        // Of a list that there is not every entry is broken, whatever its sort was meant to be.
        let kind =
            TOOL_LISTS.iter().find(|(known, _)| *known == list).map_or(ToolKind::Http, |(_, kind)| *kind);
        let (items, table) = match document.value.pointer(&list) {
            Some(Value::Array(items)) => (&items[..], None),
            Some(table @ Value::Object(_)) => (&[][..], Some((list.clone(), kind, table))),
            _ => (&[][..], None),
        };
        let numbered = items.iter().enumerate();
        numbered.map(move |(index, value)| (format!("{list}/{index}"), kind, value)).chain(table)
    });
    entries
        .map(|(pointer, kind, value)| ToolEntry {
            kind,
            value: value.clone(),
            layer,
            problems: wrong.get(&pointer).cloned().unwrap_or_default(),
            document: Arc::clone(document),
            pointer,
        })
        .collect()
}

/// Whether a pointer leads to such a list, or into one.
pub(super) fn is_tool_list(pointer: &str) -> bool {
    pointer == "/tool"
        || pointer.starts_with("/tool/")
        || TOOL_LISTS.iter().any(|(list, _)| {
            pointer.strip_prefix(list).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}
