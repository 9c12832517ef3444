//! One conversation with an authorization server.
//!
//! rmcp's `AuthorizationManager` finds the server and speaks to it. What it leaves to us: which
//! endpoints may be used, that PKCE is there, a registered client's secret (it forgets it), and its
//! log (it writes authorization codes to it), so it runs under a subscriber that drops everything.

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, ClientCredentialsConfig, CredentialStore,
    InMemoryCredentialStore, OAuthClientConfig, OAuthTokenResponse, StoredCredentials,
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tracing::instrument::WithSubscriber;
use url::Url;
use url::form_urlencoded::Serializer;

use super::assertion::assertion;
use super::callback::AuthorizationResponse;
use super::error::{OAuthError, foreign};
use super::http::Http;
use super::settings::{Proof, Signature};
use super::store::{Record, Tokens, now};

/// Time to find out everything, however many places there are to look at.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Nobody needs more; longer lists are a joke.
const SCOPES_MAX: usize = 64;
const SCOPE_BYTES_MAX: usize = 256;

/// Who we are to the authorization server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<SecretString>,
    pub(super) redirect_uri: String,
}

/// What the authorization server granted.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) tokens: Tokens,
    /// Where it said so.
    pub(super) scopes: Option<Vec<String>>,
}

/// How a refresh failed.
#[derive(Debug)]
pub(super) enum RefreshFailure {
    /// For good: a person has to log in.
    Refused(String),
    /// For now: a later try may succeed.
    Failed(String),
}

/// The authorization server of one server, found and checked.
pub(super) struct AuthServer {
    manager: AuthorizationManager,
    /// Where rmcp puts what was granted; it is empty before.
    granted: InMemoryCredentialStore,
    metadata: AuthorizationMetadata,
    http: Http,
}

impl AuthServer {
    /// Finds out who authorizes for `server`: from its challenge, else from the well-known places.
    pub(super) async fn discover(
        http: &Http,
        server: &Url,
        challenge: Option<&str>,
    ) -> Result<Self, OAuthError> {
        http.check("server", server)?;
        let http = &http.apart();
        let client = Arc::new(http.clone());
        let mut manager = AuthorizationManager::new_with_oauth_http_client(server.clone(), client)
            .await
            .map_err(|error| OAuthError::discovery(foreign(&error.to_string(), &[])))?;
        let found = quiet(manager.resolve_metadata_from_challenge(challenge));
        let found = tokio::time::timeout(DISCOVERY_TIMEOUT, found)
            .await
            .map_err(|_| OAuthError::discovery("it was not found in time"))?
            .map_err(|error| OAuthError::discovery(foreign(&error.to_string(), &[])))?;
        if !found.source.is_discovered() {
            return Err(OAuthError::discovery("it publishes nothing about its authorization server"));
        }
        let metadata = found.metadata;
        check_metadata(http, &metadata)?;
        let granted = InMemoryCredentialStore::new();
        manager.set_credential_store(granted.clone());
        manager.set_metadata(metadata.clone());
        Ok(Self { manager, granted, metadata, http: http.clone() })
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.metadata.issuer.as_deref()
    }

    /// Whether it reads documents about clients instead of registering them.
    pub(super) fn reads_client_documents(&self) -> bool {
        let field = self.metadata.additional_fields.get("client_id_metadata_document_supported");
        field.and_then(serde_json::Value::as_bool).unwrap_or(false)
    }

    /// What to ask for: `wanted`, or what the server says it needs; and leave to renew it where
    /// that is a scope.
    pub(super) async fn scopes(&self, wanted: &[String]) -> Result<Vec<String>, OAuthError> {
        let mut scopes = match wanted {
            [] => quiet(self.manager.select_initial_scopes(&[])).await,
            wanted => wanted.to_vec(),
        };
        let offline = "offline_access";
        let offered = self.metadata.scopes_supported.iter().flatten().any(|scope| scope == offline);
        if offered && !scopes.is_empty() && !scopes.iter().any(|scope| scope == offline) {
            scopes.push(offline.to_owned());
        }
        check_scopes(&scopes)?;
        Ok(scopes)
    }

