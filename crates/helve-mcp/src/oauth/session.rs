//! One account at one server: its token, kept valid.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rmcp::transport::auth::WWWAuthenticateParams;
use secrecy::SecretString;
use url::Url;

use super::callback::{Callback, Ended};
use super::error::OAuthError;
use super::flow::{AuthServer, Client, Granted, RefreshFailure, check_scopes};
use super::http::Http;
use super::settings::{Identity, LoggedIn, LoginOptions, Settings};
use super::store::{Account, Record, TokenStore, Tokens, now};

/// The longest challenge that is looked at.
const CHALLENGE_BYTES_MAX: usize = 8 << 10;
/// The second token that is refused within this time is refused for another reason than its age.
const FRESH_SECONDS: u64 = 60;

/// One account at one server. Cheap to clone; however many ask, a token is renewed once, and once
/// among all processes that share the store.
///
/// ```no_run
/// # async fn example(url: url::Url) -> Result<(), Box<dyn std::error::Error>> {
/// use helve_mcp::oauth::{LoginOptions, Next, Session, Settings, TokenStore};
/// let client = helve_net::Client::new(helve_net::NetPolicy::default())?;
/// let store = TokenStore::open(std::path::Path::new("/var/lib/helve"))?;
/// let session = Session::new(Settings::new(url, "ann"), client, store)?;
///
/// let token = session.bearer().await?; // goes into `Authorization: Bearer …`
/// // The server answered 401 or 403:
/// match session.challenged(r#"Bearer error="invalid_token""#, token.as_ref()).await? {
///     Next::Retry => {} // with a new `bearer()`, once
///     Next::NeedsLogin { .. } => {
///         session.login(LoginOptions::default(), |url| println!("open {url}")).await?;
///     }
///     Next::StepUp { scope } => {
///         session.login(LoginOptions::step_up(&scope), |url| println!("open {url}")).await?;
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Session(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    account: Account,
    http: Http,
    store: TokenStore,
    seen: Mutex<Seen>,
    /// The right to renew, among the tasks of this process; and how that ended last.
    turn: tokio::sync::Mutex<Option<(Instant, OAuthError)>>,
}

/// What this process knows without looking it up.
#[derive(Debug, Default)]
struct Seen {
    tokens: Option<Tokens>,
    challenge: Option<String>,
    /// The token that came in the place of a refused one.
    second: Option<SecretString>,
}

/// What to do after a server has refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// There is another token: repeat the request once.
    Retry,
    /// A person has to log in.
    NeedsLogin {
        /// What went wrong, in words for the user.
        reason: String,
    },
    /// A person has to agree to more ([`LoginOptions::step_up`]).
    StepUp {
        /// What the server wants, beyond what there is.
        scope: String,
    },
}

/// Why a token is renewed.
#[derive(Debug)]
enum Why {
    /// It is, or may be, too old.
    Age,
    /// The server refused this one, or a request without one.
    Refused(Option<SecretString>),
}

impl Session {
    /// A session that keeps its tokens in `store` and reaches authorization servers through
    /// `client`.
    pub fn new(settings: Settings, client: helve_net::Client, store: TokenStore) -> Result<Self, OAuthError> {
        let http = Http::new(client, settings.server.clone());
        http.check("server", &settings.server)?;
        check_scopes(&settings.scopes)?;
        let account = Account::new(&settings.server, &settings.principal);
        let (seen, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self(Arc::new(Inner { settings, account, http, store, seen, turn })))
    }

    /// A valid access token, renewed if it is about to end; `None` where nobody has logged in.
    pub async fn bearer(&self) -> Result<Option<SecretString>, OAuthError> {
        if let Some(tokens) = self.0.seen().tokens.as_ref().filter(|tokens| !tokens.is_stale(now())) {
            return Ok(Some(tokens.access.clone()));
        }
        self.renew(Why::Age).await
    }

    /// What to do after a 401 or 403 with this `WWW-Authenticate` (several joined with `, `) to a
    /// request that carried the token `used`.
    pub async fn challenged(
        &self,
        www_authenticate: &str,
        used: Option<&SecretString>,
    ) -> Result<Next, OAuthError> {
        if www_authenticate.len() > CHALLENGE_BYTES_MAX {
            return Err(OAuthError::discovery("its challenge is too long"));
        }
        let said = WWWAuthenticateParams::parse(www_authenticate, &self.0.settings.server);
        self.0.seen().challenge = Some(www_authenticate.to_owned());
        if said.is_insufficient_scope() {
            return self.0.step_up(said.scope.as_deref().unwrap_or_default()).await;
        }
        match self.renew(Why::Refused(used.cloned())).await {
            Ok(Some(_)) => Ok(Next::Retry),
            Ok(None) => Ok(Next::NeedsLogin { reason: "no person has logged in yet".to_owned() }),
            Err(OAuthError::LoginNeeded { reason }) => Ok(Next::NeedsLogin { reason }),
            Err(error) => Err(error),
        }
    }

