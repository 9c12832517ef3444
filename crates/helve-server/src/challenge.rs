//! What a client that is not let in is told, so that their client can sign in at the issuer.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

use helve::ToolName;

use crate::guard::{Guard, Refusal, plain};
use crate::jwt::Lacking;
use crate::visitor::Pass;

impl Guard {
    /// What everybody may know of how to sign in, where there is an issuer to sign in at.
    pub(crate) fn metadata_for(&self, method: &Method, path: &str) -> Option<&str> {
        let is_reading = matches!(*method, Method::GET | Method::HEAD);
        self.issuer.as_ref().filter(|_| is_reading)?.metadata_at(path)
    }

    /// What `WWW-Authenticate` says to a client that is refused so.
    pub(crate) fn challenge(&self, refusal: Refusal, headers: &HeaderMap) -> Option<HeaderValue> {
        let lacking = match refusal {
            Refusal::Token if headers.contains_key(header::AUTHORIZATION) => Lacking::GoodToken,
            Refusal::Token => Lacking::Token,
            Refusal::Scope => Lacking::Scope(&[]),
            Refusal::Host | Refusal::Origin | Refusal::Forged | Refusal::Purpose | Refusal::Unknown => {
                return None;
            }
        };
        let told = self.issuer.as_ref().and_then(|issuer| issuer.challenge(lacking));
        told.or(Some(HeaderValue::from_static("Bearer realm=\"helve\"")))
    }

    /// Whether what this caller may call is a question of scopes.
    pub(crate) fn asks_for_scopes(&self, parts: &Parts) -> bool {
        matches!(parts.extensions.get(), Some(Pass::Token { scopes, .. }) if !scopes.is_empty())
    }

    /// The answer to a call of a tool that another scope of the caller's issuer would let them use, which
    /// says which. `names` are the tool's, or those that it could have. None: whatever stands against it is
    /// found out by calling it.
    pub(crate) fn lacks_scope(&self, parts: &Parts, names: &[ToolName]) -> Option<Response<Body>> {
        let issuer = self.issuer.as_ref()?;
        let Pass::Token { scopes, .. } = parts.extensions.get()? else { return None };
        let needed = issuer.needed(scopes, names)?;
        let mut response = plain(StatusCode::FORBIDDEN, "your token has no scope for this tool");
        let challenge = issuer.challenge(Lacking::Scope(&needed));
        response.headers_mut().extend(challenge.map(|challenge| (header::WWW_AUTHENTICATE, challenge)));
        Some(response)
    }
}
