//! Reads tables of several sorts, told apart by a tag, that share some keys.

use serde::Deserialize as _;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

/// Reads the shared keys and those of the sort, and refuses unknown keys. Serde alone cannot refuse them in a tagged enum
/// next to a flattened struct: each half would take a mistyped key for one of the other half.
pub(crate) fn read<'de, D, All, Sort>(deserializer: D, keys_of_all: &[&str]) -> Result<(All, Sort), D::Error>
where
    D: Deserializer<'de>,
    All: DeserializeOwned,
    Sort: DeserializeOwned,
{
    let table = Map::deserialize(deserializer)?;
    let (of_all, of_sort): (Map<_, _>, Map<_, _>) =
        table.into_iter().partition(|(key, _)| keys_of_all.contains(&key.as_str()));
    let all = serde_json::from_value(Value::Object(of_all)).map_err(D::Error::custom)?;
    let sort = serde_json::from_value(Value::Object(of_sort)).map_err(D::Error::custom)?;
    Ok((all, sort))
}
