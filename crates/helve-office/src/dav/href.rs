//! Places on a DAV server.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use helve_net::Url;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::account::Fault;
use crate::web::Server;

/// What needs no percent sign in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path on the account's own server. Two spellings of one path are equal: servers write `@` and `%40` for the
/// same place, sometimes in one answer.
#[derive(Debug, Clone)]
pub(crate) struct Href {
    /// As the server writes it.
    path: Box<str>,
    /// As we compare it.
    key: Box<str>,
}

impl Href {
    /// The path of a URL.
    pub(crate) fn of(url: &Url) -> Self {
        let encode =
            |part: &str| percent_encode(&percent_decode_str(part).collect::<Vec<u8>>(), ENCODED).to_string();
        let key: Vec<String> = url.path().split('/').map(encode).collect();
        Self { path: url.path().into(), key: key.join("/").into() }
    }

    /// A place that a server, or a state that was kept, names. It is on the server, or refused.
    pub(crate) fn read(server: &Server, base: &Self, text: &str) -> Result<Self, Fault> {
        let url = server.own(&base.url(server), text)?;
        match url.query() {
            None => Ok(Self::of(&url)),
            Some(_) => Err(Fault::Nonsense(format!("`{}` names a place with a query", server.host()))),
        }
    }

    /// A place by its path, as it was kept.
    pub(crate) fn kept(server: &Server, text: &str) -> Result<Self, Fault> {
        match text.starts_with('/') && !text.starts_with("//") {
            true => Self::read(server, &Self::of(server.home()), text),
            false => Err(Fault::Refused("that is no place on a calendar or contacts server".to_owned())),
        }
    }

    pub(crate) fn url(&self, server: &Server) -> Url {
        let mut url = server.home().clone();
        url.set_path(&self.path);
        url
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.path
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Whether it lies directly or deeper in a collection.
    pub(crate) fn is_below(&self, collection: &Self) -> bool {
        let folder = collection.key.strip_suffix('/').unwrap_or(&collection.key);
        let rest = self.key.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| !rest.is_empty())
    }

    /// Whether it is that collection, with or without a slash at its end.
    pub(crate) fn is_same_collection(&self, other: &Self) -> bool {
        let bare = |href: &Self| href.key.strip_suffix('/').unwrap_or(&href.key).to_owned();
        bare(self) == bare(other)
    }
}

impl PartialEq for Href {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Href {}

impl PartialOrd for Href {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Href {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl Hash for Href {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}