    /// Becomes a client that it knows.
    pub(super) fn adopt(&mut self, client: &Client) -> Result<(), OAuthError> {
        let mut config = OAuthClientConfig::new(&client.id, &client.redirect_uri);
        if let Some(secret) = &client.secret {
            config = config.with_client_secret(secret.expose_secret());
        }
        let adopted = self.manager.configure_client(config);
        adopted.map_err(|error| OAuthError::discovery(foreign(&error.to_string(), &[])))
    }

    /// Becomes a client that it learns about now.
    pub(super) async fn register(
        &mut self,
        name: &str,
        redirect_uri: &Url,
        scopes: &[String],
    ) -> Result<Client, OAuthError> {
        if self.metadata.registration_endpoint.is_none() {
            let reason = "it lets no client register by itself".to_owned();
            return Err(OAuthError::Registration { reason });
        }
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered = quiet(self.manager.register_client(name, redirect_uri.as_str(), &scopes)).await;
        let registered =
            registered.map_err(|error| OAuthError::Registration { reason: self.told(&error, &[]) })?;
        Ok(Client {
            id: registered.client_id,
            secret: registered.client_secret.map(SecretString::from),
            redirect_uri: redirect_uri.as_str().to_owned(),
        })
    }

    /// Where a person agrees, and the state that the answer must have.
    pub(super) async fn authorization_url(&self, scopes: &[String]) -> Result<(Url, String), OAuthError> {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = quiet(self.manager.get_authorization_url(&scopes)).await;
        let url = url.map_err(|error| OAuthError::discovery(foreign(&error.to_string(), &[])))?;
        let url = Url::parse(&url).map_err(|error| OAuthError::discovery(error.to_string()))?;
        self.http.check("authorization endpoint", &url)?;
        let mut states = url.query_pairs().filter(|(name, _)| name == "state");
        // The endpoint's own query must not bring a second one along.
        match (states.next(), states.next()) {
            (Some((_, state)), None) => {
                let state = state.into_owned();
                Ok((url, state))
            }
            _ => Err(OAuthError::discovery("its authorization endpoint has a state of its own")),
        }
    }

    /// Turns the browser's answer into tokens.
    pub(super) async fn redeem(&self, answer: AuthorizationResponse) -> Result<Granted, OAuthError> {
        let AuthorizationResponse { state, issuer, code } = answer;
        let code = match code {
            Ok(code) => code,
            // Only the authorization server that was asked may say no.
            Err(_) if issuer.as_deref().is_some_and(|issuer| Some(issuer) != self.issuer()) => {
                return Err(OAuthError::login("the answer is from another authorization server"));
            }
            Err(error) => return Err(OAuthError::login(format!("the authorization server said `{error}`"))),
        };
        let exchanged =
            self.manager.exchange_code_for_token_with_issuer(code.expose_secret(), &state, issuer.as_deref());
        let exchanged = quiet(exchanged).await;
        exchanged.map_err(|error| match error {
            AuthError::AuthorizationServerMismatch { .. } => {
                OAuthError::login("the answer is from another authorization server")
            }
            AuthError::AuthorizationServerMissingIssuer { .. } => OAuthError::login(
                "the answer does not say which authorization server it is from, and it must",
            ),
            error => OAuthError::login(self.told(&error, &[&code])),
        })?;
        let stored = self.stored().await.map_err(OAuthError::login)?;
        Granted::from_response(stored.token_response.as_ref()).map_err(OAuthError::login)
    }

