//! A webhook: tells the people who decide of a question, with a link that opens the page.
//!
//! The link carries its own sign-in code, which is good once, as long as the question, and for
//! that question alone. It decides nothing by being opened: that takes a click on the page, and its token. The request is
//! signed, so that the receiver knows where it comes from.

use std::collections::VecDeque;
use std::time::Duration;

use helve::identity::{Key, Purpose};
use helve::{Approval, ApprovalId, ApprovalState, Caller, Runtime};
use helve_net::{Client, HeaderName, HeaderValue, Method, Redirects, Request, Url};
use jiff::Timestamp;
use ring::hmac;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Largest answer that is read.
const RESPONSE_BYTES_MAX: usize = 64 << 10;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses before a request is sent again.
const PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60)];
/// How many questions are remembered as told.
const TOLD_MAX: usize = 10_000;
/// Most requests at a time.
const AT_ONCE_MAX: usize = 8;

/// Where questions to people are told.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookConfig {
    /// The address that each question is posted to, with a link that opens the page. Only your own
    /// helve.toml may name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How people reach this server, such as `https://helve.example.com`. Left out: the address that it
    /// listens on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable with the secret that requests are signed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
}

/// Why there is no webhook.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// It is no address.
    #[error("`{0}` is no address that begins with http:// or https://")]
    Address(String),
    /// It would be unsigned by accident.
    #[error("the environment variable `{0}`, which signs requests, is not set")]
    Secret(String),
}

/// Posts questions to the webhook.
#[derive(Clone)]
pub struct Webhook {
    client: Client,
    url: Url,
    base: Url,
    secret: Option<SecretString>,
}

impl Webhook {
    /// A webhook as configured. None where there is no address. `here` is how this server is reached
    /// where nobody says otherwise.
    pub fn new(config: &WebhookConfig, client: Client, here: &str) -> Result<Option<Self>, WebhookError> {
        let Some(url) = &config.url else { return Ok(None) };
        let address = |text: &str| {
            let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            url.ok_or_else(|| WebhookError::Address(text.to_owned()))
        };
        let secret = match &config.secret_env {
            Some(name) => {
                Some(SecretString::from(std::env::var(name).map_err(|_| WebhookError::Secret(name.clone()))?))
            }
            None => None,
        };
        let base = address(config.base_url.as_deref().unwrap_or(here))?;
        Ok(Some(Self { client, url: address(url)?, base, secret }))
    }

    /// Tells of every question that is put from now on. Runs until dropped.
    pub async fn follow(self, runtime: Runtime) {
        let mut changes = match runtime.approvals().watch().await {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(%error, "questions are not told to the webhook");
                return std::future::pending().await;
            }
        };
        let mut told: VecDeque<ApprovalId> = VecDeque::new();
        let turns = std::sync::Arc::new(tokio::sync::Semaphore::new(AT_ONCE_MAX));
        loop {
            let Some(approval) = changes.next().await else {
                tracing::warn!("more questions than the webhook can post; see `helve approvals list`");
                continue;
            };
            if approval.state != ApprovalState::Pending || told.contains(&approval.id) {
                continue;
            }
            told.push_back(approval.id);
            if told.len() > TOLD_MAX {
                told.pop_front();
            }
            let (webhook, runtime, turns) = (self.clone(), runtime.clone(), turns.clone());
            tokio::spawn(async move {
                let _turn = turns.acquire_owned().await;
                webhook.tell(&runtime, &approval).await;
            });
        }
    }

    async fn tell(&self, runtime: &Runtime, approval: &Approval) {
        let link = match self.link(runtime, approval).await {
            Ok(link) => link,
            Err(error) => {
                tracing::warn!(%error, approval = %approval.id, "the webhook is not told: there is no link");
                return;
            }
        };
        let body = body(approval, link.as_str());
        for pause in PAUSES.map(Some).into_iter().chain([None]) {
            match self.send(&body).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(error, approval = %approval.id, "the webhook did not take it"),
            }
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return,
            }
        }
    }

    /// A link that signs one person in, once, while the question stands.
    async fn link(&self, runtime: &Runtime, approval: &Approval) -> Result<Url, helve::ports::JournalError> {
        let name = format!("webhook for {}", approval.id);
        let (mut code, text) = Key::generate(&name, Purpose::SignIn, "webhook", Timestamp::now());
        code.expires_at = Some(approval.expires_at);
        code.only = Some(approval.id);
        runtime.keys().create_key(Box::new(code), Caller::principal("webhook").into()).await?;
        let mut link = self.base.clone();
        link.set_path("/sign-in");
        link.set_query(Some(&format!("next=/approvals/{}", approval.id)));
        // After `#`, so that the code is in no server's log.
        link.set_fragment(Some(text.reveal()));
        Ok(link)
    }

    async fn send(&self, body: &str) -> Result<(), String> {
        let mut request = Request::new(Method::POST, self.url.clone())
            .header(HeaderName::from_static("content-type"), HeaderValue::from_static("application/json"))
            .body(body.as_bytes().to_vec())
            .timeout(TIMEOUT)
            .response_bytes_max(RESPONSE_BYTES_MAX)
            .redirects(Redirects::Stop);
        if let Some(secret) = &self.secret {
            let signature = sign(secret.expose_secret(), Timestamp::now().as_second(), body);
            let value = HeaderValue::from_str(&signature).map_err(|error| error.to_string())?;
            request = request.header(HeaderName::from_static("helve-signature"), value);
        }
        let response = self.client.fetch(request).await.map_err(|error| error.to_string())?;
        if response.status.is_success() {
            Ok(())
        } else {
            Err(format!("it answered {}", response.status.as_u16()))
        }
    }
}

/// `t=UNIX,v1=HEX`, where the second is an HMAC-SHA-256 of `UNIX.BODY`.
fn sign(secret: &str, at: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{at}.{body}").as_bytes());
    format!("t={at},v1={}", helve::json::hex(tag.as_ref()))
}

/// What is told. Not the arguments: they are for people who have signed in.
fn body(approval: &Approval, link: &str) -> String {
    json!({
        "type": "approval.requested",
        "id": approval.id,
        "tool": approval.tool,
        "principal": approval.caller.principal,
        "agent": approval.caller.agent,
        "session": approval.caller.session,
        "risk": approval.risk,
        "reasons": approval.reasons,
        "marks": approval.marks,
        "created_at": approval.created_at,
        "expires_at": approval.expires_at,
        "link": link,
    })
    .to_string()
}
