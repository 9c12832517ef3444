//! Single values from the environment and from `--set`.

use std::cell::LazyCell;

use helve::Schema;
use helve::json::escape_pointer;
use serde_json::{Map, Value};

use super::{Origin, keys};
use crate::error::HostError;
use crate::suggest;

/// Variables start with this and have a double underscore between levels:
/// `HELVE_EXECUTION__MAX_TIMEOUT_MS`.
const PREFIX: &str = "HELVE_";
const BETWEEN_LEVELS: &str = "__";

/// A value that replaces the one in the files.
pub(super) struct Override {
    pub(super) pointer: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// Values from the environment. A variable without `__`, such as `HELVE_LOG`, is not a key.
pub(super) fn from_environment(
    variables: impl IntoIterator<Item = (String, String)>,
    schema: &LazyCell<Schema>,
) -> Vec<Override> {
    let mut found: Vec<_> = variables
        .into_iter()
        .filter_map(|(variable, text)| {
            let path = variable.strip_prefix(PREFIX)?;
            path.contains(BETWEEN_LEVELS).then_some(())?;
            let keys = path.split(BETWEEN_LEVELS).map(str::to_lowercase).collect::<Vec<_>>();
            Some(one(&keys, &text, Origin::Env { variable }, schema))
        })
        .collect();
    found.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    found
}

/// Variables without `__` that mean something, to us or to a tool that we run.
const OTHER_VARIABLES: [&str; 9] = [
    "HELVE_LOG",
    "HELVE_UPDATE_DOCS",
    "HELVE_PYTHON_SDKS",
    "HELVE_MCP_PEERS",
    "HELVE_OFFICE_SERVERS",
    "HELVE_CALL_ID",
    "HELVE_IDEMPOTENCY_KEY",
    // What clients read, as in docs/quickstart-python.md.
    "HELVE_URL",
    "HELVE_KEY",
];

/// Whether a variable looks like ours and is not. One with `__` that is no key is refused.
pub(super) fn is_stray(variable: &str) -> bool {
    variable.starts_with(PREFIX) && !variable.contains(BETWEEN_LEVELS) && !OTHER_VARIABLES.contains(&variable)
}

/// The variable of a key that was probably meant.
pub(super) fn nearest_variable(variable: &str) -> Option<String> {
    let keys = keys::sections().into_iter().flat_map(|section| section.keys).map(|key| key.key);
    let keys: Vec<_> = keys.filter(|key| !key.contains("[]") && !key.contains("NAME")).collect();
    // Compared without what all of them share, or all would be near.
    let flat: Vec<_> = keys.iter().map(|key| key.replace('.', "_")).collect();
    let word = variable.strip_prefix(PREFIX)?.to_lowercase();
    let meant = suggest::nearest(&word, flat.iter().map(String::as_str))?;
    let key = keys.get(flat.iter().position(|one| one == meant)?)?;
    Some(format!("{PREFIX}{}", key.replace('.', BETWEEN_LEVELS).to_uppercase()))
}

/// A value from `--set key.path=value`.
pub(super) fn from_flag(text: &str, schema: &Schema) -> Result<Override, HostError> {
    let Some((path, value)) = text.split_once('=') else {
        return Err(HostError::usage(format!("`--set {text}` has no `=`"))
            .hint("write `--set execution.max_timeout_ms=60000`"));
    };
    let keys: Vec<_> = path.trim().split('.').map(str::to_owned).collect();
    Ok(one(&keys, value, Origin::Flag { text: text.to_owned() }, schema))
}

fn one(keys: &[String], text: &str, origin: Origin, schema: &Schema) -> Override {
    let pointer: String = keys.iter().map(|key| format!("/{}", escape_pointer(key))).collect();
    Override { value: typed(text, &schema.at(&pointer)), pointer, origin }
}

/// Text where the key wants text; otherwise a TOML value, and text where it is none.
fn typed(text: &str, wanted: &[&Value]) -> Value {
    let wants = |name: &str| {
        wanted.iter().any(|node| match node.get("type") {
            Some(Value::String(kind)) => kind == name,
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
            _ => false,
        })
    };
    if wants("string") {
        return Value::from(text);
    }
    let parsed = toml::from_str::<Map<String, Value>>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    match value {
        Some(value) => value,
        // `HELVE_NET__ALLOW=localhost,10.0.0.0/8` is what people write.
        None if wants("array") => text.split(',').map(|item| Value::from(item.trim())).collect(),
        None => Value::from(text),
    }
}

/// Puts `value` at `pointer` and makes the objects above it.
pub(super) fn put(root: &mut Value, pointer: &str, value: Value) {
    let mut current = root;
    for step in pointer.split('/').skip(1) {
        let key = step.replace("~1", "/").replace("~0", "~");
        if !current.is_object() {
            *current = Value::Object(Map::new());
        }
        let fields = current.as_object_mut().expect("made an object just above");
        current = fields.entry(key).or_insert(Value::Null);
    }
    *current = value;
}
