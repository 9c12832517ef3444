//! Callers whom an issuer vouches for: JSON Web Tokens of one issuer.
//!
//! Signatures are verified with ring, which TLS runs on here anyway. The one well-kept crate for
//! this needs either aws-lc, which costs minutes of build, or an RSA implementation with an open
//! advisory.

mod keys;
mod resource;
mod scope;
#[cfg(test)]
mod tests;
mod token;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderValue;
use helve::approvals::Vouch;
use helve::identity::LOCAL;
use helve::{Caller, Channel, PrincipalKind, principal};
use helve_net::{Client, Url};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::keys::Keys;
pub(crate) use self::resource::Lacking;
use self::resource::Resource;
pub use self::scope::Scope;
use self::token::Refused;
#[cfg(fuzzing)]
pub use self::token::read_token;
use crate::visitor::{Deciding, Pass, Visitor};

/// How long a token that was verified is not verified again.
const VERIFIED_FOR: Duration = Duration::from_secs(60);
/// Most tokens that are remembered as verified.
const VERIFIED_MAX: usize = 1_024;
const ROLES_MAX: usize = 64;

/// Whose tokens are taken, and what they say.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JwtConfig {
    /// Who signs them, exactly as `iss` says it: `https://login.example.com`.
    pub issuer: String,
    /// Whom they are for: one of `aud` must be this. Left out: `resource`.
    pub audience: String,
    /// The address at which clients reach MCP here, such as `https://helve.example.com/mcp`. Clients that
    /// come without a token are told it, with the issuer and its scopes, and sign in there. Left out: the
    /// address that `helve up` listens on.
    pub resource: Option<String>,
    /// What tokens with a scope let their holder do, by the scope's name. A token with none of these is
    /// refused. Empty: scopes do not matter.
    pub scopes: BTreeMap<String, Scope>,
    /// The scopes that clients are told to ask for at first. Empty: all of `scopes`.
    pub first_scopes: Vec<String>,
    /// Where the issuer's keys are. Absent: where its OpenID configuration says.
    pub jwks_url: Option<String>,
    /// Signatures that are taken.
    pub algorithms: Vec<Algorithm>,
    /// The claim that names the principal.
    pub principal_claim: String,
    /// The claim with the roles: a list, or words in one text. Absent: nobody has any.
    pub roles_claim: Option<String>,
    /// What sort of principal they are.
    pub kind: PrincipalKind,
    /// The role whose holders decide questions to people, and call nothing. Absent: nobody of this
    /// issuer decides.
    pub approver_role: Option<String>,
    /// The scope that a token must have besides, for its holder to decide. Clients do not learn it, so
    /// the token that a person's MCP client gets calls and does not decide. Needed where there are `scopes`.
    pub approver_scope: Option<String>,
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: String::new(),
            resource: None,
            scopes: BTreeMap::new(),
            first_scopes: Vec::new(),
            jwks_url: None,
            algorithms: Algorithm::ALL.to_vec(),
            principal_claim: "sub".to_owned(),
            roles_claim: None,
            kind: PrincipalKind::User,
            approver_role: None,
            approver_scope: None,
        }
    }
}

/// A signature that is taken. Those with a shared secret are not among them: who checks one could
/// make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Algorithm {
    /// RSA with SHA-256.
    RS256,
    /// ECDSA on P-256 with SHA-256.
    ES256,
    /// `EdDSA` with an Ed25519 key.
    EdDSA,
}

impl Algorithm {
    /// Every algorithm that is known.
    pub const ALL: [Self; 3] = [Self::RS256, Self::ES256, Self::EdDSA];
}

