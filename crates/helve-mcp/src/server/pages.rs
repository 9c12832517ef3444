//! Long lists, a page at a time.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::backend::Kind;
use super::seal::Seal;
use crate::era::Era;
use crate::message::{RpcError, empty};

const PURPOSE: &str = "cursor";

/// One page of a list, as a result.
pub(super) fn page(
    entries: &[Arc<RawValue>],
    kind: Kind,
    cursor: Option<&str>,
    per_page: usize,
    seal: &Seal,
    era: Era,
) -> Result<Arc<RawValue>, RpcError> {
    let start = match cursor {
        None => 0,
        Some(cursor) => read_cursor(cursor, kind, seal)
            .ok_or_else(|| RpcError::invalid_params("this cursor is not one of ours; start without one"))?,
    };
    let shown = entries.get(start..).unwrap_or_default();
    let shown = &shown[..shown.len().min(per_page)];
    let bytes: usize = shown.iter().map(|entry| entry.get().len() + 1).sum();
    let mut text = String::with_capacity(bytes + 128);
    let _ = write!(text, r#"{{"{}":["#, kind.field());
    for (number, entry) in shown.iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        text.push_str(entry.get());
    }
    text.push(']');
    let end = start + shown.len();
    if end < entries.len() {
        let cursor = seal.close(PURPOSE, &format!("{}:{end}", kind.field()));
        let _ = write!(text, r#","nextCursor":"{cursor}""#);
    }
    if era == Era::Stateless {
        text.push_str(CACHE);
    }
    text.push('}');
    // Put together of JSON, it is JSON.
    Ok(RawValue::from_string(text).unwrap_or_else(|_| empty()).into())
}

/// How long a client may keep a list or a resource: what a caller may use can change any time, and
/// we tell of changes.
pub(super) const CACHE: &str = r#","ttlMs":0,"cacheScope":"private""#;

fn read_cursor(cursor: &str, kind: Kind, seal: &Seal) -> Option<usize> {
    let text = seal.open(PURPOSE, cursor)?;
    let (field, start) = text.split_once(':')?;
    (field == kind.field()).then(|| start.parse().ok())?
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::message::raw;

    #[test]
    fn every_entry_is_on_one_page_and_a_forged_cursor_on_none() {
        let seal = Seal::random();
        let entries: Vec<Arc<RawValue>> = (0..7).map(|number| raw(&number).into()).collect();
        let mut cursor: Option<String> = None;
        let mut seen = Vec::new();
        loop {
            let page = page(&entries, Kind::Prompts, cursor.as_deref(), 3, &seal, Era::Session).unwrap();
            let page: Value = serde_json::from_str(page.get()).unwrap();
            seen.extend(page["prompts"].as_array().unwrap().clone());
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
            assert!(super::page(&entries, Kind::Tools, cursor.as_deref(), 3, &seal, Era::Session).is_err());
        }
        assert_eq!(Value::from(seen), serde_json::json!([0, 1, 2, 3, 4, 5, 6]));
        assert!(page(&entries, Kind::Prompts, Some("3"), 3, &seal, Era::Session).is_err());
        let empty = page(&[], Kind::Tools, None, 3, &seal, Era::Stateless).unwrap();
        assert_eq!(empty.get(), r#"{"tools":[],"ttlMs":0,"cacheScope":"private"}"#);
    }
}