    /// Renews what `record` holds. [`Self::adopt`] comes before.
    pub(super) async fn refresh(
        &self,
        record: &Record,
        refresh: &SecretString,
    ) -> Result<Granted, RefreshFailure> {
        let before = json!({
            "access_token": "",
            "token_type": "bearer",
            "refresh_token": refresh.expose_secret(),
        });
        let before =
            serde_json::from_value(before).map_err(|error| RefreshFailure::Failed(error.to_string()))?;
        // Without scopes: rmcp would add some that were never granted, and that is refused.
        let before = StoredCredentials::new(record.client_id.clone(), Some(before), Vec::new(), None);
        let saved = self.granted.save(before).await;
        saved.map_err(|error| RefreshFailure::Failed(foreign(&error.to_string(), &[])))?;
        let mut secrets = vec![refresh];
        secrets.extend(&record.client_secret);
        quiet(self.manager.refresh_token()).await.map_err(|error| {
            let told = self.told(&error, &secrets);
            match error {
                AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired => {
                    RefreshFailure::Refused("the authorization server no longer renews the token".to_owned())
                }
                // A registration that was forgotten over there does not come back.
                _ if told.contains("invalid_client") || told.contains("unauthorized_client") => {
                    RefreshFailure::Refused("the authorization server no longer knows this client".to_owned())
                }
                _ => RefreshFailure::Failed(told),
            }
        })?;
        let stored = self.stored().await.map_err(RefreshFailure::Failed)?;
        Granted::from_response(stored.token_response.as_ref()).map_err(RefreshFailure::Failed)
    }

    /// A token for ourselves.
    pub(super) async fn machine_token(
        &mut self,
        client_id: &str,
        proof: &Proof,
        scopes: &[String],
    ) -> Result<Granted, OAuthError> {
        let resource = self.resource(client_id).await?;
        match proof {
            Proof::Secret(secret) => {
                let config = ClientCredentialsConfig::ClientSecret {
                    client_id: client_id.to_owned(),
                    client_secret: secret.expose_secret().to_owned(),
                    scopes: scopes.to_vec(),
                    resource: Some(resource),
                };
                let token = self.secret_token(config).await;
                token.map_err(|error| match self.http.failure() {
                    Some(failure) => OAuthError::Renewal { reason: foreign(&failure, &[secret]) },
                    None => OAuthError::Registration { reason: foreign(&error.to_string(), &[secret]) },
                })
            }
            Proof::Key { pem, signature } => {
                self.signed_token(client_id, pem, *signature, scopes, &resource).await
            }
        }
    }

    async fn secret_token(&mut self, config: ClientCredentialsConfig) -> Result<Granted, AuthError> {
        self.manager.validate_client_credentials_metadata(&config)?;
        self.manager.configure_client_credentials(&config)?;
        let response = quiet(self.manager.exchange_client_credentials(&config)).await?;
        Granted::from_response(Some(&response)).map_err(AuthError::ClientCredentialsError)
    }

    async fn signed_token(
        &self,
        client_id: &str,
        pem: &SecretString,
        signature: Signature,
        scopes: &[String],
        resource: &str,
    ) -> Result<Granted, OAuthError> {
        let refuse = |reason: String| OAuthError::Registration { reason };
        let audience = self.issuer().ok_or_else(|| refuse("it does not say who it is".to_owned()))?;
        let assertion = assertion(client_id, audience, pem, signature)?;
        let form = assertion_form(&assertion, scopes, resource);
        let endpoint =
            Url::parse(&self.metadata.token_endpoint).map_err(|error| refuse(error.to_string()))?;
        let answer = self.http.post_form(&endpoint, form).await;
        let answer = answer.map_err(|error| OAuthError::Renewal { reason: error.to_string() })?;
        if !answer.status().is_success() {
            let said: ErrorBody = serde_json::from_slice(answer.body()).unwrap_or_default();
            let said = format!("{} {} {}", answer.status().as_u16(), said.error, said.error_description);
            return Err(refuse(foreign(&said, &[&assertion])));
        }
        let response: OAuthTokenResponse = serde_json::from_slice(answer.body())
            .map_err(|_| refuse("its answer is not a token".to_owned()))?;
        Granted::from_response(Some(&response)).map_err(refuse)
    }

    /// What the token is for. rmcp keeps it to itself but for the URL that it makes of it.
    async fn resource(&mut self, client_id: &str) -> Result<String, OAuthError> {
        let redirect_uri = "http://127.0.0.1/callback".to_owned();
        self.adopt(&Client { id: client_id.to_owned(), secret: None, redirect_uri })?;
        let (url, _) = self.authorization_url(&[]).await?;
        let resource =
            url.query_pairs().find(|(name, _)| name == "resource").map(|(_, value)| value.into_owned());
        resource.ok_or_else(|| OAuthError::discovery("it names no resource"))
    }

