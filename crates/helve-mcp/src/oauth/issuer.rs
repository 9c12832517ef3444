//! A login at an issuer that a person names: authorization code with PKCE, and tokens that are renewed.
//!
//! MCP servers say by themselves who authorizes for them ([`super::Session`]). Mail servers do not, and their issuers
//! know nothing of MCP's rules: some take no `resource`, and some do not say that they have PKCE although they do.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use helve_net::{Client, Method, Request};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::Serializer;

use super::callback::{AuthorizationResponse, Callback, Ended};
use super::error::{OAuthError, foreign};
use super::flow::check_scopes;
use super::http::Http;
use super::settings::{LoggedIn, LoginOptions};
use super::store::{Account, Record, TokenStore, Tokens, now};

/// One account at an issuer.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// Under what name its tokens are kept.
    pub id: String,
    /// Who issues tokens.
    pub issuer: Url,
    /// Where a person agrees.
    pub authorization_url: Url,
    /// Where tokens come from.
    pub token_url: Url,
    /// What the issuer calls us.
    pub client_id: String,
    /// The secret that some issuers give to programs of a desktop, too.
    pub client_secret: Option<SecretString>,
    /// What to ask for.
    pub scopes: Vec<String>,
}

/// Where an issuer's endpoints are.
#[derive(Debug, Clone, Deserialize)]
pub struct Endpoints {
    /// Who issues tokens.
    pub issuer: Url,
    /// Where a person agrees.
    #[serde(rename = "authorization_endpoint")]
    pub authorization_url: Url,
    /// Where tokens come from.
    #[serde(rename = "token_endpoint")]
    pub token_url: Url,
}

impl Endpoints {
    /// What an issuer publishes about itself.
    pub async fn discover(client: &Client, issuer: &Url) -> Result<Self, OAuthError> {
        let http = Http::new(client.clone(), issuer.clone());
        http.check("issuer", issuer)?;
        let base = issuer.as_str().trim_end_matches('/');
        let mut last = String::new();
        for place in ["openid-configuration", "oauth-authorization-server"] {
            let url = Url::parse(&format!("{base}/.well-known/{place}"))
                .map_err(|error| OAuthError::discovery(error.to_string()))?;
            match http.get(&url).await {
                Ok(body) => match serde_json::from_slice::<Self>(&body) {
                    Ok(found) => return found.checked(&http, issuer),
                    Err(_) => last = format!("`{url}` does not say where its endpoints are"),
                },
                Err(error) => last = foreign(&error, &[]),
            }
        }
        Err(OAuthError::discovery(last))
    }

    fn checked(self, http: &Http, asked: &Url) -> Result<Self, OAuthError> {
        let plain = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
        // Microsoft's answers for everybody with a name in place of the tenant.
        let is_same = plain(&self.issuer) == plain(asked) || self.issuer.host() == asked.host();
        if !is_same {
            return Err(OAuthError::discovery("it says that it is another issuer"));
        }
        http.check("authorization endpoint", &self.authorization_url)?;
        http.check("token endpoint", &self.token_url)?;
        Ok(self)
    }
}

/// One account at an issuer, its token kept valid. Cheap to clone.
#[derive(Debug, Clone)]
pub struct IssuerSession(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: IssuerSettings,
    account: Account,
    http: Http,
    store: TokenStore,
    seen: Mutex<Option<Tokens>>,
    turn: tokio::sync::Mutex<()>,
}

impl IssuerSession {
    /// A session that keeps its tokens in `store`.
    pub fn new(settings: IssuerSettings, client: Client, store: TokenStore) -> Result<Self, OAuthError> {
        let http = Http::new(client, settings.issuer.clone());
        http.check("issuer", &settings.issuer)?;
        http.check("authorization endpoint", &settings.authorization_url)?;
        http.check("token endpoint", &settings.token_url)?;
        check_scopes(&settings.scopes)?;
        let account = Account::new(&settings.issuer, &settings.id);
        let (seen, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self(Arc::new(Inner { settings, account, http, store, seen, turn })))
    }

    /// A token that is good now, renewed where it has to be.
    pub async fn bearer(&self) -> Result<SecretString, OAuthError> {
        if let Some(tokens) = self.0.seen().as_ref().filter(|tokens| !tokens.is_stale(now())) {
            return Ok(tokens.access.clone());
        }
        let inner = Arc::clone(&self.0);
        // In its own task: who stops waiting must not lose a refresh token that the issuer has replaced.
        let renewed = tokio::spawn(async move { inner.renew().await }).await;
        renewed.unwrap_or_else(|_| Err(OAuthError::Renewal { reason: "the attempt broke off".to_owned() }))
    }

