//! Helve as a protected resource of OAuth: what clients are told so that they can sign in at the issuer
//! (RFC 9728, and the authorization part of the MCP specification).

use axum::http::HeaderValue;
use helve_net::Url;
use serde_json::json;

use super::{JwtConfig, JwtError};

/// Where metadata stands, for the whole host; the path of the resource follows for one of several.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// Where MCP is served.
const MCP: &str = "/mcp";

/// This server, as clients and the issuer know it.
pub(super) struct Resource {
    /// Where its metadata is.
    metadata_url: String,
    /// The path of the resource.
    path: String,
    metadata: String,
    /// What clients ask for at first.
    first_scopes: Vec<String>,
}

/// Why a request is not let in, as the challenge says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacking<'a> {
    /// Nothing was shown.
    Token,
    /// What was shown is not good.
    GoodToken,
    /// The token is good, and is not for this.
    Scope(&'a [&'a str]),
}

impl Resource {
    /// The resource with this address.
    pub(super) fn new(config: &JwtConfig, url: &Url) -> Self {
        let path = url.path().trim_end_matches('/').to_owned();
        let mut metadata_url = url.clone();
        metadata_url.set_path(&format!("{WELL_KNOWN}{path}"));
        let scopes: Vec<_> = config.scopes.keys().collect();
        let mut metadata = json!({
            "resource": identifier(url), "authorization_servers": [config.issuer],
            "bearer_methods_supported": ["header"], "resource_name": "Helve",
        });
        if !scopes.is_empty() {
            metadata["scopes_supported"] = json!(scopes);
        }
        let first_scopes = match config.first_scopes.is_empty() {
            true => scopes.into_iter().cloned().collect(),
            false => config.first_scopes.clone(),
        };
        let metadata = metadata.to_string();
        Self { metadata_url: metadata_url.into(), path, metadata, first_scopes }
    }

    /// The address that the configuration gives it.
    pub(super) fn configured(config: &JwtConfig) -> Result<Option<Url>, JwtError> {
        let Some(text) = &config.resource else { return Ok(None) };
        let url = super::address(text).filter(|url| {
            let is_bare = url.query().is_none() && url.fragment().is_none();
            is_bare && url.username().is_empty() && url.password().is_none()
        });
        url.map(Some).ok_or(JwtError::Address("resource"))
    }

    /// The metadata, if this is where it stands.
    pub(super) fn metadata_at(&self, path: &str) -> Option<&str> {
        let of = path.strip_prefix(WELL_KNOWN)?;
        // `/mcp` also behind a proxy that takes a part of the path away.
        [self.path.as_str(), "", MCP].contains(&of).then_some(&self.metadata)
    }

    /// What `WWW-Authenticate` says.
    pub(super) fn challenge(&self, lacking: Lacking<'_>) -> Option<HeaderValue> {
        let mut text = "Bearer realm=\"helve\"".to_owned();
        let first = || self.first_scopes.iter().map(String::as_str).collect();
        let scopes: Vec<&str> = match lacking {
            Lacking::Token => first(),
            Lacking::GoodToken => {
                text.push_str(", error=\"invalid_token\"");
                first()
            }
            Lacking::Scope(needed) => {
                text.push_str(", error=\"insufficient_scope\"");
                if needed.is_empty() { first() } else { needed.to_vec() }
            }
        };
        if !scopes.is_empty() {
            text.push_str(&format!(", scope=\"{}\"", scopes.join(" ")));
        }
        text.push_str(&format!(", resource_metadata=\"{}\"", self.metadata_url));
        HeaderValue::try_from(text).ok()
    }
}

/// An address as a resource is named by it: without a slash at its end.
pub(super) fn identifier(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::super::Scope;
    use super::*;

    fn resource(url: &str, scopes: &[&str]) -> Resource {
        let scopes = scopes.iter().map(|name| ((*name).to_owned(), Scope::default())).collect();
        let config = JwtConfig { issuer: "https://login.example.com".into(), scopes, ..JwtConfig::default() };
        Resource::new(&config, &Url::parse(url).unwrap())
    }

    #[test]
    fn clients_are_told_where_to_sign_in_and_for_what() {
        let helve = resource("https://helve.example.com/mcp", &["calls", "reads"]);
        assert_eq!(
            helve.metadata_at("/.well-known/oauth-protected-resource/mcp").unwrap(),
            r#"{"resource":"https://helve.example.com/mcp","authorization_servers":["https://login.example.com"],"bearer_methods_supported":["header"],"resource_name":"Helve","scopes_supported":["calls","reads"]}"#
        );
        let challenge = |lacking| helve.challenge(lacking).unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            challenge(Lacking::Token),
            r#"Bearer realm="helve", scope="calls reads", resource_metadata="https://helve.example.com/.well-known/oauth-protected-resource/mcp""#
        );
        assert_eq!(
            challenge(Lacking::GoodToken),
            r#"Bearer realm="helve", error="invalid_token", scope="calls reads", resource_metadata="https://helve.example.com/.well-known/oauth-protected-resource/mcp""#
        );
        assert_eq!(
            challenge(Lacking::Scope(&["calls"])),
            r#"Bearer realm="helve", error="insufficient_scope", scope="calls", resource_metadata="https://helve.example.com/.well-known/oauth-protected-resource/mcp""#
        );
    }

    #[test]
    fn metadata_stands_at_its_own_addresses_only() {
        let helve = resource("https://example.com/tools/mcp/", &[]);
        assert!(
            helve.metadata.contains(r#""resource":"https://example.com/tools/mcp""#),
            "{}",
            helve.metadata
        );
        assert!(!helve.metadata.contains("scopes_supported"));
        for path in ["", "/mcp", "/tools/mcp"] {
            assert!(helve.metadata_at(&format!("{WELL_KNOWN}{path}")).is_some(), "{path}");
        }
        for path in [
            "/.well-known/oauth-protected-resource/",
            "/.well-known/oauth-protected-resource/v1",
            "/.well-known/oauth-protected-resource-2",
            "/mcp",
            "/",
            "/.well-known/oauth-authorization-server",
        ] {
            assert!(helve.metadata_at(path).is_none(), "{path}");
        }
    }
}
