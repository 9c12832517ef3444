//! What a JMAP server says of itself.

use std::collections::HashMap;

use helve_net::{Method, Url, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::account::Fault;
use crate::web::{Ask, Intent, Server, explain, header_text};

pub(super) const CORE: &str = "urn:ietf:params:jmap:core";
pub(super) const MAIL: &str = "urn:ietf:params:jmap:mail";
pub(super) const SUBMISSION: &str = "urn:ietf:params:jmap:submission";

const REDIRECTS_MAX: usize = 5;

/// The session object, as far as we need it (RFC 8620 2).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    api_url: String,
    download_url: String,
    upload_url: String,
    capabilities: HashMap<String, serde_json::Value>,
    primary_accounts: HashMap<String, String>,
}

/// What the server allows in one request. It may allow anything; our own bounds come on top.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Limits {
    pub(super) max_size_upload: u64,
    pub(super) max_concurrent_requests: usize,
    pub(super) max_objects_in_get: usize,
}

/// The least that RFC 8620 suggests.
impl Default for Limits {
    fn default() -> Self {
        Self { max_size_upload: 50_000_000, max_concurrent_requests: 4, max_objects_in_get: 500 }
    }
}

/// A server that was asked, and where its parts are.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) api: Url,
    pub(super) account: String,
    pub(super) limits: Limits,
    pub(super) submits: bool,
    /// Where the session was found: other addresses may be relative to it.
    base: Url,
    download: String,
    upload: String,
}

impl Session {
    /// Asks the server. An address without a path means the usual place.
    pub(super) async fn open(server: &Server) -> Result<Self, Fault> {
        let mut at = server.home().clone();
        if at.path() == "/" {
            at.set_path("/.well-known/jmap");
        }
        for _ in 0..=REDIRECTS_MAX {
            let response = server.send(Ask::reads(Method::GET, at.clone())).await?;
            let location = header_text(&response.headers, header::LOCATION);
            match (response.status.as_u16(), location) {
                (200, _) => return Self::read(server, at, &response.body),
                (301 | 302 | 303 | 307 | 308, Some(location)) => at = server.own(&at, location)?,
                _ => return Err(explain(Intent::Read, server.host(), response.status, None)),
            }
        }
        Err(Fault::Nonsense(format!("`{}` sends from one place to another without an end", server.host())))
    }

    fn read(server: &Server, base: Url, body: &[u8]) -> Result<Self, Fault> {
        let nonsense = |why: &str| Fault::Nonsense(format!("`{}` {why}", server.host()));
        let wire: Wire = serde_json::from_slice(body)
            .map_err(|_| nonsense("answers with something that is no JMAP session"))?;
        let account = wire.primary_accounts.get(MAIL).filter(|id| is_id(id));
        let account = account.ok_or_else(|| nonsense("has no mail for this login by JMAP"))?.clone();
        let limits = wire.capabilities.get(CORE).cloned().unwrap_or_default();
        Ok(Self {
            api: server.own(&base, &wire.api_url)?,
            account,
            // A limit of nothing would be no service; what cannot be read is as if it were not there.
            limits: serde_json::from_value(limits).unwrap_or_default(),
            submits: wire.capabilities.contains_key(SUBMISSION),
            download: wire.download_url,
            upload: wire.upload_url,
            base,
        })
    }

    /// Where a blob is.
    pub(super) fn download(&self, server: &Server, blob: &str) -> Result<Url, Fault> {
        let values = [
            ("{accountId}", self.account.as_str()),
            ("{blobId}", blob),
            ("{name}", "message.eml"),
            ("{type}", "message/rfc822"),
        ];
        server.own(&self.base, &expanded(&self.download, &values))
    }

    /// Where blobs go.
    pub(super) fn upload(&self, server: &Server) -> Result<Url, Fault> {
        server.own(&self.base, &expanded(&self.upload, &[("{accountId}", self.account.as_str())]))
    }
}

fn expanded(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (name, value)| {
        text.replace(name, &utf8_percent_encode(value, NON_ALPHANUMERIC).to_string())
    })
}

/// Whether it is an id (RFC 8620 1.2), which fits into a path and a pointer as it is.
pub(super) fn is_id(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}