    /// Lets a person log in. `open` gets the address to open in a browser, checked; nothing is
    /// opened here.
    pub async fn login(
        &self,
        options: LoginOptions,
        open: impl FnOnce(&Url),
    ) -> Result<LoggedIn, OAuthError> {
        let inner = &self.0;
        let LoginOptions { scopes, patience, port, pasted } = options;
        let mut server = inner.discover().await?;
        let callback = Callback::listen(port).await?;
        let wanted = inner.wanted(scopes, &server).await?;
        let scopes = server.scopes(&wanted).await?;
        let client = inner.introduce(&mut server, callback.redirect_uri(), &scopes).await?;
        let (url, state) = server.authorization_url(&scopes).await?;
        open(&url);
        let (answer, browser) = callback.answer_or_pasted(&state, pasted, patience).await?;
        let logged_in = async {
            let granted = server.redeem(answer).await?;
            inner.keep_login(&server, client, scopes, granted).await
        };
        let logged_in = logged_in.await;
        browser.tell(if logged_in.is_ok() { Ended::LoggedIn } else { Ended::Failed }).await;
        logged_in
    }

    /// Forgets the login; whether there was one.
    pub async fn logout(&self) -> Result<bool, OAuthError> {
        let _turn = self.0.turn.lock().await;
        self.0.seen().tokens = None;
        self.0.store.replace(&self.0.account, None).await
    }

    /// Renews in its own task: who stops waiting must not lose a refresh token that the other
    /// side has already replaced.
    async fn renew(&self, why: Why) -> Result<Option<SecretString>, OAuthError> {
        let inner = Arc::clone(&self.0);
        let asked = Instant::now();
        let renewed = tokio::spawn(async move { inner.renew(why, asked).await }).await;
        renewed.unwrap_or_else(|_| Err(OAuthError::Renewal { reason: "the attempt broke off".to_owned() }))
    }
}

impl Inner {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Every state of it is a good one.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn renew(&self, why: Why, asked: Instant) -> Result<Option<SecretString>, OAuthError> {
        let mut turn = self.turn.lock().await;
        // What failed while we waited would only fail again.
        if let Some((_, error)) = turn.as_ref().filter(|(failed, _)| *failed >= asked) {
            return Err(error.clone());
        }
        let renewed = self.renew_in_turn(&why).await;
        *turn = renewed.as_ref().err().map(|error| (Instant::now(), error.clone()));
        renewed
    }

    async fn renew_in_turn(&self, why: &Why) -> Result<Option<SecretString>, OAuthError> {
        let record = self.store.load(&self.account).await?;
        if let Some(access) = self.usable(record.as_ref(), why) {
            return Ok(Some(access));
        }
        let is_machine = matches!(self.settings.identity, Identity::Machine { .. });
        if !is_machine && record.is_none_or(|record| record.tokens.is_none()) {
            return Ok(None);
        }
        let _turn = self.store.turn(&self.account).await?;
        // Another process may have been faster.
        let record = self.store.load(&self.account).await?;
        if let Some(access) = self.usable(record.as_ref(), why) {
            return Ok(Some(access));
        }
        if is_machine {
            return self.machine(record, &[]).await.map(Some);
        }
        let Some(record) = record else { return Ok(None) };
        let Some(tokens) = record.tokens.clone() else { return Ok(None) };
        self.refresh(record, &tokens, why).await.map(Some)
    }

    /// The stored token, where it will do; it is remembered.
    fn usable(&self, record: Option<&Record>, why: &Why) -> Option<SecretString> {
        let tokens = record?.tokens.as_ref()?;
        let refused = match why {
            Why::Age => false,
            Why::Refused(used) => used.as_ref().is_some_and(|used| tokens.is(used)),
        };
        if refused || tokens.is_stale(now()) {
            return None;
        }
        self.seen().tokens = Some(tokens.clone());
        Some(tokens.access.clone())
    }

