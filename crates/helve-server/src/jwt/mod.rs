//! Callers whom somebody else vouches for: JSON Web Tokens of one issuer.
//!
//! Signatures are verified with ring, which TLS runs on here anyway. The one well-kept crate for
//! this needs either aws-lc, which costs minutes of build, or an RSA implementation with an open
//! advisory.

mod keys;
#[cfg(test)]
mod tests;
mod token;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use helve::approvals::Vouch;
use helve::identity::LOCAL;
use helve::{Caller, Channel, PrincipalKind};
use helve_net::{Client, Url};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::keys::Keys;
use self::token::Refused;
use crate::visitor::{Deciding, Visitor};

/// How long a token that was verified is not verified again.
const VERIFIED_FOR: Duration = Duration::from_secs(60);
/// Most tokens that are remembered as verified.
const VERIFIED_MAX: usize = 1_024;
const NAME_BYTES_MAX: usize = 128;
const ROLES_MAX: usize = 64;

/// Whose tokens are taken, and what they say.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JwtConfig {
    /// Who signs them, exactly as `iss` says it: `https://login.example.com`.
    pub issuer: String,
    /// Whom they are for: one of `aud` must be this.
    pub audience: String,
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
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: String::new(),
            jwks_url: None,
            algorithms: Algorithm::ALL.to_vec(),
            principal_claim: "sub".to_owned(),
            roles_claim: None,
            kind: PrincipalKind::User,
            approver_role: None,
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
    /// Ed25519.
    EdDSA,
}

impl Algorithm {
    /// Every one that is known.
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
}

/// Whoever else says who people are.
pub struct Issuer {
    config: JwtConfig,
    keys: Keys,
    verified: Mutex<HashMap<[u8; 32], Verified>>,
}

struct Verified {
    visitor: Visitor,
    expires_at: Timestamp,
    at: Instant,
}

impl Issuer {
    /// An issuer whose keys are fetched with this client, when they are first needed.
    pub fn new(config: JwtConfig, client: Client) -> Result<Self, JwtError> {
        for (name, value) in [("issuer", &config.issuer), ("audience", &config.audience)] {
            if value.is_empty() {
                return Err(JwtError::Missing(name));
            }
        }
        let issuer = address(&config.issuer).ok_or(JwtError::Address("issuer"))?;
        let jwks = match &config.jwks_url {
            Some(url) => Some(address(url).ok_or(JwtError::Address("jwks_url"))?),
            None => None,
        };
        let keys = Keys::new(client, config.issuer.clone(), &issuer, jwks);
        Ok(Self { config, keys, verified: Mutex::default() })
    }

    /// Whom a token stands for, and until when. None: it is none of this issuer's, or not good.
    pub(crate) async fn visitor(&self, text: &str) -> Option<(Visitor, Timestamp)> {
        let digest: [u8; 32] = Sha256::digest(text).into();
        let now = Timestamp::now();
        if let Some(found) = self.remembered(&digest, now) {
            return Some(found);
        }
        match self.verify(text, now).await {
            Ok((visitor, expires_at)) => {
                self.remember(digest, Verified { visitor: visitor.clone(), expires_at, at: Instant::now() });
                Some((visitor, expires_at))
            }
            Err(refused) => {
                tracing::debug!(%refused, "a token was refused");
                None
            }
        }
    }

    async fn verify(&self, text: &str, now: Timestamp) -> Result<(Visitor, Timestamp), Refused> {
        let token = token::Token::parse(text)?;
        if !self.config.algorithms.contains(&token.algorithm) {
            return Err(Refused::Algorithm);
        }
        // Before any key is fetched, so that a stranger's token causes no request.
        let expires_at = token.check_claims(&self.config.issuer, &self.config.audience, now)?;
        let key = self.keys.find(token.key_id.as_deref(), token.algorithm).await.ok_or(Refused::Key)?;
        token.check_signature(&key)?;
        Ok((self.visitor_of(&token.claims)?, expires_at))
    }

    fn visitor_of(&self, claims: &Value) -> Result<Visitor, Refused> {
        let name = claims[&self.config.principal_claim].as_str().unwrap_or_default();
        let fits = !name.trim().is_empty() && name.len() <= NAME_BYTES_MAX;
        if !fits || name.chars().any(char::is_control) || name.eq_ignore_ascii_case(LOCAL) {
            return Err(Refused::Principal);
        }
        let roles = self.config.roles_claim.as_ref().map(|claim| roles(&claims[claim])).unwrap_or_default();
        if self.config.approver_role.as_ref().is_some_and(|approver| roles.contains(approver)) {
            let vouch = Vouch::Token(self.config.issuer.clone());
            return Ok(Visitor::Decider(Arc::new(Deciding::new(name, vouch, &roles))));
        }
        let mut caller = match self.config.kind {
            PrincipalKind::Agent => Caller::agent(name),
            PrincipalKind::User | PrincipalKind::Service => Caller::principal(name),
        };
        caller = caller.kind(self.config.kind).roles(roles).channel(Channel::Http);
        Ok(Visitor::Caller(Arc::new(caller)))
    }

    fn remembered(&self, digest: &[u8; 32], now: Timestamp) -> Option<(Visitor, Timestamp)> {
        let verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let found = verified.get(digest)?;
        (found.at.elapsed() < VERIFIED_FOR && now < found.expires_at)
            .then(|| (found.visitor.clone(), found.expires_at))
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
