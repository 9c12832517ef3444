//! What was granted, per server and principal, in one encrypted file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use secrecy::{ExposeSecret, SecretBox, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use super::error::OAuthError;
use super::lock::{self, FileLock};
use super::vault::{self, Key};

/// The stored tokens. Cheap to clone; several processes may use one folder at a time.
#[derive(Debug, Clone)]
pub struct TokenStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: PathBuf,
    key: Key,
}

/// What is known of a stored login without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// The address of the server that the login is for.
    pub server: String,
    /// The principal whose login it is.
    pub principal: String,
    /// Who granted it.
    pub issuer: Option<String>,
    /// What was asked for and granted.
    pub scopes: Vec<String>,
    /// When the token ends, in seconds since 1970, where that is known.
    pub expires_at: Option<u64>,
    /// Whether there is a token at all.
    pub logged_in: bool,
    /// Whether it can be renewed without a person.
    pub renewable: bool,
}

impl TokenStore {
    /// The tokens in `folder`, which exists. They are in `oauth.tokens`, and the key in `oauth.key`
    /// is made when there are none yet.
    pub fn open(folder: &Path) -> Result<Self, OAuthError> {
        let file = folder.join("oauth.tokens");
        let key = Key::for_file(&file)?;
        Ok(Self(Arc::new(Inner { file, key })))
    }

    /// The tokens in `folder`, under a key from elsewhere, such as a keyring.
    pub fn with_key(folder: &Path, key: SecretBox<[u8; 32]>) -> Self {
        Self(Arc::new(Inner { file: folder.join("oauth.tokens"), key: Key::new(key) }))
    }

    /// All logins, without their secrets.
    pub async fn list(&self) -> Result<Vec<Held>, OAuthError> {
        let lines = self.blocking(|store| store.read()).await?;
        Ok(lines.into_iter().map(StoredLogin::shown).collect())
    }

    /// Forgets a login; whether there was one.
    pub async fn forget(&self, server: &Url, principal: &str) -> Result<bool, OAuthError> {
        self.replace(&Account::new(server, principal), None).await
    }

    pub(super) async fn load(&self, account: &Account) -> Result<Option<Record>, OAuthError> {
        let account = account.clone();
        let lines = self.blocking(|store| store.read()).await?;
        Ok(lines.into_iter().find(|line| line.account == account).map(|line| line.record))
    }

    pub(super) async fn save(&self, account: &Account, record: Record) -> Result<(), OAuthError> {
        self.replace(account, Some(record)).await.map(|_| ())
    }

    /// Puts a record in the place of another; whether there was one.
    pub(super) async fn replace(
        &self,
        account: &Account,
        record: Option<Record>,
    ) -> Result<bool, OAuthError> {
        let account = account.clone();
        self.blocking(move |store| {
            let _turn = lock::acquire_blocking(&store.file.with_extension("lock"))?;
            let mut lines = store.read()?;
            let before = lines.len();
            lines.retain(|line| line.account != account);
            let was_there = lines.len() < before;
            if !was_there && record.is_none() {
                return Ok(false);
            }
            lines.extend(record.map(|record| StoredLogin { account, record }));
            let text = serde_json::to_vec(&lines).map_err(|error| OAuthError::store(error.to_string()))?;
            vault::seal(&store.file, &store.key, text)?;
            Ok(was_there)
        })
        .await
    }

    /// The right to renew an account's token, of which there is one among all processes.
    pub(super) async fn turn(&self, account: &Account) -> Result<FileLock, OAuthError> {
        lock::acquire(&self.0.file.with_extension(format!("{}.lock", account.digest()))).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, OAuthError> + Send + 'static,
    ) -> Result<T, OAuthError> {
        let inner = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|_| Err(OAuthError::store("the work on them broke off")))
    }
}

impl Inner {
    fn read(&self) -> Result<Vec<StoredLogin>, OAuthError> {
        let Some(text) = vault::open(&self.file, &self.key)? else { return Ok(Vec::new()) };
        // The parser's message could quote a token.
        serde_json::from_slice(&text).map_err(|_| {
            OAuthError::store("they are not in the form of this version; delete them and log in again")
        })
    }
}

