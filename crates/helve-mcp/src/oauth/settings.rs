//! What a session and a login are told.

use std::pin::Pin;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

/// One account at one server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server's URL, as requests are sent to it.
    pub server: Url,
    /// Whose account. Two principals never share a token.
    pub principal: String,
    /// How the authorization server knows us.
    pub identity: Identity,
    /// What to ask for. Where empty, what the server says it needs.
    pub scopes: Vec<String>,
    /// What people read on the consent page.
    pub client_name: String,
}

impl Settings {
    /// An account at `server`, for a client that introduces itself.
    pub fn new(server: Url, principal: impl Into<String>) -> Self {
        Self {
            server,
            principal: principal.into(),
            identity: Identity::default(),
            scopes: Vec::new(),
            client_name: "Helve".to_owned(),
        }
    }
}

/// How the authorization server knows us.
#[derive(Debug, Clone)]
pub enum Identity {
    /// We introduce ourselves: by the URL of a document about us where there is one and the server
    /// can read it, else by registering.
    Introduced {
        /// Where our client metadata document is.
        metadata_url: Option<Url>,
    },
    /// An operator registered us and a person logs in.
    Registered {
        /// The id that we were given.
        client_id: String,
        /// The secret, if we were given one.
        client_secret: Option<SecretString>,
        /// Who gave them. With this, they are never shown to another authorization server.
        issuer: Option<String>,
    },
    /// We act for ourselves (the client credentials grant), and nobody logs in.
    Machine {
        /// The id that we were given.
        client_id: String,
        /// How we prove that it is ours.
        proof: Proof,
        /// Who gave it. With this, nothing is ever shown to another authorization server.
        issuer: Option<String>,
    },
}

impl Default for Identity {
    fn default() -> Self {
        Self::Introduced { metadata_url: None }
    }
}

/// How a machine proves who it is.
#[derive(Debug, Clone)]
pub enum Proof {
    /// By a secret (`client_secret_basic` or `client_secret_post`, as the server likes).
    Secret(SecretString),
    /// By signing (`private_key_jwt`).
    Key {
        /// The private key: PKCS #8, as PEM.
        pem: SecretString,
        /// How to sign.
        signature: Signature,
    },
}

/// How a client assertion is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    /// ECDSA on P-256.
    Es256,
    /// ECDSA on P-384.
    Es384,
    /// RSA, PKCS #1 v1.5, with SHA-256.
    Rs256,
    /// `EdDSA` with an Ed25519 key.
    EdDsa,
}

impl Signature {
    /// Its name in JWTs and metadata.
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The signature of this name, if we have it.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Es256, Self::Es384, Self::Rs256, Self::EdDsa].into_iter().find(|one| one.name() == name)
    }
}

/// The URL that a browser ended up at, when the person has pasted it.
pub type Pasted = Pin<Box<dyn Future<Output = String> + Send>>;

/// How a person logs in.
pub struct LoginOptions {
    /// What to ask for beyond what was asked for before: the scope of a step-up. Where empty, the
    /// login starts afresh.
    pub scopes: Vec<String>,
    /// How long to wait for the person.
    pub patience: Duration,
    /// The port of the redirect on 127.0.0.1, for clients that were registered with one; else any.
    pub port: Option<u16>,
    /// For machines without a browser: the address that the browser elsewhere could not open. The
    /// listener on loopback is there all the same, and the first answer counts.
    pub pasted: Option<Pasted>,
}

impl Default for LoginOptions {
    fn default() -> Self {
        Self { scopes: Vec::new(), patience: Duration::from_secs(300), port: None, pasted: None }
    }
}

impl LoginOptions {
    /// A login that asks for more, after a step-up.
    pub fn step_up(scope: &str) -> Self {
        let scopes = scope.split_whitespace().map(str::to_owned).collect();
        Self { scopes, ..Self::default() }
    }
}

impl std::fmt::Debug for LoginOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scopes, patience, port, pasted } = self;
        f.debug_struct("LoginOptions")
            .field("scopes", scopes)
            .field("patience", patience)
            .field("port", port)
            .field("pasted", &pasted.is_some())
            .finish()
    }
}

/// How a login went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedIn {
    /// Who granted it.
    pub issuer: Option<String>,
    /// What was granted.
    pub scopes: Vec<String>,
    /// Whether it can be renewed without a person.
    pub renewable: bool,
}
