//! The issuer's keys: fetched when needed, through the guarded client, and kept for a while.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use helve::json::{JsonLimits, parse};
use helve_net::{Client, Method, Redirects, Request, Url};
use ring::signature::RsaPublicKeyComponents;
use serde_json::Value;
use tokio::sync::Mutex;

use super::Algorithm;

const DOCUMENT_BYTES_MAX: usize = 256 << 10;
const LIMITS: JsonLimits = JsonLimits { bytes: DOCUMENT_BYTES_MAX, values: 10_000, depth: 16 };
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
const KEYS_MAX: usize = 100;
/// How often the keys are fetched at most, whatever strangers put into their tokens.
const FETCH_EVERY: Duration = Duration::from_secs(60);
/// The same while there are none.
const FETCH_FIRST_EVERY: Duration = Duration::from_secs(5);
/// How old keys may be before they are fetched anew.
const FRESH_FOR: Duration = Duration::from_secs(10 * 60);
/// How old keys may be where they cannot be fetched anew.
const GOOD_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The issuer's keys.
pub(super) struct Keys {
    client: Client,
    issuer: String,
    place: Place,
    held: SyncMutex<Held>,
    /// One fetches at a time.
    fetching: Mutex<()>,
    pub(super) fetch_every: Duration,
}

enum Place {
    /// The keys themselves.
    Keys(Url),
    /// The issuer's own metadata, which says where they are: what OpenID calls its configuration, or
    /// else that of an authorization server (RFC 8414).
    Configuration(Vec<Url>),
}

#[derive(Default, Clone)]
struct Held {
    keys: Arc<Vec<PublicKey>>,
    fetched: Option<Instant>,
    tried: Option<Instant>,
}

/// A public key of the issuer.
#[derive(Clone)]
pub(super) struct PublicKey {
    id: Option<String>,
    algorithm: Algorithm,
    pub(super) material: Material,
}