    /// What to say of an error: where no answer came, why.
    fn told(&self, error: &AuthError, secrets: &[&SecretString]) -> String {
        foreign(&self.http.failure().unwrap_or_else(|| error.to_string()), secrets)
    }

    async fn stored(&self) -> Result<StoredCredentials, String> {
        let stored = self.granted.load().await.map_err(|error| foreign(&error.to_string(), &[]))?;
        stored.ok_or_else(|| "nothing was granted".to_owned())
    }
}

fn assertion_form(assertion: &SecretString, scopes: &[String], resource: &str) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials")
        .append_pair("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        .append_pair("client_assertion", assertion.expose_secret())
        .append_pair("resource", resource);
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.join(" "));
    }
    form.finish()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: String,
    error_description: String,
}

/// The parts of a token response that count. rmcp's type shows them only through another crate's
/// trait, and as JSON.
#[derive(Deserialize)]
struct Response {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

impl Granted {
    fn from_response(response: Option<&OAuthTokenResponse>) -> Result<Self, String> {
        let unusable = || "the authorization server's answer is not a token".to_owned();
        let response = serde_json::to_value(response).map_err(|_| unusable())?;
        let response: Response = serde_json::from_value(response).map_err(|_| unusable())?;
        if !response.token_type.eq_ignore_ascii_case("bearer") {
            return Err(format!(
                "tokens of the kind `{}` are not supported",
                foreign(&response.token_type, &[])
            ));
        }
        // A token goes into a header, where nothing else has a place.
        let access = SecretString::from(response.access_token);
        let shown = access.expose_secret();
        if shown.is_empty() || !shown.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(unusable());
        }
        let received_at = now();
        Ok(Self {
            tokens: Tokens {
                access,
                refresh: response.refresh_token.filter(|token| !token.is_empty()).map(SecretString::from),
                received_at,
                expires_at: response.expires_in.map(|seconds| received_at.saturating_add(seconds)),
            },
            scopes: response.scope.map(|scope| scope.split_whitespace().map(str::to_owned).collect()),
        })
    }
}

/// What an authorization server must be before anything is sent to it.
fn check_metadata(http: &Http, metadata: &AuthorizationMetadata) -> Result<(), OAuthError> {
    let endpoints = [
        ("authorization endpoint", Some(&metadata.authorization_endpoint)),
        ("token endpoint", Some(&metadata.token_endpoint)),
        ("registration endpoint", metadata.registration_endpoint.as_ref()),
    ];
    for (what, endpoint) in endpoints {
        let Some(endpoint) = endpoint else { continue };
        let url =
            Url::parse(endpoint).map_err(|_| OAuthError::discovery(format!("its {what} is not a URL")))?;
        http.check(what, &url)?;
    }
    // Absent means without, says the MCP specification.
    let methods = metadata.code_challenge_methods_supported.iter().flatten();
    if !methods.into_iter().any(|method| method == "S256") {
        return Err(OAuthError::discovery("its authorization server does not offer PKCE with S256"));
    }
    Ok(())
}

/// Scopes are words of RFC 6749, and few.
pub(super) fn check_scopes(scopes: &[String]) -> Result<(), OAuthError> {
    let word = |scope: &String| {
        let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        !scope.is_empty() && scope.len() <= SCOPE_BYTES_MAX && scope.bytes().all(fits)
    };
    if scopes.len() > SCOPES_MAX || !scopes.iter().all(word) {
        return Err(OAuthError::discovery(format!(
            "it wants scopes that are not: at most {SCOPES_MAX} words of {SCOPE_BYTES_MAX} letters are"
        )));
    }
    Ok(())
}

/// Runs a piece of rmcp without its log, which would hold codes and tokens.
async fn quiet<T>(work: impl Future<Output = T>) -> T {
    Box::pin(work.with_subscriber(tracing::Dispatch::none())).await
}
