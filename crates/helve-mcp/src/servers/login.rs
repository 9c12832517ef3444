//! Who we are to servers that want OAuth.

use std::sync::Arc;

use helve::BoxFuture;
use secrecy::SecretString;
use url::Url;

use super::Surroundings;
use super::connect::Who;
use crate::client::http::Authorizer;
use crate::client::link::LinkError;
use crate::config::{SecretError, ServerConfig};
use crate::oauth::{Identity, Next, OAuthError, Session, Settings};

/// The login that all share at a server, if it can have one: at an address, over HTTP.
pub async fn shared_login(
    config: &ServerConfig,
    surroundings: &Surroundings,
) -> Result<Option<Session>, LinkError> {
    let Some(url) = config.url.as_deref() else { return Ok(None) };
    let url = surroundings.secrets.fill_url(url).map_err(|error| LinkError::unsent(error.to_string()))?;
    session(&url, Who::Helve, config, surroundings).await
}

/// The login of one caller at a server where each has their own (`credentials = "caller"`).
pub async fn caller_login(
    config: &ServerConfig,
    surroundings: &Surroundings,
    principal: &str,
) -> Result<Option<Session>, LinkError> {
    let Some(url) = config.url.as_deref() else { return Ok(None) };
    let url = surroundings.secrets.fill_url(url).map_err(|error| LinkError::unsent(error.to_string()))?;
    session(&url, Who::Caller(principal), config, surroundings).await
}

/// The login to a server: a session that its requests take their tokens from.
pub(crate) async fn session(
    url: &Url,
    who: Who<'_>,
    config: &ServerConfig,
    surroundings: &Surroundings,
) -> Result<Option<Session>, LinkError> {
    let Some(store) = surroundings.tokens.clone() else { return Ok(None) };
    // Tokens are shown over TLS alone, and to this machine.
    if !matches!(url.scheme(), "https" | "http") {
        return Ok(None);
    }
    let mut settings = Settings::new(url.clone(), who.account());
    if let Some(oauth) = &config.oauth {
        settings.scopes.clone_from(&oauth.scopes);
        if let Some(document) = &oauth.client_metadata_url {
            let unfit = |_| LinkError::unsent("`oauth.client_metadata_url` is no address");
            let metadata_url = Some(document.parse().map_err(unfit)?);
            settings.identity = Identity::Introduced { metadata_url };
        }
        if let Some(client_id) = &oauth.client_id {
            let unresolved = |error: SecretError| LinkError::unsent(error.to_string());
            let client_secret = match &oauth.client_secret {
                Some(secret) => Some(surroundings.secrets.resolve(secret).await.map_err(unresolved)?),
                None => None,
            };
            settings.identity =
                Identity::Registered { client_id: client_id.clone(), client_secret, issuer: None };
        }
    }
    match Session::new(settings, surroundings.net.clone(), store) {
        Ok(session) => Ok(Some(session)),
        // A plain address on another machine: it can be used, but nobody logs in to it.
        Err(OAuthError::Insecure { .. }) => Ok(None),
        Err(error) => Err(LinkError::unsent(error.to_string())),
    }
}

/// Refuses a caller who has no credentials of their own: what would be sent without a name could be
/// answered in another's.
pub(super) async fn check_credentials(
    who: Who<'_>,
    config: &ServerConfig,
    surroundings: &Surroundings,
) -> Result<(), LinkError> {
    let Who::Caller(principal) = who else { return Ok(()) };
    if config.callers.contains_key(principal) {
        return Ok(());
    }
    let Some(session) = caller_login(config, surroundings, principal).await? else {
        return Err(who.without_credentials());
    };
    match Session::bearer(&session).await {
        Ok(Some(_)) => Ok(()),
        Ok(None) | Err(OAuthError::LoginNeeded { .. }) => Err(who.without_credentials()),
        Err(error) => Err(LinkError::unsent(error.to_string())),
    }
}

/// What a connection takes its tokens from.
pub(super) async fn authorizer(
    url: &Url,
    who: Who<'_>,
    config: &ServerConfig,
    surroundings: &Surroundings,
) -> Result<Option<Arc<dyn Authorizer>>, LinkError> {
    let session = session(url, who, config, surroundings).await?;
    Ok(session.map(|session| Arc::new(session) as Arc<dyn Authorizer>))
}

impl Authorizer for Session {
    fn bearer(&self) -> BoxFuture<'_, Result<Option<SecretString>, LinkError>> {
        Box::pin(async move {
            match Session::bearer(self).await {
                Ok(token) => Ok(token),
                // Without a token the server says itself that it wants one.
                Err(OAuthError::LoginNeeded { .. }) => Ok(None),
                Err(error) => Err(LinkError::unsent(error.to_string())),
            }
        })
    }

    fn challenged(&self, challenge: String, used: Option<SecretString>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            match Session::challenged(self, &challenge, used.as_ref()).await {
                Ok(Next::Retry) => true,
                Ok(_) => false,
                Err(error) => {
                    tracing::warn!(%error, "authorization could not be renewed");
                    false
                }
            }
        })
    }
}
