//! Secrets by reference, each bound to the hosts that it may be sent to.
//!
//! A model that was talked into it can ask for any request. It can never ask for one that carries
//! a secret elsewhere: which host a secret belongs to is the operator's word alone, and a redirect
//! to another origin leaves all headers behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve::{ErrorCode, ToolError};
use helve_net::Url;
use secrecy::ExposeSecret;

use super::super::config::{SecretConfig, WebConfigError};
use crate::http::Variables;
use crate::http::secrets::Secrets;

const START: &str = "${secret:";

/// The secrets of the configuration. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::web) struct BoundSecrets(Arc<BTreeMap<String, Bound>>);

#[derive(Debug)]
struct Bound {
    variable: String,
    places: Vec<Place>,
}

/// Where a secret may go.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    scheme: &'static str,
    host: String,
    /// Every name below the host, and not the host itself.
    below: bool,
    port: u16,
}

impl BoundSecrets {
    pub(in crate::web) fn new(config: &BTreeMap<String, SecretConfig>) -> Result<Self, WebConfigError> {
        let bound = |(name, secret): (&String, &SecretConfig)| {
            let refuse = |message: String| WebConfigError::new(format!("secrets.{name}"), message);
            let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !plain {
                return Err(refuse("name it with letters, digits and `_` alone".to_owned()));
            }
            if secret.hosts.is_empty() {
                return Err(refuse("list the `hosts` that it may be sent to".to_owned()));
            }
            let places = secret.hosts.iter().map(|host| {
                Place::parse(host).ok_or_else(|| {
                    refuse(format!(
                        "`{host}` is not a host: write `api.example.com`, `*.example.com` or `host:8443`"
                    ))
                })
            });
            Ok((
                name.clone(),
                Bound { variable: secret.env.clone(), places: places.collect::<Result<_, _>>()? },
            ))
        };
        Ok(Self(Arc::new(config.iter().map(bound).collect::<Result<_, _>>()?)))
    }

    /// Whether there are none.
    pub(in crate::web) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with its secrets, which `secrets` then hides in what comes back; and whether there
    /// were any.
    pub(super) fn fill(
        &self,
        text: &str,
        url: &Url,
        variables: &Variables,
        secrets: &mut Secrets,
    ) -> Result<(String, bool), ToolError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(START) {
            let (name, after) = after.split_once('}').ok_or_else(|| {
                ToolError::new(
                    ErrorCode::ValidationFailed,
                    "`${secret:` is never closed; write `${secret:NAME}`",
                )
            })?;
            let value = variables.read(&self.bound(name, url)?.variable)?;
            secrets.hide(value.expose_secret());
            filled.push_str(before);
            filled.push_str(value.expose_secret());
            rest = after;
        }
        filled.push_str(rest);
        Ok((filled, rest.len() < text.len()))
    }

    /// The secret of this name, if it may go where `url` leads.
    fn bound(&self, name: &str, url: &Url) -> Result<&Bound, ToolError> {
        let Some(bound) = self.0.get(name) else {
            let known: Vec<_> = self.0.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name: String = name.chars().take(60).collect();
            let message = format!("there is no secret `{}`; there is: {known}", name.escape_debug());
            return Err(ToolError::new(ErrorCode::ValidationFailed, message)
                .suggest("tell the user to add it under `[web.secrets]` with `env` and `hosts`"));
        };
        if bound.places.iter().any(|place| place.holds(url)) {
            return Ok(bound);
        }
        let host = url.host_str().unwrap_or_default();
        let message = format!("the secret `{name}` may not be sent to `{}://{host}`", url.scheme());
        Err(ToolError::new(ErrorCode::PermissionDenied, message).suggest(format!(
            "only the operator can allow it, with `hosts` of `web.secrets.{name}`; do not try another way"
        )))
    }
}

/// Whether a text refers to a secret.
pub(super) fn mentions(text: &str) -> bool {
    text.contains(START)
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => ("http", rest),
            Some(("https", rest)) => ("https", rest),
            Some(_) => return None,
            None => ("https", text),
        };
        let (below, rest) = match rest.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        // The URL parser writes a host as it will be compared: lower case, punycode, plain address.
        let url = Url::parse(&format!("{scheme}://{rest}")).ok()?;
        let host = url.host_str()?;
        let bare = url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty();
        let wild = host.contains('*') || (below && !matches!(url.host(), Some(url::Host::Domain(_))));
        (bare && !wild && !rest.ends_with('/')).then(|| Self {
            scheme,
            host: host.trim_end_matches('.').to_owned(),
            below,
            port: url.port_or_known_default().unwrap_or_default(),
        })
    }

    fn holds(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        let same = match self.below {
            false => host == self.host,
            true => host.strip_suffix(&self.host).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        };
        same && url.scheme() == self.scheme && url.port_or_known_default() == Some(self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_scheme_a_host_and_a_port() {
        let holds = |place: &str, url: &str| Place::parse(place).unwrap().holds(&Url::parse(url).unwrap());
        for (place, url) in [
            ("api.example.com", "https://api.example.com/x?y"),
            ("API.example.com", "https://api.EXAMPLE.com."),
            ("api.example.com:8443", "https://api.example.com:8443/"),
            ("*.example.com", "https://a.b.example.com/"),
            ("http://localhost:8080", "http://localhost:8080/"),
            ("https://[::1]:8080", "https://[0:0::1]:8080/"),
        ] {
            assert!(holds(place, url), "{place} {url}");
        }
        for (place, url) in [
            ("api.example.com", "http://api.example.com/"),
            ("api.example.com", "https://api.example.com:8443/"),
            ("api.example.com", "https://api.example.com.evil.example/"),
            ("api.example.com", "https://evil.example/?api.example.com"),
            ("api.example.com", "https://api.example.com@evil.example/"),
            ("*.example.com", "https://example.com/"),
            ("*.example.com", "https://evilexample.com/"),
            ("*.example.com", "https://.example.com/"),
            ("http://localhost:8080", "https://localhost:8080/"),
            ("http://localhost:8080", "http://localhost/"),
        ] {
            assert!(
                !Url::parse(url).is_ok_and(|url| Place::parse(place).unwrap().holds(&url)),
                "{place} {url}"
            );
        }
        for bad in
            ["", "*", "a/b", "https://a/", "ftp://a", "u@a", "a?b", "a*b", "*.*.a", "*.10.0.0.1", "a b"]
        {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }
}
