//! Where passwords and tokens of accounts lie: in the system's keyring where there is one, else in Helve's encrypted
//! file, besides the tokens of MCP servers.
//!
//! INVARIANT: a secret is in no other file, in no argument of a program and in no text that anybody reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use helve::BoxFuture;
use helve_mcp::config::{KeyringError, Reference, Secrets, Setting, Source, SystemKeyring};
use helve_mcp::oauth::{IssuerSession, IssuerSettings, OAuthError, SecretFile, TokenStore};
use helve_mcp::server::random_id;
use helve_net::NetPolicy;
use helve_office::account::Fault;
use helve_office::connect::{self, AccountSettings, Auth, OAuthSettings, SecretPlace};
use helve_sandbox::Sandbox;
use secrecy::SecretString;
use url::Url;

use crate::error::HostError;
use crate::wire::mcp;

/// Under what name the keyring keeps our secrets.
const SERVICE: &str = "helve-office";

/// Where a new secret is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The system's keyring where there is one, else the encrypted file.
    Auto,
    /// The system's keyring.
    Keyring,
    /// Helve's encrypted file.
    File,
}

/// Passwords and tokens of accounts.
#[derive(Clone)]
pub struct OfficeSecrets {
    net: NetPolicy,
    sandbox: Sandbox,
    /// One for each login: a token is renewed once, however many ask.
    sessions: Arc<Mutex<HashMap<String, IssuerSession>>>,
}

impl OfficeSecrets {
    pub(super) fn new(net: NetPolicy, sandbox: Sandbox) -> Self {
        Self { net, sandbox, sessions: Arc::default() }
    }

    /// Keeps a new secret of an account. Where it is then.
    pub async fn keep(
        &self,
        account: &str,
        secret: &SecretString,
        keep: Keep,
    ) -> Result<SecretPlace, HostError> {
        let id = format!("{account}-{}", &random_id()[..12]);
        let failed = |error: &(dyn std::error::Error + 'static)| {
            HostError::failed("the secret cannot be kept").because(error)
        };
        if keep != Keep::File {
            let label = format!("Helve: {account}");
            match self.keyring().store(SERVICE, &id, &label, secret).await {
                Ok(()) => return Ok(SecretPlace::Keyring { service: SERVICE.to_owned(), user: id }),
                Err(KeyringError::Absent | KeyringError::NoProgram) if keep == Keep::Auto => {}
                Err(error) => {
                    return Err(failed(&error).hint("`--keep-in file` keeps it in an encrypted file"));
                }
            }
        }
        file()?.write(&id, secret.clone()).await.map_err(|error| failed(&error))?;
        Ok(SecretPlace::Kept(id))
    }

    /// Forgets what we keep for an account. What lies in its user's own places stays there.
    pub async fn forget(&self, auth: &Auth) -> Result<(), HostError> {
        match auth {
            Auth::Password(place) => self.forget_place(place).await,
            Auth::OAuth(login) => {
                let client = match &login.client_secret {
                    Some(place) => self.forget_place(place).await,
                    None => Ok(()),
                };
                // One that stays is no reason to keep the other.
                match (client, forget_login(login).await) {
                    (Err(one), Err(other)) => {
                        let lines = other.lines().to_vec();
                        Err(one.detail(other.message).details(lines))
                    }
                    (client, login) => client.and(login),
                }
            }
        }
    }

    /// The same for settings as they are kept. Where they cannot be read, what may be left is the failure.
    pub async fn forget_all_of(&self, account: &str, settings: &str) -> Result<(), HostError> {
        match serde_json::from_str::<AccountSettings>(settings) {
            Ok(settings) => self.forget(settings.auth()).await,
            Err(_) => Err(HostError::failed(format!(
                "the settings of `{account}` cannot be read: a secret of it may be left in the keyring, as {SERVICE}/{account}-…, \
                 or in Helve's encrypted file"
            ))),
        }
    }

    async fn forget_place(&self, place: &SecretPlace) -> Result<(), HostError> {
        let failed = |error: &(dyn std::error::Error + 'static)| {
            HostError::failed(format!("its secret is still in {place}")).because(error)
        };
        match place {
            SecretPlace::Kept(id) => file()?.remove(id).await.map_err(|error| failed(&error)),
            SecretPlace::Keyring { service, user } if service == SERVICE => {
                self.keyring().clear(service, user).await.map_err(|error| failed(&error))
            }
            SecretPlace::Keyring { .. } | SecretPlace::Env(_) | SecretPlace::File(_) => Ok(()),
        }
    }