/// An issuer that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// Something is missing.
    #[error("`identity.jwt.{0}` is missing")]
    Missing(&'static str),
    /// Not an address.
    #[error("`identity.jwt.{0}` is not an http or https address")]
    Address(&'static str),
    /// Not a scope, or not one of those that are known.
    #[error("`{0}` in `identity.jwt.{1}` is no scope that can be used")]
    Scope(String, &'static str),
    /// A client could ask for the right to decide.
    #[error("`identity.jwt.scopes.{0}` gives the role of those who decide; only the claim of roles may")]
    Approver(String),
}

/// The issuer that says who people are.
pub struct Issuer {
    config: JwtConfig,
    keys: Keys,
    resource: Option<Resource>,
    verified: Mutex<HashMap<[u8; 32], Verified>>,
}

/// Whom a token stands for, until when and with which scopes.
#[derive(Clone)]
pub(crate) struct Vouched {
    pub(crate) visitor: Visitor,
    pub(crate) until: Timestamp,
    /// Those that count here.
    pub(crate) scopes: Arc<[String]>,
}

impl Vouched {
    pub(crate) fn admitted(self) -> (Visitor, Pass) {
        (self.visitor, Pass::Token { until: self.until, scopes: self.scopes })
    }
}

/// What a token is worth.
pub(crate) enum Worth {
    /// It is none of this issuer's, or not good.
    Nothing,
    /// It is good, and has no scope that counts here.
    NoScope,
    /// It stands for a principal.
    Good(Vouched),
}

struct Verified {
    vouched: Vouched,
    at: Instant,
}

impl Issuer {
    /// An issuer whose keys are fetched with this client, when they are first needed.
    pub fn new(mut config: JwtConfig, client: Client) -> Result<Self, JwtError> {
        let resource = Resource::configured(&config)?;
        if let Some(resource) = resource.as_ref().filter(|_| config.audience.is_empty()) {
            config.audience = resource::identifier(resource).to_owned();
        }
        for (name, value) in [("issuer", &config.issuer), ("audience", &config.audience)] {
            if value.is_empty() {
                return Err(JwtError::Missing(name));
            }
        }
        scope::check(&config)?;
        let issuer = address(&config.issuer).ok_or(JwtError::Address("issuer"))?;
        let jwks = match &config.jwks_url {
            Some(url) => Some(address(url).ok_or(JwtError::Address("jwks_url"))?),
            None => None,
        };
        let keys = Keys::new(client, config.issuer.clone(), &issuer, jwks);
        let resource = resource.map(|url| Resource::new(&config, &url));
        Ok(Self { config, keys, resource, verified: Mutex::default() })
    }

    /// Tells clients that MCP is reached here, unless the configuration says where.
    pub(crate) fn reached_at(&mut self, mcp: &Url) {
        if self.resource.is_none() {
            self.resource = Some(Resource::new(&self.config, mcp));
        }
    }

    /// What is said of this server at a path, to everybody.
    pub(crate) fn metadata_at(&self, path: &str) -> Option<&str> {
        self.resource.as_ref()?.metadata_at(path)
    }

    /// What `WWW-Authenticate` says. None where nobody knows how clients reach this server.
    pub(crate) fn challenge(&self, lacking: Lacking<'_>) -> Option<HeaderValue> {
        self.resource.as_ref()?.challenge(lacking)
    }

    /// What a token is worth.
    pub(crate) async fn worth(&self, text: &str) -> Worth {
        let digest: [u8; 32] = Sha256::digest(text).into();
        let now = Timestamp::now();
        if let Some(found) = self.remembered(&digest, now) {
            return Worth::Good(found);
        }
        match self.verify(text, now).await {
            Ok(vouched) => {
                self.remember(digest, Verified { vouched: vouched.clone(), at: Instant::now() });
                Worth::Good(vouched)
            }
            Err(refused) => {
                tracing::debug!(%refused, "a token was refused");
                if refused == Refused::Scope { Worth::NoScope } else { Worth::Nothing }
            }
        }
    }

    async fn verify(&self, text: &str, now: Timestamp) -> Result<Vouched, Refused> {
        let token = token::Token::parse(text)?;
        if !self.config.algorithms.contains(&token.algorithm) {
            return Err(Refused::Algorithm);
        }
        // Before any key is fetched, so that a stranger's token causes no request.
        let until = token.check_claims(&self.config.issuer, &self.config.audience, now)?;
        let key = self.keys.find(token.key_id.as_deref(), token.algorithm).await.ok_or(Refused::Key)?;
        token.check_signature(&key)?;
        let said = scope::said(&token.claims);
        let visitor = self.visitor_of(&token.claims, &said)?;
        let scopes = said.into_iter().filter(|name| self.config.scopes.contains_key(name)).collect();
        Ok(Vouched { visitor, until, scopes })
    }

    fn visitor_of(&self, claims: &Value, scopes: &[String]) -> Result<Visitor, Refused> {
        let name = claims[&self.config.principal_claim].as_str().unwrap_or_default();
        if principal::check(name).is_err() || name.eq_ignore_ascii_case(LOCAL) {
            return Err(Refused::Principal);
        }
        let mut roles =
            self.config.roles_claim.as_ref().map(|claim| roles(&claims[claim])).unwrap_or_default();
        let may_decide = self.config.approver_scope.as_ref().is_none_or(|scope| scopes.contains(scope));
        if may_decide && self.config.approver_role.as_ref().is_some_and(|approver| roles.contains(approver)) {
            let vouch = Vouch::Token(self.config.issuer.clone());
            return Ok(Visitor::Decider(Arc::new(Deciding::new(name, vouch, &roles))));
        }
        let mut caller = match self.config.kind {
            PrincipalKind::Agent => Caller::agent(name),
            PrincipalKind::User | PrincipalKind::Service => Caller::principal(name),
        };
        if !self.config.scopes.is_empty() {
            let granted: Vec<_> = scopes.iter().filter_map(|name| self.config.scopes.get(name)).collect();
            if granted.is_empty() {
                return Err(Refused::Scope);
            }
            caller = caller.allow_only(granted.iter().flat_map(|scope| &scope.tools));
            roles.extend(granted.iter().flat_map(|scope| scope.roles.iter().cloned()));
        }
        caller = caller.kind(self.config.kind).roles(roles).channel(Channel::Http);
        Ok(Visitor::Caller(Arc::new(caller)))
    }

    fn remembered(&self, digest: &[u8; 32], now: Timestamp) -> Option<Vouched> {
        let verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let found = verified.get(digest)?;
        (found.at.elapsed() < VERIFIED_FOR && now < found.vouched.until).then(|| found.vouched.clone())
    }

    fn remember(&self, digest: [u8; 32], one: Verified) {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= VERIFIED_MAX {
            verified.retain(|_, one| one.at.elapsed() < VERIFIED_FOR);
        }
        if verified.len() < VERIFIED_MAX {
            verified.insert(digest, one);
        }
    }
}

fn address(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// Roles in a claim: a list of texts, or words in one.
fn roles(claim: &Value) -> Vec<String> {
    let roles: Vec<String> = match claim {
        Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
        Value::Array(list) => list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    roles.into_iter().take(ROLES_MAX).collect()
}