    async fn refresh(&self, record: Record, tokens: &Tokens, why: &Why) -> Result<SecretString, OAuthError> {
        let refused = matches!(why, Why::Refused(Some(_)));
        let is_second = self.seen().second.as_ref().is_some_and(|second| tokens.is(second));
        if refused && is_second && now() < tokens.received_at + FRESH_SECONDS {
            return Err(OAuthError::login_needed("the server refuses a new token as well"));
        }
        let Some(refresh) = tokens.refresh.clone() else {
            return self.give_up(record, "the token has ended and cannot be renewed").await;
        };
        let mut server = match self.discover().await {
            Ok(server) => server,
            Err(error) => return last_resort(tokens, refused, error),
        };
        if server.issuer() != record.issuer.as_deref() {
            return self.give_up(record, "the server has changed its authorization server").await;
        }
        server.adopt(&Client {
            id: record.client_id.clone(),
            secret: record.client_secret.clone(),
            redirect_uri: record.redirect_uri.clone(),
        })?;
        match server.refresh(&record, &refresh).await {
            Ok(Granted { tokens: renewed, .. }) => {
                // Who sends no new refresh token means the old one to last.
                let renewed = Tokens { refresh: renewed.refresh.or(Some(refresh)), ..renewed };
                let access = renewed.access.clone();
                self.seen().second = refused.then(|| access.clone());
                self.keep(Record { tokens: Some(renewed), ..record }).await?;
                Ok(access)
            }
            Err(RefreshFailure::Refused(reason)) => self.give_up(record, &reason).await,
            Err(RefreshFailure::Failed(reason)) => {
                last_resort(tokens, refused, OAuthError::Renewal { reason })
            }
        }
    }

    /// A token for ourselves, with scopes beyond those that we had.
    async fn machine(&self, record: Option<Record>, more: &[String]) -> Result<SecretString, OAuthError> {
        let Identity::Machine { client_id, proof, issuer } = &self.settings.identity else {
            return Err(OAuthError::login_needed("only a person can ask for this"));
        };
        let mut server = self.discover().await?;
        same_issuer(issuer.as_deref(), record.as_ref(), &server)?;
        let had = record.map(|record| record.scopes).unwrap_or_default();
        let wanted = union([self.settings.scopes.clone(), had, more.to_vec()]);
        let scopes = match wanted.is_empty() {
            // Leave to renew is nothing that a machine needs.
            true => server.scopes(&[]).await?.into_iter().filter(|scope| scope != "offline_access").collect(),
            false => wanted,
        };
        let Granted { tokens, scopes: granted } = server.machine_token(client_id, proof, &scopes).await?;
        let access = tokens.access.clone();
        self.keep(Record {
            client_id: client_id.clone(),
            client_secret: None,
            redirect_uri: String::new(),
            issuer: server.issuer().map(str::to_owned),
            scopes: union([scopes, granted.unwrap_or_default()]),
            tokens: Some(tokens),
        })
        .await?;
        Ok(access)
    }

    async fn step_up(&self, scope: &str) -> Result<Next, OAuthError> {
        let wanted: Vec<String> = scope.split_whitespace().map(str::to_owned).collect();
        check_scopes(&wanted)?;
        let record = self.store.load(&self.account).await?;
        let had = record.as_ref().map(|record| record.scopes.clone()).unwrap_or_default();
        // To ask again for what was asked for already would go on for ever.
        if !wanted.is_empty() && wanted.iter().all(|scope| had.contains(scope)) {
            return Err(OAuthError::ScopeRefused { scope: wanted.join(" ") });
        }
        check_scopes(&union([had, wanted.clone()]))?;
        if let Identity::Machine { .. } = self.settings.identity {
            let _turn = self.turn.lock().await;
            let _among_processes = self.store.turn(&self.account).await?;
            self.machine(record, &wanted).await?;
            return Ok(Next::Retry);
        }
        Ok(Next::StepUp { scope: wanted.join(" ") })
    }

    async fn discover(&self) -> Result<AuthServer, OAuthError> {
        let challenge = self.seen().challenge.clone();
        AuthServer::discover(&self.http, &self.settings.server, challenge.as_deref()).await
    }

    /// The scopes to ask a person for: with a step-up all that was asked for before as well.
    async fn wanted(&self, more: Vec<String>, server: &AuthServer) -> Result<Vec<String>, OAuthError> {
        if more.is_empty() {
            return Ok(self.settings.scopes.clone());
        }
        let before = self.store.load(&self.account).await?;
        let before = before.filter(|record| record.issuer.as_deref() == server.issuer());
        let before = before.map(|record| record.scopes).unwrap_or_default();
        Ok(union([self.settings.scopes.clone(), before, more]))
    }