    /// A login at an issuer.
    pub async fn session(&self, login: &OAuthSettings) -> Result<IssuerSession, HostError> {
        if let Some(known) = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(&login.id) {
            return Ok(known.clone());
        }
        let client_secret = match &login.client_secret {
            Some(place) => {
                Some(self.look_up(place).await.map_err(|error| HostError::failed(error.to_string()))?)
            }
            None => None,
        };
        let settings = IssuerSettings {
            id: login.id.clone(),
            issuer: login.issuer.clone(),
            authorization_url: login.authorization_url.clone(),
            token_url: login.token_url.clone(),
            client_id: login.client_id.clone(),
            client_secret,
            scopes: login.scopes.clone(),
        };
        let client = self.client(&[&login.issuer, &login.token_url])?;
        let session = IssuerSession::new(settings, client, tokens()?)
            .map_err(|error| HostError::failed("nobody can log in there").because(&error))?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sessions.entry(login.id.clone()).or_insert(session).clone())
    }

    /// A client that reaches addresses of a person's own choice as well.
    pub fn client(&self, own: &[&Url]) -> Result<helve_net::Client, HostError> {
        let own: Vec<_> =
            own.iter().map(|url| helve_mcp::config::ServerConfig::remote(url.as_str())).collect();
        mcp::client(&self.net, &own.iter().collect::<Vec<_>>())
    }

    pub async fn look_up(&self, place: &SecretPlace) -> Result<SecretString, Fault> {
        let source = match place {
            SecretPlace::Kept(id) => {
                let file = file().map_err(|failure| Fault::Login(failure.to_string()))?;
                let found = file.read(id).await.map_err(|error| Fault::Login(error.to_string()))?;
                return found.ok_or_else(|| {
                    Fault::Login("its password is gone; connect the account again".to_owned())
                });
            }
            SecretPlace::Keyring { service, user } => {
                Source::Keyring { service: service.clone(), user: user.clone() }
            }
            SecretPlace::Env(name) => Source::Env(name.clone()),
            SecretPlace::File(path) => Source::File(path.clone()),
        };
        let setting = Setting::Reference(Reference { source, prefix: String::new() });
        let found = Secrets::system(self.sandbox.clone()).resolve(&setting).await;
        found.map_err(|error| Fault::Login(error.to_string()))
    }

    fn keyring(&self) -> SystemKeyring {
        SystemKeyring::new(self.sandbox.clone())
    }
}

impl connect::Secrets for OfficeSecrets {
    fn read<'a>(&'a self, place: &'a SecretPlace) -> BoxFuture<'a, Result<SecretString, Fault>> {
        Box::pin(self.look_up(place))
    }

    fn token<'a>(&'a self, login: &'a OAuthSettings) -> BoxFuture<'a, Result<SecretString, Fault>> {
        Box::pin(async move {
            let session = self.session(login).await.map_err(|failure| Fault::Login(failure.to_string()))?;
            session.bearer().await.map_err(|error| match error {
                OAuthError::LoginNeeded { reason } => {
                    Fault::Login(format!("{reason}; connect the account again"))
                }
                OAuthError::Renewal { .. } => Fault::Unreachable(error.to_string()),
                error => Fault::Login(error.to_string()),
            })
        })
    }
}

async fn forget_login(login: &OAuthSettings) -> Result<(), HostError> {
    let gone = tokens()?.forget(&login.issuer, &login.id).await;
    gone.map(drop).map_err(|error| {
        HostError::failed(format!("its login at {} is still stored", login.issuer)).because(&error)
    })
}

fn file() -> Result<SecretFile, HostError> {
    SecretFile::open(&mcp::state_folder()?, "office")
        .map_err(|error| HostError::failed("the file of secrets cannot be used").because(&error))
}

fn tokens() -> Result<TokenStore, HostError> {
    TokenStore::open(&mcp::state_folder()?)
        .map_err(|error| HostError::failed("the stored logins cannot be used").because(&error))
}
