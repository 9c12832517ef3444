//! Tables in which the keys of one of several sorts stand beside keys that all of them have.

use serde::Deserialize as _;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Map, Value};

/// Reads both. What neither knows is refused, which serde cannot do by itself where a sort is told by its
/// tag: a mistyped key would count as one of the other's.
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
