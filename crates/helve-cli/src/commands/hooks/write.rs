//! Hooks as a part of a helve.toml, whose comments stay.

use helve::hook::HookEvent;
use helve_tools::hooks::HookGroup;
use serde_json::{Map, Value as Json};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

use crate::commands::file;
use crate::failure::Failure;

/// The text of a helve.toml with more hooks in it, behind those that are there. All that stood there
/// stays as it was.
pub(super) fn append(
    helve_toml: &str,
    groups: &[(HookEvent, HookGroup)],
    comment: &str,
) -> Result<String, Failure> {
    let mut document: DocumentMut =
        helve_toml.parse().map_err(|_| Failure::usage("helve.toml is not valid TOML"))?;
    // First hooks stand last in the file, and what comments end it belongs to what was there.
    let mut ending = match document.contains_key("hooks") {
        true => String::new(),
        false => file::take_ending(&mut document),
    };
    let hooks = document.as_table_mut().entry("hooks").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let hooks = hooks.as_table_mut().ok_or_else(|| Failure::usage("`hooks` in helve.toml is no table"))?;
    for (event, group) in groups {
        let list = hooks.entry(event.as_str()).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let Some(list) = list.as_array_of_tables_mut() else {
            return Err(Failure::usage(format!(
                "write `hooks.{event}` in helve.toml as `[[hooks.{event}]]` first"
            )));
        };
        let mut table = table(group)?;
        table.decor_mut().set_prefix(format!("{}\n# {comment}\n", std::mem::take(&mut ending)));
        list.push(table);
    }
    Ok(document.to_string())
}

fn table(group: &HookGroup) -> Result<Table, Failure> {
    let Json::Object(fields) =
        serde_json::to_value(group).map_err(|error| Failure::failed(error.to_string()))?
    else {
        return Err(Failure::failed("a group of hooks is no object"));
    };
    let mut table = Table::new();
    for (key, value) in in_order(&fields) {
        let item = match value {
            // One line each.
            Json::Array(hooks) if key.as_str() == "hooks" => {
                let mut array: Array = hooks.iter().filter_map(value_of).collect();
                array.iter_mut().for_each(|hook| hook.decor_mut().set_prefix("\n    "));
                array.set_trailing("\n");
                array.set_trailing_comma(true);
                Some(Value::Array(array))
            }
            other => value_of(other),
        };
        if let Some(item) = item {
            table.insert(key, Item::Value(item));
        }
    }
    Ok(table)
}

/// Fields as people write them: what it is and whom it is about first, the hooks last.
fn in_order(fields: &Map<String, Json>) -> Vec<(&String, &Json)> {
    let place = |key: &str| match key {
        "type" => 0,
        "matcher" => 1,
        "hooks" => 3,
        _ => 2,
    };
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(key, _)| place(key));
    fields
}

/// The same in TOML, which knows no null.
fn value_of(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::from(integer),
            None => Value::from(number.as_f64()?),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::Array(items.iter().filter_map(value_of).collect()),
        Json::Object(fields) => {
            let fields = in_order(fields).into_iter();
            let fields = fields.filter_map(|(key, value)| Some((key.as_str(), value_of(value)?)));
            Value::InlineTable(fields.collect::<InlineTable>())
        }
    })
}
