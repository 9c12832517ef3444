//! One token: what it says, and whether that is so.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use helve::json::{JsonLimits, parse};
use jiff::{SignedDuration, Timestamp};
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::Value;

use super::Algorithm;
use super::keys::{Material, PublicKey};

/// Longest token that is read.
const TOKEN_BYTES_MAX: usize = 8_192;
const LIMITS: JsonLimits = JsonLimits { bytes: TOKEN_BYTES_MAX, values: 1_000, depth: 8 };
/// How far clocks may be apart.
const LEEWAY: SignedDuration = SignedDuration::from_secs(30);

/// A token whose form is right. Nothing of it is true before its signature is checked.
pub(super) struct Token<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    pub(super) claims: Value,
    signed: &'a [u8],
    signature: Vec<u8>,
}

/// Why a token is refused, for the log. The sender does not see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("not a token, or too long")]
    Form,
    #[error("its header asks for extensions that Helve does not know")]
    Critical,
    #[error("its algorithm is not accepted")]
    Algorithm,
    #[error("the issuer has no such key")]
    Key,
    #[error("its signature is wrong")]
    Signature,
    #[error("its `iss` names another issuer")]
    Issuer,
    #[error("it is for another audience")]
    Audience,
    #[error("expired, or missing `exp`")]
    Expired,
    #[error("not valid yet (`nbf` or `iat`)")]
    Early,
    #[error("it names no principal that may sign in")]
    Principal,
    #[error("it has none of the configured scopes")]
    Scope,
}

impl<'a> Token<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, Refused> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Refused::Form);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(Refused::Form)?;
        let (header, claims) = signed.split_once('.').ok_or(Refused::Form)?;
        let header = object(header)?;
        // What is critical and not understood must be refused, and nothing of it is understood here.
        if header.get("crit").is_some() || header.get("b64").is_some() || header.get("zip").is_some() {
            return Err(Refused::Critical);
        }
        let key_id = match &header["kid"] {
            Value::Null => None,
            Value::String(id) => Some(id.clone()),
            _ => return Err(Refused::Form),
        };
        let algorithm = match header["alg"].as_str() {
            Some("RS256") => Algorithm::RS256,
            Some("ES256") => Algorithm::ES256,
            Some("EdDSA") => Algorithm::EdDSA,
            _ => return Err(Refused::Algorithm),
        };
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refused::Form)?;
        Ok(Self { algorithm, key_id, claims: object(claims)?, signed: signed.as_bytes(), signature })
    }

    /// Checks whose it is, for whom and until when.
    pub(super) fn check_claims(
        &self,
        issuer: &str,
        audience: &str,
        now: Timestamp,
    ) -> Result<Timestamp, Refused> {
        if self.claims["iss"].as_str() != Some(issuer) {
            return Err(Refused::Issuer);
        }
        let is_ours = match &self.claims["aud"] {
            Value::String(one) => is_same(one, audience),
            Value::Array(list) => {
                list.iter().any(|one| one.as_str().is_some_and(|one| is_same(one, audience)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
        };
        if !is_ours {
            return Err(Refused::Audience);
        }
        let expires_at = time(&self.claims["exp"]).ok_or(Refused::Expired)?;
        if now.saturating_sub(LEEWAY).is_ok_and(|now| now >= expires_at) {
            return Err(Refused::Expired);
        }
        for claim in ["nbf", "iat"] {
            let from = match &self.claims[claim] {
                Value::Null => continue,
                said => time(said).ok_or(Refused::Early)?,
            };
            if now.saturating_add(LEEWAY).is_ok_and(|now| now < from) {
                return Err(Refused::Early);
            }
        }
        Ok(expires_at)
    }

    pub(super) fn check_signature(&self, key: &PublicKey) -> Result<(), Refused> {
        let (message, signature) = (self.signed, self.signature.as_slice());
        let checked = match (self.algorithm, &key.material) {
            (Algorithm::RS256, Material::Rsa(components)) => {
                components.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Algorithm::ES256, Material::P256(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Algorithm::EdDSA, Material::Ed25519(point)) => {
                UnparsedPublicKey::new(&ED25519, point).verify(message, signature)
            }
            (Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA, _) => return Err(Refused::Key),
        };
        checked.map_err(|_| Refused::Signature)
    }
}

/// Whether an audience is this one. Some write an address with a slash at its end.
fn is_same(said: &str, audience: &str) -> bool {
    let is_address = audience.contains("://");
    said == audience || (is_address && said.trim_end_matches('/') == audience.trim_end_matches('/'))
}

/// A part of a token: an object without a key twice.
fn object(part: &str) -> Result<Value, Refused> {
    let text = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Form)?;
    parse(&text, LIMITS).ok().filter(Value::is_object).ok_or(Refused::Form)
}

/// Seconds since 1970, whole or not.
fn time(value: &Value) -> Option<Timestamp> {
    let seconds = value.as_f64().filter(|seconds| seconds.is_finite())?;
    SignedDuration::try_from_secs_f64(seconds).ok().and_then(|since| Timestamp::from_duration(since).ok())
}

/// For the fuzz targets: the claims of a token whose form is right, and until when it would be good.
#[cfg(fuzzing)]
pub fn read_token(
    text: &str,
    issuer: &str,
    audience: &str,
    now: Timestamp,
) -> Option<(Value, Option<Timestamp>)> {
    let token = Token::parse(text).ok()?;
    let until = token.check_claims(issuer, audience, now).ok();
    Some((token.claims, until))
}
