//! Lists that come in pages, read to their end and within bounds.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::value::RawValue;

use super::connection::{Ask, Connection};
use super::link::LinkError;
use crate::message::{Fields, Raw, RpcError, raw};

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
        .unwrap_or(Err(LinkError::TimedOut { after: bounds.timeout }))
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
        let Page { items, next, remark } = read_page(&page, key, method)?;
        let room = bounds.items - listed.items.len();
        if items.len() > room || bytes > bounds.bytes {
            listed.items.extend(items.into_iter().take(room));
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
    next: Option<Raw>,
    /// Why there may be more pages that cannot be asked for.
    remark: Option<String>,
}

fn read_page(page: &RawValue, key: &str, method: &str) -> Result<Page, LinkError> {
    let unfit =
        |error: String| LinkError::Protocol(format!("its answer to `{method}` cannot be read: {error}"));
    let fields: Fields = serde_json::from_str(page.get()).map_err(|error| unfit(error.to_string()))?;
    let items = fields.get(key).ok_or_else(|| unfit(format!("there is no `{key}`")))?;
    let items = serde_json::from_str(items.get()).map_err(|error| unfit(error.to_string()))?;
    let next = fields.text("nextCursor").map(|cursor| raw(&cursor));
    let is_unfit = next.is_none() && fields.get("nextCursor").is_some_and(|cursor| cursor.get() != "null");
    let remark = is_unfit.then(|| format!("its list of {key} ends early: the `nextCursor` is no string"));
    Ok(Page { items, next, remark })
}
