//! An imported server as a part of `helve.toml`.

use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use super::{ImportError, Imported};
use crate::config::ServerConfig;
use crate::text::one_line;

impl Imported {
    /// The server as a table of `helve.toml`, with where it came from and what to do as comments.
    pub fn to_toml(&self) -> String {
        let mut document = DocumentMut::new();
        // An empty document has no table in the way.
        match self.insert(&mut document) {
            Ok(()) => document.to_string().trim_start().to_owned(),
            Err(message) => format!("# {message}\n"),
        }
    }

    /// The text of a `helve.toml` with the server in it. All that stood there stays as it was.
    pub fn insert_into(&self, helve_toml: &str) -> Result<String, ImportError> {
        let mut document = parse(helve_toml)?;
        self.insert(&mut document).map_err(refuse)?;
        Ok(document.to_string())
    }

    fn insert(&self, document: &mut DocumentMut) -> Result<(), String> {
        let mut comment =
            format!("\n# Imported from {}\n", one_line(&self.origin.display().to_string(), 300));
        for note in &self.notes {
            comment.push_str(&format!("# - {}\n", one_line(note, 300)));
        }
        insert(document, &self.name, &self.config, &comment)
    }
}

/// The text of a `helve.toml` with a server in it. All that stood there stays as it was.
pub fn insert_server(helve_toml: &str, name: &str, config: &ServerConfig) -> Result<String, ImportError> {
    let mut document = parse(helve_toml)?;
    let space = if helve_toml.trim().is_empty() { "" } else { "\n" };
    insert(&mut document, name, config, space).map_err(refuse)?;
    Ok(document.to_string())
}

/// The text of a `helve.toml` without a server, or `None` where it has no such server.
pub fn remove_server(helve_toml: &str, name: &str) -> Result<Option<String>, ImportError> {
    let mut document = parse(helve_toml)?;
    let servers = document.get_mut("mcp").and_then(|mcp| mcp.get_mut("servers"));
    let removed = servers.and_then(Item::as_table_like_mut).and_then(|servers| servers.remove(name));
    let Some(removed) = removed else { return Ok(None) };
    // Comments above it go with it, unless a blank line sets them apart: those are about something else.
    let above = removed.as_table().and_then(|table| table.decor().prefix()?.as_str()).unwrap_or_default();
    if let Some((others, _)) = above.rsplit_once("\n\n").filter(|(others, _)| !others.trim().is_empty()) {
        let place = removed.as_table().and_then(Table::position);
        match place.and_then(|place| first_after(document.as_table_mut(), place)) {
            Some(next) => {
                let own = next.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
                let own = own.trim_start_matches('\n');
                let prefix = format!("{others}\n\n{own}");
                next.decor_mut().set_prefix(prefix);
            }
            None => {
                let ending = document.trailing().as_str().unwrap_or_default();
                let ending = format!("{others}\n{ending}");
                document.set_trailing(ending);
            }
        }
    }
    Ok(Some(document.to_string()))
}

/// The first table that stands below a place in the file.
fn first_after(table: &mut Table, place: isize) -> Option<&mut Table> {
    let tables = table.iter_mut().flat_map(|(_, item)| -> Vec<&mut Table> {
        match item {
            Item::Table(table) => vec![table],
            Item::ArrayOfTables(tables) => tables.iter_mut().collect(),
            Item::None | Item::Value(_) => Vec::new(),
        }
    });
    let found = tables.filter_map(|table| {
        // What is written only as a part of other names has no line of its own.
        let is_it = !table.is_implicit() && table.position().is_some_and(|at| at > place);
        if is_it { Some(table) } else { first_after(table, place) }
    });
    found.min_by_key(|table| table.position())
}

fn insert(document: &mut DocumentMut, name: &str, config: &ServerConfig, before: &str) -> Result<(), String> {
    // A first server stands last in the file, and what comments end it belongs to what was there.
    let ending = match document.contains_key("mcp") {
        true => String::new(),
        false => document.trailing().as_str().unwrap_or_default().to_owned(),
    };
    if !ending.is_empty() {
        document.set_trailing("");
    }
    let mcp = subtable(document.as_table_mut(), "mcp")?;
    let servers = subtable(mcp, "servers")?;
    if servers.contains_key(name) {
        return Err(format!("there is a server `{name}` already"));
    }
    let mut table = table(config);
    table.decor_mut().set_prefix(format!("{ending}{before}"));
    servers.insert(name, Item::Table(table));
    Ok(())
}

fn refuse(message: String) -> ImportError {
    ImportError { path: "helve.toml".into(), message }
}

fn parse(helve_toml: &str) -> Result<DocumentMut, ImportError> {
    // The parser's message quotes the line, which may hold anything.
    helve_toml.parse().map_err(|error: toml_edit::TomlError| {
        let line =
            error.span().map_or(0, |span| helve_toml[..span.start.min(helve_toml.len())].lines().count());
        refuse(format!("it is not valid TOML, near line {}", line.max(1)))
    })
}

fn subtable<'a>(parent: &'a mut Table, key: &str) -> Result<&'a mut Table, String> {
    let item = parent.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    item.as_table_mut().ok_or_else(|| format!("`{key}` is not a table; write it as `[{key}]`"))
}

/// What differs from the defaults. Sections are tables of their own, and stand last, as they must.
fn table(config: &ServerConfig) -> Table {
    let (given, defaults) = (to_json(config), to_json(&ServerConfig::default()));
    let mut table = Table::new();
    let mut sections = Vec::new();
    for (key, value) in given.as_object().into_iter().flatten() {
        if defaults.get(key) == Some(value) {
            continue;
        }
        match value {
            Json::Object(fields) => {
                let mut section = Table::new();
                for (name, value) in fields {
                    let same = defaults.get(key).and_then(|section| section.get(name)) == Some(value);
                    if let Some(value) = to_toml(value).filter(|_| !same) {
                        section.insert(name, Item::Value(value));
                    }
                }
                sections.push((key.clone(), section));
            }
            other => {
                if let Some(value) = to_toml(other) {
                    table.insert(key, Item::Value(value));
                }
            }
        }
    }
    for (key, section) in sections {
        table.insert(&key, Item::Table(section));
    }
    table
}

fn to_json(config: &ServerConfig) -> Json {
    serde_json::to_value(config).unwrap_or_default()
}

fn to_toml(value: &Json) -> Option<Value> {
    Some(match value {
        Json::Null => return None,
        Json::Bool(value) => (*value).into(),
        Json::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64()?.into(),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => items.iter().filter_map(to_toml).collect::<Array>().into(),
        Json::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, value)| Some((key.as_str(), to_toml(value)?)));
            fields.collect::<InlineTable>().into()
        }
    })
}