/// Whose tokens, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    server: String,
    principal: String,
}

impl Account {
    pub(super) fn new(server: &Url, principal: &str) -> Self {
        let mut server = server.clone();
        server.set_fragment(None);
        Self { server: server.into(), principal: principal.to_owned() }
    }

    /// A name for files that says nothing about the account.
    fn digest(&self) -> String {
        let digest = Sha256::digest(format!("{}\0{}", self.server, self.principal));
        digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[derive(Serialize, Deserialize)]
struct StoredLogin {
    account: Account,
    record: Record,
}

impl StoredLogin {
    fn shown(self) -> Held {
        let Self { account, record } = self;
        let tokens = record.tokens.as_ref();
        Held {
            server: account.server,
            principal: account.principal,
            issuer: record.issuer,
            scopes: record.scopes,
            expires_at: tokens.and_then(|tokens| tokens.expires_at),
            logged_in: tokens.is_some(),
            renewable: tokens.is_some_and(|tokens| tokens.refresh.is_some()),
        }
    }
}

/// What is kept of a login. Who we are to the authorization server is part of it, a registered
/// secret included: a refresh token is of no use without.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) client_id: String,
    #[serde(with = "exposed_option")]
    pub(super) client_secret: Option<SecretString>,
    pub(super) redirect_uri: String,
    pub(super) issuer: Option<String>,
    /// What was asked for and what was granted: a step-up asks for all of it again, and for more.
    pub(super) scopes: Vec<String>,
    pub(super) tokens: Option<Tokens>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Tokens {
    #[serde(with = "exposed")]
    pub(super) access: SecretString,
    #[serde(with = "exposed_option")]
    pub(super) refresh: Option<SecretString>,
    /// Seconds since 1970, as all times here.
    pub(super) received_at: u64,
    pub(super) expires_at: Option<u64>,
}

/// Renewed this long before the end, so that no request is under way when it comes.
const MARGIN_SECONDS: u64 = 60;

impl Tokens {
    /// Whether it should not be used for a new request. A token of short life has a margin of its
    /// own, or it would be stale from the start.
    pub(super) fn is_stale(&self, now: u64) -> bool {
        let margin = |end: u64| MARGIN_SECONDS.min(end.saturating_sub(self.received_at) / 5);
        self.expires_at.is_some_and(|end| now + margin(end) >= end)
    }

    pub(super) fn has_ended(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }

    pub(super) fn is(&self, access: &SecretString) -> bool {
        self.access.expose_secret() == access.expose_secret()
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Secrets as they are: only ever into the encrypted file.
mod exposed {
    use super::{Deserialize, ExposeSecret, SecretString};

    pub(super) fn serialize<S: serde::Serializer>(secret: &SecretString, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(secret.expose_secret())
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(from: D) -> Result<SecretString, D::Error> {
        String::deserialize(from).map(SecretString::from)
    }
}

mod exposed_option {
    use super::{Deserialize, ExposeSecret, SecretString, Serialize};

    pub(super) fn serialize<S: serde::Serializer>(
        secret: &Option<SecretString>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        secret.as_ref().map(|secret| secret.expose_secret()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Option<SecretString>, D::Error> {
        Option::<String>::deserialize(from).map(|secret| secret.map(SecretString::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(access: &str) -> Record {
        Record {
            client_id: "id".to_owned(),
            client_secret: Some("client-secret-1".into()),
            redirect_uri: "http://127.0.0.1:1/callback".to_owned(),
            issuer: Some("https://as.example".to_owned()),
            scopes: vec!["read".to_owned()],
            tokens: Some(Tokens {
                access: access.into(),
                refresh: Some("refresh-1".into()),
                received_at: 1_000,
                expires_at: Some(4_600),
            }),
        }
    }

    fn account(principal: &str) -> Account {
        Account::new(&Url::parse("https://mcp.example/mcp").unwrap(), principal)
    }

    #[tokio::test]
    async fn a_record_survives_and_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(folder.path()).unwrap();
        store.save(&account("ann"), record("access-ann")).await.unwrap();
        store.save(&account("bob"), record("access-bob")).await.unwrap();
        let again = TokenStore::open(folder.path()).unwrap();
        let tokens = again.load(&account("ann")).await.unwrap().unwrap().tokens.unwrap();
        assert!(tokens.is(&"access-ann".into()));
        assert!(again.load(&account("eve")).await.unwrap().is_none());
        assert!(again.forget(&Url::parse("https://mcp.example/mcp").unwrap(), "ann").await.unwrap());
        assert!(store.load(&account("ann")).await.unwrap().is_none());
        assert_eq!(store.list().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn nothing_of_it_is_readable_and_the_files_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(folder.path()).unwrap();
        store.save(&account("ann"), record("access-ann")).await.unwrap();
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            let bytes = std::fs::read(entry.path()).unwrap();
            for secret in ["access-ann", "refresh-1", "client-secret-1", "mcp.example"] {
                assert!(
                    !bytes.windows(secret.len()).any(|part| part == secret.as_bytes()),
                    "{entry:?} {secret}"
                );
            }
            let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "{entry:?}");
        }
        let shown = format!("{store:?} {:?} {:?}", record("access-ann"), store.list().await.unwrap());
        for secret in ["access-ann", "refresh-1", "client-secret-1"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[tokio::test]
    async fn tampering_and_wrong_keys_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::open(folder.path()).unwrap();
        store.save(&account("ann"), record("access-ann")).await.unwrap();
        let file = folder.path().join("oauth.tokens");
        let good = std::fs::read(&file).unwrap();
        let told = async || store.load(&account("ann")).await.map(|_| ()).unwrap_err().to_string();
        for at in [0, 14, 30, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(&file, bad).unwrap();
            let told = told().await;
            assert!(told.contains("was changed") || told.contains("not a file of tokens"), "{told}");
        }
        std::fs::write(&file, &good[..20]).unwrap();
        assert!(told().await.contains("cut short"));
        std::fs::write(&file, &good).unwrap();
        let other = TokenStore::with_key(folder.path(), SecretBox::new(Box::new([7; 32])));
        assert!(other.load(&account("ann")).await.unwrap_err().to_string().contains("its key was"));
        assert!(
            other.save(&account("ann"), record("x")).await.is_err(),
            "it must not overwrite what it cannot read"
        );
        assert!(store.load(&account("ann")).await.unwrap().is_some());
    }

    #[test]
    fn a_key_is_never_made_anew_for_tokens_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let _ = TokenStore::open(folder.path()).unwrap();
        let (key, tokens) = (folder.path().join("oauth.key"), folder.path().join("oauth.tokens"));
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        assert!(TokenStore::open(folder.path()).unwrap_err().to_string().contains("read by others"));
        std::fs::remove_file(&key).unwrap();
        std::fs::write(&tokens, "x").unwrap();
        assert!(TokenStore::open(folder.path()).unwrap_err().to_string().contains("oauth.key"));
        assert!(!key.exists());
    }

    #[tokio::test]
    async fn writers_side_by_side_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let stores = [TokenStore::open(folder.path()).unwrap(), TokenStore::open(folder.path()).unwrap()];
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..20 {
            let store = stores[n % 2].clone();
            tasks.spawn(async move { store.save(&account(&n.to_string()), record("a")).await });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap().unwrap();
        }
        assert_eq!(stores[0].list().await.unwrap().len(), 20);
    }

    #[test]
    fn a_token_is_renewed_before_its_end() {
        let tokens = |lifetime: u64| Tokens {
            access: "a".into(),
            refresh: None,
            received_at: 1_000,
            expires_at: Some(1_000 + lifetime),
        };
        assert!(!tokens(3_600).is_stale(1_000 + 3_539));
        assert!(tokens(3_600).is_stale(1_000 + 3_540));
        assert!(!tokens(3_600).has_ended(1_000 + 3_599));
        assert!(!tokens(10).is_stale(1_007), "short lives have short margins");
        assert!(tokens(10).is_stale(1_008));
        assert!(tokens(0).is_stale(1_000));
        assert!(!Tokens { expires_at: None, ..tokens(0) }.is_stale(u64::MAX));
    }
}