#[derive(Clone)]
pub(super) enum Material {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Why there are no keys, for the log.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Net(#[from] helve_net::NetError),
    #[error("the answer's status is {0}")]
    Status(u16),
    #[error("the answer is not what it should be: {0}")]
    Document(&'static str),
}

impl Keys {
    pub(super) fn new(client: Client, issuer: String, address: &Url, jwks: Option<Url>) -> Self {
        let configuration = || {
            let path = address.path().trim_end_matches('/');
            let paths = [
                format!("{path}/.well-known/openid-configuration"),
                format!("/.well-known/oauth-authorization-server{path}"),
            ];
            paths.iter().filter_map(|path| address.join(path).ok()).collect()
        };
        let place = jwks.map_or_else(|| Place::Configuration(configuration()), Place::Keys);
        Self {
            client,
            issuer,
            place,
            held: SyncMutex::default(),
            fetching: Mutex::default(),
            fetch_every: FETCH_EVERY,
        }
    }

    /// The key of this id and sort. Without an id: the only one of its sort.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<PublicKey> {
        let held = self.held();
        let found = pick(&held.keys, id, algorithm);
        let is_fresh = held.fetched.is_some_and(|at| at.elapsed() < FRESH_FOR);
        if found.is_some() && is_fresh {
            return found;
        }
        self.refresh().await;
        let held = self.held();
        let is_good = held.fetched.is_some_and(|at| at.elapsed() < GOOD_FOR);
        pick(&held.keys, id, algorithm).filter(|_| is_good)
    }

    fn held(&self) -> Held {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fetches the keys, unless that was tried a moment ago.
    async fn refresh(&self) {
        let _turn = self.fetching.lock().await;
        let held = self.held();
        let pause =
            if held.fetched.is_none() { FETCH_FIRST_EVERY.min(self.fetch_every) } else { self.fetch_every };
        if held.tried.is_some_and(|at| at.elapsed() < pause) {
            return;
        }
        let fetched = self.fetch().await;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.tried = Some(Instant::now());
        match fetched {
            Ok(keys) => (held.keys, held.fetched) = (Arc::new(keys), held.tried),
            Err(error) => {
                tracing::warn!(%error, issuer = self.issuer, "the issuer's keys could not be fetched");
            }
        }
    }

    async fn fetch(&self) -> Result<Vec<PublicKey>, FetchError> {
        let url = match &self.place {
            Place::Keys(url) => url.clone(),
            Place::Configuration(urls) => self.find_out(urls).await?,
        };
        let document = self.document(url).await?;
        let keys = document["keys"].as_array().ok_or(FetchError::Document("there are no `keys`"))?;
        Ok(keys.iter().take(KEYS_MAX).filter_map(public_key).collect())
    }

    /// Where the keys are, as the first of these says that is there.
    async fn find_out(&self, urls: &[Url]) -> Result<Url, FetchError> {
        let mut failed = FetchError::Document("the issuer is no address");
        for url in urls {
            let document = match self.document(url.clone()).await {
                Ok(document) => document,
                Err(error) => {
                    failed = error;
                    continue;
                }
            };
            if document["issuer"].as_str() != Some(&self.issuer) {
                return Err(FetchError::Document("`issuer` is another one"));
            }
            let keys = document["jwks_uri"].as_str().and_then(|keys| Url::parse(keys).ok());
            let keys = keys.ok_or(FetchError::Document("`jwks_uri` is no address"))?;
            if keys.scheme() != url.scheme() && keys.scheme() != "https" {
                return Err(FetchError::Document("`jwks_uri` is less safe than the issuer"));
            }
            return Ok(keys);
        }
        Err(failed)
    }

    async fn document(&self, url: Url) -> Result<Value, FetchError> {
        let request = Request::new(Method::GET, url)
            .timeout(FETCH_TIMEOUT)
            .response_bytes_max(DOCUMENT_BYTES_MAX)
            .redirects(Redirects::Stop);
        let response = self.client.fetch(request).await?;
        if !response.status.is_success() {
            return Err(FetchError::Status(response.status.as_u16()));
        }
        parse(response.text().as_bytes(), LIMITS).map_err(|_| FetchError::Document("it is no plain JSON"))
    }
}

fn pick(keys: &[PublicKey], id: Option<&str>, algorithm: Algorithm) -> Option<PublicKey> {
    let mut fitting = keys
        .iter()
        .filter(|key| key.algorithm == algorithm && id.is_none_or(|id| key.id.as_deref() == Some(id)));
    let found = fitting.next()?;
    // Of several it must be said which.
    fitting.next().is_none().then(|| found.clone())
}

/// A key as the issuer publishes it. None where it is none that we take.
fn public_key(jwk: &Value) -> Option<PublicKey> {
    let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(jwk[name].as_str()?).ok();
    if jwk["use"].as_str().is_some_and(|used| used != "sig") {
        return None;
    }
    let (algorithm, material) = match (jwk["kty"].as_str()?, jwk["crv"].as_str()) {
        ("RSA", None) => {
            (Algorithm::RS256, Material::Rsa(RsaPublicKeyComponents { n: bytes("n")?, e: bytes("e")? }))
        }
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            if (x.len(), y.len()) != (32, 32) {
                return None;
            }
            (Algorithm::ES256, Material::P256([&[4], x.as_slice(), y.as_slice()].concat()))
        }
        ("OKP", Some("Ed25519")) => (Algorithm::EdDSA, Material::Ed25519(bytes("x")?)),
        _ => return None,
    };
    let said: Option<Algorithm> = match &jwk["alg"] {
        Value::Null => Some(algorithm),
        said => serde_json::from_value(said.clone()).ok(),
    };
    let id = jwk["kid"].as_str().map(str::to_owned);
    (said == Some(algorithm)).then_some(PublicKey { id, algorithm, material })
}
