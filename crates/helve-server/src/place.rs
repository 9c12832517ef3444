//! The place of a sign-in: `/~SECRET`, the first part of every path on which its cookie counts.
//!
//! Browsers send a cookie to every port of its host, so each local server would get one for `/`. This
//! cookie is for its place alone, which no other server knows: a browser sends it nowhere else, and
//! the cookie is worth nothing without the place.
//!
//! INVARIANT: the place is taken out of the address before anything else sees the request, so it
//! stands in no log, event, record or error text.

use std::fmt;

use axum::http::{Request, Uri};

use crate::login::SECRET_BYTES;

/// Where the secret begins.
const MARK: &str = "/~";
const SECRET_CHARS: usize = SECRET_BYTES * 2;

/// The place of a sign-in, or none for who came in otherwise. As text it goes before a path of ours.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Place(String);

impl Place {
    /// The place with this secret.
    pub(crate) fn new(secret: &str) -> Self {
        Self(format!("{MARK}{secret}"))
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Without the secret.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "Place(none)" } else { "Place(..)" })
    }
}

/// Moves the place of a request out of its address, to where the guard looks for it.
pub(crate) fn take_out<B>(request: &mut Request<B>) {
    let Some((place, uri)) = split(request.uri()) else { return };
    *request.uri_mut() = uri;
    request.extensions_mut().insert(place);
}

fn split(uri: &Uri) -> Option<(Place, Uri)> {
    let (secret, rest) = uri.path().strip_prefix(MARK)?.split_at_checked(SECRET_CHARS)?;
    let is_secret = secret.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_secret || !(rest.is_empty() || rest.starts_with('/')) {
        return None;
    }
    let path = if rest.is_empty() { "/" } else { rest };
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.try_into().ok()?);
    Some((Place::new(secret), Uri::from_parts(parts).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_out_of_the_address() {
        let secret = "0a".repeat(SECRET_BYTES);
        for (rest, left) in [
            ("", "/"),
            ("/", "/"),
            ("/?q=a", "/?q=a"),
            ("/v1/me", "/v1/me"),
            ("/approvals/x?before=~", "/approvals/x?before=~"),
            // Once: what follows is a path like any other.
            ("/~0a/v1/me", "/~0a/v1/me"),
        ] {
            let mut request = Request::get(format!("/~{secret}{rest}")).body(()).unwrap();
            take_out(&mut request);
            assert_eq!(request.uri(), left);
            assert_eq!(request.extensions().get(), Some(&Place::new(&secret)));
        }
        assert!(!format!("{:?}", Place::new(&secret)).contains(&secret));
    }

    #[test]
    fn what_is_no_place_stays_in_the_address() {
        let secret = "0a".repeat(SECRET_BYTES);
        for path in [
            "/".to_owned(),
            "/~".to_owned(),
            format!("/{secret}/"),
            format!("/~{}/", &secret[1..]),
            format!("/~{secret}0/"),
            format!("/~{}/", secret.to_uppercase()),
            format!("/%7E{secret}/"),
            format!("//~{secret}/"),
        ] {
            let mut request = Request::get(&path).body(()).unwrap();
            take_out(&mut request);
            assert_eq!(request.uri(), path.as_str());
            assert!(request.extensions().get::<Place>().is_none(), "{path}");
        }
    }
}
