//! The signed word of a client about itself (RFC 7523, `private_key_jwt`).
//!
//! rmcp has this only with a TLS library that takes minutes to build.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use super::error::OAuthError;
use super::settings::Signature;
use super::store::now;

/// How long an assertion is good for.
const LIFETIME_SECONDS: u64 = 300;

/// A JWT in which `client_id` says to `audience` that it is itself.
pub(super) fn assertion(
    client_id: &str,
    audience: &str,
    pem: &SecretString,
    signature: Signature,
) -> Result<SecretString, OAuthError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| OAuthError::Setting { reason: error.to_string() })?;
    let now = now();
    let head = json!({"alg": signature.name(), "typ": "client-authentication+jwt"});
    let claims = json!({
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
        "jti": URL_SAFE_NO_PAD.encode(id),
    });
    let encode = |part: &serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!("{}.{}", encode(&head), encode(&claims));
    let seal = sign(&der(pem)?, signature, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(seal)).into())
}

fn sign(der: &[u8], signature: Signature, message: &[u8]) -> Result<Vec<u8>, OAuthError> {
    let random = SystemRandom::new();
    let unusable = |_| refused("is not one for this signature");
    let failed = |_| refused("cannot sign");
    let ecdsa = |algorithm| {
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der, &random).map_err(unusable)?;
        Ok(pair.sign(&random, message).map_err(failed)?.as_ref().to_vec())
    };
    match signature {
        Signature::Es256 => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING),
        Signature::Es384 => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING),
        Signature::Rs256 => {
            let pair = RsaKeyPair::from_pkcs8(der).map_err(unusable)?;
            let mut seal = vec![0; pair.public().modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut seal).map_err(failed)?;
            Ok(seal)
        }
        Signature::EdDsa => {
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(unusable)?;
            Ok(pair.sign(message).as_ref().to_vec())
        }
    }
}

fn der(pem: &SecretString) -> Result<Vec<u8>, OAuthError> {
    let text = pem.expose_secret();
    let inner = text
        .split_once("-----BEGIN PRIVATE KEY-----")
        .and_then(|(_, rest)| rest.split_once("-----END PRIVATE KEY-----"))
        .map(|(inner, _)| inner.split_whitespace().collect::<String>());
    let inner = inner.ok_or_else(|| {
        refused("is not PKCS #8 as PEM (`-----BEGIN PRIVATE KEY-----`); `openssl pkcs8 -topk8 -nocrypt` makes it so")
    })?;
    STANDARD.decode(inner).map_err(|_| refused("is not readable"))
}

fn refused(what: &str) -> OAuthError {
    OAuthError::Setting { reason: format!("the private key of the client {what}") }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, KeyPair, UnparsedPublicKey};

    use super::*;

    fn pem(der: &[u8]) -> SecretString {
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der)).into()
    }

    #[test]
    fn the_assertion_verifies_and_says_who_and_to_whom() {
        let random = SystemRandom::new();
        let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref(), &random).unwrap();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let ed_pair = Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap();
        let made = [
            (assertion("me", "https://as.example", &pem(ec.as_ref()), Signature::Es256).unwrap(), {
                UnparsedPublicKey::new(
                    &ECDSA_P256_SHA256_FIXED as &dyn ring::signature::VerificationAlgorithm,
                    pair.public_key().as_ref().to_vec(),
                )
            }),
            (
                assertion("me", "https://as.example", &pem(ed.as_ref()), Signature::EdDsa).unwrap(),
                UnparsedPublicKey::new(&ED25519, ed_pair.public_key().as_ref().to_vec()),
            ),
        ];
        for (jwt, key) in made {
            let (signed, seal) = jwt.expose_secret().rsplit_once('.').unwrap();
            key.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(seal).unwrap()).unwrap();
            let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
            let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
            assert_eq!(
                (&claims["iss"], &claims["sub"], &claims["aud"]),
                (&json!("me"), &json!("me"), &json!("https://as.example"))
            );
        }
    }

    #[test]
    fn a_wrong_key_is_told_without_showing_it() {
        let bad = SecretString::from("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----");
        let told = assertion("me", "a", &bad, Signature::Rs256).unwrap_err().to_string();
        assert!(told.contains("not one for this signature") && !told.contains("AAAA"), "{told}");
        let told =
            assertion("me", "a", &"-----BEGIN EC PRIVATE KEY-----".into(), Signature::Es256).unwrap_err();
        assert!(told.to_string().contains("pkcs8"), "{told}");
    }
}
