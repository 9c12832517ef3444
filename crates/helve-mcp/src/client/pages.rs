//! Lists that come in pages, read to their end and within bounds.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::value::RawValue;

use super::connection::{Ask, Connection};
use super::link::LinkError;
use crate::at_most::{First, at_most};
use crate::message::{Fields, Raw, RpcError, in_words, raw};

/// How much of a list is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) items: usize,
    pub(crate) pages: usize,
    pub(crate) bytes: usize,
    pub(crate) timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { items: 10_000, pages: 1_000, bytes: 32 << 20, timeout: Duration::from_secs(30) }
    }
}

/// A list, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) items: Vec<Raw>,
    /// Why it was not read to its end, where it was not.
    pub(crate) cut: Option<String>,
}

/// Reads a whole list: `tools/list` has `tools`, and so on. One that the server does not have is
/// empty.
pub(crate) async fn all(
    connection: &Connection,
    method: &'static str,
    key: &str,
    bounds: Bounds,
) -> Result<Listed, LinkError> {
    let reading = Box::pin(pages(connection, method, key, bounds));
    tokio::time::timeout(bounds.timeout, reading)
        .await
        .unwrap_or(Err(LinkError::timed_out(bounds.timeout)))
        .map_err(|error| error.asking(method))
}

async fn pages(
    connection: &Connection,
    method: &'static str,
    key: &str,
    bounds: Bounds,
) -> Result<Listed, LinkError> {
    let mut listed = Listed::default();
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let mut cursor: Option<Raw> = None;
    for _ in 0..bounds.pages {
        let mut params = Fields::default();
        if let Some(cursor) = cursor.take() {
            params.set("cursor", cursor);
        }
        let answer = connection.ask(Ask::new(method, params).within(bounds.timeout)).await?;
        let page = match answer {
            Ok(page) => page,
            Err(error) if error.code == RpcError::METHOD_NOT_FOUND && seen.is_empty() => return Ok(listed),
            Err(error) => return Err(LinkError::Protocol(format!("`{method}` failed: {error}"))),
        };
        bytes += page.get().len();
        let room = bounds.items - listed.items.len();
        let Page { items, has_more, next, remark } = read_page(&page, key, method, room)?;
        if has_more || bytes > bounds.bytes {
            listed.items.extend(items);
            let Bounds { items, bytes, .. } = bounds;
            listed.cut = Some(format!("it lists more than {items} {key} or {bytes} bytes of them"));
            return Ok(listed);
        }
        listed.items.extend(items);
        let Some(next) = next else {
            listed.cut = remark;
            return Ok(listed);
        };
        if !seen.insert(next.get().to_owned()) {
            listed.cut = Some(format!("its pages of {key} go round in a circle"));
            return Ok(listed);
        }
        cursor = Some(next);
    }
    listed.cut = Some(format!("its {key} come in more than {} pages", bounds.pages));
    Ok(listed)
}

struct Page {
    items: Vec<Raw>,
    /// Whether there were more items than there was room for.
    has_more: bool,
    next: Option<Raw>,
    /// Why there may be more pages that cannot be asked for.
    remark: Option<String>,
}

/// Reads a page, of which at most `room` items are kept.
fn read_page(page: &RawValue, key: &str, method: &str, room: usize) -> Result<Page, LinkError> {
    let unfit = |why: &str| LinkError::Protocol(format!("its answer to `{method}` cannot be read: {why}"));
    let broken = |error: serde_json::Error| unfit(&in_words(&error));
    let fields: Fields = serde_json::from_str(page.get()).map_err(broken)?;
    let items = fields.get(key).ok_or_else(|| unfit(&format!("there is no `{key}`")))?;
    let First { items, has_more } = at_most(items.get(), room).map_err(broken)?;
    let next = fields.text("nextCursor").map(|cursor| raw(&cursor));
    let is_unfit = next.is_none() && fields.get("nextCursor").is_some_and(|cursor| cursor.get() != "null");
    let remark = is_unfit.then(|| format!("its list of {key} ends early: the `nextCursor` is no string"));
    Ok(Page { items, has_more, next, remark })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_page_no_more_is_kept_than_there_is_room_for() {
        let page = raw(&json!({ "tools": vec![json!({}); 5], "nextCursor": "on" }));
        let read = |room| read_page(&page, "tools", "tools/list", room).unwrap();
        assert_eq!((read(3).items.len(), read(3).has_more), (3, true));
        assert_eq!((read(5).items.len(), read(5).has_more), (5, false));
        let unfit = read_page(&raw(&json!({ "tools": 7 })), "tools", "tools/list", 1).err().unwrap();
        assert!(unfit.to_string().contains("expected a list"), "{unfit}");
    }
}