    /// Makes us known to the authorization server. A registration is made anew for each login: the
    /// port of the redirect is another, and one that was forgotten over there could not be told
    /// from a person who takes their time.
    async fn introduce(
        &self,
        server: &mut AuthServer,
        redirect_uri: &Url,
        scopes: &[String],
    ) -> Result<Client, OAuthError> {
        let known = |id: &str, secret: &Option<SecretString>| Client {
            id: id.to_owned(),
            secret: secret.clone(),
            redirect_uri: redirect_uri.as_str().to_owned(),
        };
        let client = match &self.settings.identity {
            Identity::Registered { client_id, client_secret, issuer } => {
                let before = self.store.load(&self.account).await?;
                same_issuer(issuer.as_deref(), before.as_ref(), server)?;
                known(client_id, client_secret)
            }
            Identity::Introduced { metadata_url: Some(document) } if server.reads_client_documents() => {
                if document.scheme() != "https" || document.path() == "/" {
                    let reason =
                        "the client metadata document must be at an https URL with a path".to_owned();
                    return Err(OAuthError::Setting { reason });
                }
                known(document.as_str(), &None)
            }
            Identity::Introduced { .. } => {
                let name = &self.settings.client_name;
                return server.register(name, redirect_uri, scopes).await;
            }
            Identity::Machine { .. } => {
                let reason = "this client acts for itself; nobody needs to log in".to_owned();
                return Err(OAuthError::Setting { reason });
            }
        };
        server.adopt(&client)?;
        Ok(client)
    }

    async fn keep_login(
        &self,
        server: &AuthServer,
        client: Client,
        asked: Vec<String>,
        granted: Granted,
    ) -> Result<LoggedIn, OAuthError> {
        let Granted { tokens, scopes: granted } = granted;
        let logged_in = LoggedIn {
            issuer: server.issuer().map(str::to_owned),
            scopes: granted.clone().unwrap_or_else(|| asked.clone()),
            renewable: tokens.refresh.is_some(),
        };
        // Not while a renewal of the login before is under way: it would write its own over it.
        let mut turn = self.turn.lock().await;
        let _among_processes = self.store.turn(&self.account).await?;
        *turn = None;
        self.keep(Record {
            client_id: client.id,
            client_secret: client.secret,
            redirect_uri: client.redirect_uri,
            issuer: logged_in.issuer.clone(),
            scopes: union([asked, granted.unwrap_or_default()]),
            tokens: Some(tokens),
        })
        .await?;
        Ok(logged_in)
    }

    async fn keep(&self, record: Record) -> Result<(), OAuthError> {
        // A token that could not be kept is of use all the same, but not for long and not to
        // others: better to hear of it now.
        self.store.save(&self.account, record.clone()).await?;
        self.seen().tokens = record.tokens;
        Ok(())
    }

    /// Forgets a token that will not come to life again, and asks for a person.
    async fn give_up(&self, record: Record, reason: &str) -> Result<SecretString, OAuthError> {
        self.seen().tokens = None;
        self.store.save(&self.account, Record { tokens: None, ..record }).await?;
        Err(OAuthError::login_needed(reason))
    }
}

/// A token that could not be renewed in time still counts to its end, unless it was refused.
fn last_resort(tokens: &Tokens, refused: bool, error: OAuthError) -> Result<SecretString, OAuthError> {
    if refused || tokens.has_ended(now()) { Err(error) } else { Ok(tokens.access.clone()) }
}

/// What an operator gave us by hand is for the authorization server that it came from: the configured
/// one, else the one that we first used it with.
fn same_issuer(
    configured: Option<&str>,
    before: Option<&Record>,
    server: &AuthServer,
) -> Result<(), OAuthError> {
    let expected = configured.or(before.and_then(|record| record.issuer.as_deref()));
    let plain = |issuer: &str| issuer.trim_end_matches('/').to_owned();
    if expected.is_none_or(|expected| server.issuer().map(plain) == Some(plain(expected))) {
        return Ok(());
    }
    let reason = "its authorization server is not the one that the client id is from; \
                  if that is right, log out, correct the configuration and log in again";
    Err(OAuthError::discovery(reason))
}

fn union<const N: usize>(lists: [Vec<String>; N]) -> Vec<String> {
    let mut all = Vec::new();
    for scope in lists.into_iter().flatten() {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all
}