    /// Lets a person log in. `open` gets the address to open in a browser.
    pub async fn login(
        &self,
        options: LoginOptions,
        open: impl FnOnce(&Url),
    ) -> Result<LoggedIn, OAuthError> {
        let inner = &self.0;
        let LoginOptions { scopes: _, patience, port, pasted } = options;
        let callback = Callback::listen(port).await?;
        let redirect_uri = callback.redirect_uri().clone();
        let (state, verifier) = (random()?, SecretString::from(random()?));
        open(&inner.authorization_url(&redirect_uri, &state, &verifier));
        let (answer, browser) = callback.answer_or_pasted(&state, pasted, patience).await?;
        let logged_in = inner.redeem(answer, &redirect_uri, &verifier).await;
        browser.tell(if logged_in.is_ok() { Ended::LoggedIn } else { Ended::Failed }).await;
        logged_in
    }

    /// Forgets the login; whether there was one.
    pub async fn logout(&self) -> Result<bool, OAuthError> {
        let _turn = self.0.turn.lock().await;
        *self.0.seen() = None;
        self.0.store.replace(&self.0.account, None).await
    }
}

impl Inner {
    fn seen(&self) -> std::sync::MutexGuard<'_, Option<Tokens>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn authorization_url(&self, redirect_uri: &Url, state: &str, verifier: &SecretString) -> Url {
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose_secret()));
        let mut url = self.settings.authorization_url.clone();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", redirect_uri.as_str())
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            // Google gives a refresh token for these alone; others ignore what they do not know.
            .append_pair("access_type", "offline")
            .append_pair("prompt", "consent");
        url
    }

    async fn redeem(
        &self,
        answer: AuthorizationResponse,
        redirect_uri: &Url,
        verifier: &SecretString,
    ) -> Result<LoggedIn, OAuthError> {
        let AuthorizationResponse { issuer, code, .. } = answer;
        let plain = |issuer: &str| issuer.trim_end_matches('/').to_owned();
        if issuer.is_some_and(|issuer| plain(&issuer) != plain(self.settings.issuer.as_str())) {
            return Err(OAuthError::login("the answer is from another issuer"));
        }
        let code = code.map_err(|error| OAuthError::login(format!("the issuer said `{error}`")))?;
        let form = self.form(&[
            ("grant_type", "authorization_code"),
            ("code", code.expose_secret()),
            ("redirect_uri", redirect_uri.as_str()),
            ("code_verifier", verifier.expose_secret()),
        ]);
        let granted = self.ask(form, &[&code, verifier]).await;
        let granted = granted.map_err(|failure| OAuthError::login(failure.text()))?;
        let tokens = granted.tokens(None)?;
        let logged_in = LoggedIn {
            issuer: Some(self.settings.issuer.to_string()),
            scopes: granted.scopes().unwrap_or_else(|| self.settings.scopes.clone()),
            renewable: tokens.refresh.is_some(),
        };
        self.keep(tokens, redirect_uri.to_string()).await?;
        Ok(logged_in)
    }

    async fn renew(&self) -> Result<SecretString, OAuthError> {
        let _turn = self.turn.lock().await;
        if let Some(access) = self.usable().await?.1 {
            return Ok(access);
        }
        let _turn = self.store.turn(&self.account).await?;
        // Another process may have been faster.
        let (record, access) = self.usable().await?;
        if let Some(access) = access {
            return Ok(access);
        }
        let needed = |reason: &str| OAuthError::login_needed(reason);
        let record = record.ok_or_else(|| needed("no person has logged in"))?;
        let tokens = record.tokens.clone().ok_or_else(|| needed("the login has ended"))?;
        let refresh =
            tokens.refresh.clone().ok_or_else(|| needed("the token has ended and cannot be renewed"))?;
        let form = self.form(&[("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())]);
        match self.ask(form, &[&refresh]).await {
            Ok(granted) => {
                // An issuer that rotates gives another one; one that does not keeps the first.
                let tokens = granted.tokens(Some(refresh))?;
                let access = tokens.access.clone();
                self.keep(tokens, record.redirect_uri).await?;
                Ok(access)
            }
            Err(Failure::Refused(reason)) => {
                *self.seen() = None;
                self.store.save(&self.account, Record { tokens: None, ..record }).await?;
                Err(needed(&format!("the issuer no longer renews the token ({reason})")))
            }
            Err(Failure::Failed(_)) if !tokens.has_ended(now()) => Ok(tokens.access),
            Err(Failure::Failed(reason)) => Err(OAuthError::Renewal { reason }),
        }
    }

    /// The stored login, and its token where that will do.
    async fn usable(&self) -> Result<(Option<Record>, Option<SecretString>), OAuthError> {
        let record = self.store.load(&self.account).await?;
        let tokens = record.as_ref().and_then(|record| record.tokens.clone());
        let tokens = tokens.filter(|tokens| !tokens.is_stale(now()));
        let access = tokens.as_ref().map(|tokens| tokens.access.clone());
        if tokens.is_some() {
            *self.seen() = tokens;
        }
        Ok((record, access))
    }

    async fn keep(&self, tokens: Tokens, redirect_uri: String) -> Result<(), OAuthError> {
        let record = Record {
            client_id: self.settings.client_id.clone(),
            client_secret: None,
            redirect_uri,
            issuer: Some(self.settings.issuer.to_string()),
            scopes: self.settings.scopes.clone(),
            tokens: Some(tokens.clone()),
        };
        self.store.save(&self.account, record).await?;
        *self.seen() = Some(tokens);
        Ok(())
    }

    fn form(&self, pairs: &[(&str, &str)]) -> String {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(pairs).append_pair("client_id", &self.settings.client_id);
        if let Some(secret) = &self.settings.client_secret {
            form.append_pair("client_secret", secret.expose_secret());
        }
        form.finish()
    }

    async fn ask(&self, form: String, secrets: &[&SecretString]) -> Result<Granted, Failure> {
        let mut secrets = secrets.to_vec();
        secrets.extend(&self.settings.client_secret);
        let answered = self.http.post_form(&self.settings.token_url, form).await;
        let answered = answered.map_err(|error| Failure::Failed(foreign(&error.to_string(), &secrets)))?;
        let (status, body) = (answered.status(), answered.body());
        if status.is_success() {
            let granted: Result<Granted, _> = serde_json::from_slice(body);
            return granted.map_err(|_| Failure::Failed("the issuer's answer is not a token".to_owned()));
        }
        let said: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
        let text = foreign(&format!("{} {}", said.error, said.error_description), &secrets);
        let text = if text.is_empty() { format!("status {status}") } else { text };
        match status.is_client_error() && status.as_u16() != 429 {
            true => Err(Failure::Refused(text)),
            false => Err(Failure::Failed(text)),
        }
    }
}

/// Why there is no token.
enum Failure {
    /// For good: a person has to log in.
    Refused(String),
    /// For now: a later try may succeed.
    Failed(String),
}

impl Failure {
    fn text(self) -> String {
        match self {
            Self::Refused(text) | Self::Failed(text) => text,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error: String,
    error_description: String,
}

/// The parts of a token response that count.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    token_type: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

impl Granted {
    fn scopes(&self) -> Option<Vec<String>> {
        Some(self.scope.as_ref()?.split_whitespace().map(str::to_owned).collect())
    }

    /// The tokens, with the refresh token of before where there is no other.
    fn tokens(&self, before: Option<SecretString>) -> Result<Tokens, OAuthError> {
        let is_plain = |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.token_type.eq_ignore_ascii_case("bearer") || !is_plain(&self.access_token) {
            return Err(OAuthError::login("the issuer's answer is not a token"));
        }
        let refresh = self.refresh_token.clone().filter(|token| is_plain(token)).map(SecretString::from);
        let received_at = now();
        Ok(Tokens {
            access: self.access_token.clone().into(),
            refresh: refresh.or(before),
            received_at,
            expires_at: self.expires_in.map(|seconds| received_at.saturating_add(seconds)),
        })
    }
}

fn random() -> Result<String, OAuthError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| OAuthError::login(error.to_string()))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

impl Http {
    /// Reads a small document.
    async fn get(&self, url: &Url) -> Result<Vec<u8>, String> {
        let answered = self.fetch(Request::new(Method::GET, url.clone())).await?;
        match answered.status().is_success() {
            true => Ok(answered.into_body()),
            false => Err(format!("`{url}` answers with {}", answered.status())),
        }
    }
}
