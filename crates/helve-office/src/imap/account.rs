//! The port to one account behind IMAP.

use std::time::Duration;

use bytes::Bytes;
use helve_core::BoxFuture;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use super::session::{self, Access, Session};
use super::state::State;
use super::{folders, messages, sync};
use crate::account::{Fault, Flags, Folder, MailChanges, MailStore};
use crate::text::{MessageId, SearchWords};
use crate::wire::{Login, Server, Timeouts};

/// Connections at once: one for a sync, and one for the person who waits.
const CONNECTIONS: usize = 2;
/// How long an unused connection is kept. Servers and routers drop them without a word after some minutes.
const KEPT_FOR: Duration = Duration::from_secs(240);
/// How long one wait for changes lasts at most; servers end the session after half an hour.
const IDLE_MAX: Duration = Duration::from_secs(25 * 60);
/// How long a kept connection may take for its first answer before a new one is tried.
const TRIED_FOR: Duration = Duration::from_secs(10);

/// The mails of one account behind IMAP.
///
/// Nothing that is read is marked as read. Connections are made when they are needed, kept, and replaced where the
/// server closed them meanwhile.
pub struct ImapAccount {
    server: Server,
    login: Login,
    timeouts: Timeouts,
    turns: Semaphore,
    kept: Mutex<Vec<(Session, Instant)>>,
    /// The connection on which changes are waited for.
    waiting: Mutex<Option<(Session, Instant)>>,
}

impl ImapAccount {
    /// An account. Connects to nothing yet.
    pub fn new(server: Server, login: Login) -> Self {
        let (turns, kept) = (Semaphore::new(CONNECTIONS), Mutex::default());
        Self { server, login, timeouts: Timeouts::default(), turns, kept, waiting: Mutex::default() }
    }

    /// The same with other patience.
    #[must_use]
    pub fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// Logs in, and says which extensions the server has.
    pub async fn abilities(&self) -> Result<Vec<String>, Fault> {
        let turn = self.turn().await?;
        let found = turn.session.abilities().map(str::to_owned).collect();
        turn.finish(Ok(found)).await
    }

    /// The keys of messages in a folder that have all of these words, as the server finds them.
    pub async fn search(&self, folder: &str, words: &SearchWords) -> Result<Vec<String>, Fault> {
        let (mut turn, opened) = self.enter(folder, Access::Read).await?;
        let found = messages::search_words(&mut turn.session, words).await;
        turn.finish(found.map(|uids| uids.iter().map(|uid| messages::key(&opened, uid)).collect())).await
    }

    /// Waits until a folder changed since a state of [`MailStore::changes`], and says whether it did. A hint when to
    /// look again, not a promise: flags may change unseen on servers that do not count changes. It has a connection
    /// of its own, which is kept for the next wait; one wait goes on at a time.
    pub async fn wait_for_change(&self, folder: &str, since: &str, at_most: Duration) -> Result<bool, Fault> {
        let mut waiting = self.waiting.lock().await;
        // Taken out: a wait that is cancelled or fails leaves no connection behind.
        let kept = waiting.take().filter(|(_, since)| since.elapsed() < KEPT_FOR);
        let (mut session, opened) = self.entered_to_wait(kept.map(|(session, _)| session), folder).await?;
        let changed = State::is_behind(since, &opened) || session.idle(at_most.min(IDLE_MAX)).await?;
        *waiting = Some((session, Instant::now()));
        Ok(changed)
    }

    async fn entered_to_wait(
        &self,
        kept: Option<Session>,
        folder: &str,
    ) -> Result<(Session, session::Folder), Fault> {
        if let Some(mut session) = kept
            && let Ok(Ok(opened)) = timeout(TRIED_FOR, session.enter(folder, Access::Read)).await
        {
            return Ok((session, opened));
        }
        let mut session = Session::open(&self.server, &self.login, self.timeouts).await?;
        if !session.can("IDLE") {
            return Err(Fault::Refused(format!("{} does not tell of changes (IDLE)", self.server)));
        }
        let opened = session.enter(folder, Access::Read).await?;
        Ok((session, opened))
    }

    /// A connection that answers.
    async fn turn(&self) -> Result<Turn<'_>, Fault> {
        let permit = self.permit().await?;
        if let Some(mut session) = self.kept().await
            && let Ok(Ok(())) = timeout(TRIED_FOR, session.leave()).await
        {
            return Ok(Turn { account: self, session, permit });
        }
        self.fresh(permit).await
    }

    /// A connection with a folder open.
    async fn enter(&self, path: &str, access: Access) -> Result<(Turn<'_>, session::Folder), Fault> {
        let permit = self.permit().await?;
        if let Some(mut session) = self.kept().await {
            let entered = timeout(TRIED_FOR, session.enter(path, access)).await;
            if let Some(entered) = answered(entered) {
                return Turn { account: self, session, permit }.entered(entered).await;
            }
        }
        self.enter_fresh(permit, path, access).await
    }

    /// A connection with a folder open to be read on.
    async fn stay(&self, path: &str) -> Result<(Turn<'_>, session::Folder), Fault> {
        let permit = self.permit().await?;
        if let Some(mut session) = self.kept().await {
            let entered = timeout(TRIED_FOR, session.stay(path)).await;
            if let Some(entered) = answered(entered) {
                return Turn { account: self, session, permit }.entered(entered).await;
            }
        }
        self.enter_fresh(permit, path, Access::Read).await
    }

    async fn enter_fresh<'a>(
        &'a self,
        permit: SemaphorePermit<'a>,
        path: &str,
        access: Access,
    ) -> Result<(Turn<'a>, session::Folder), Fault> {
        let mut turn = self.fresh(permit).await?;
        let entered = turn.session.enter(path, access).await;
        turn.entered(entered).await
    }

    /// The connection that was used last. It is no longer kept: its holder gives it back, or it is closed.
    async fn kept(&self) -> Option<Session> {
        let mut kept = self.kept.lock().await;
        kept.retain(|(_, since)| since.elapsed() < KEPT_FOR);
        kept.pop().map(|(session, _)| session)
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, Fault> {
        let closed = |_| Fault::Unreachable("the account is being closed".to_owned());
        self.turns.acquire().await.map_err(closed)
    }

    async fn fresh<'a>(&'a self, permit: SemaphorePermit<'a>) -> Result<Turn<'a>, Fault> {
        let session = Session::open(&self.server, &self.login, self.timeouts).await?;
        Ok(Turn { account: self, session, permit })
    }
}

/// What a kept connection answered first. None where the server closed it since, or forgot about us: nothing was
/// done on it yet, so a new one may try.
fn answered<T>(first: Result<Result<T, Fault>, Elapsed>) -> Option<Result<T, Fault>> {
    match first {
        Err(_) | Ok(Err(Fault::Unreachable(_) | Fault::Login(_))) => None,
        Ok(answered) => Some(answered),
    }
}

/// A connection in use. If it is not [`finish`](Turn::finish)ed, as in a cancelled call, it is closed: an
/// answer may still be on its way there.
struct Turn<'a> {
    account: &'a ImapAccount,
    session: Session,
    permit: SemaphorePermit<'a>,
}

impl<'a> Turn<'a> {
    async fn entered(
        self,
        entered: Result<session::Folder, Fault>,
    ) -> Result<(Turn<'a>, session::Folder), Fault> {
        match entered {
            Ok(folder) => Ok((self, folder)),
            Err(fault) => self.finish(Err(fault)).await,
        }
    }

    /// Keeps the connection for the next, unless what happened leaves doubts about it.
    async fn finish<T>(self, result: Result<T, Fault>) -> Result<T, Fault> {
        let is_good = match &result {
            Ok(_) | Err(Fault::Refused(_) | Fault::Marked(_) | Fault::Gone(_)) => true,
            Err(Fault::Unreachable(_) | Fault::Login(_) | Fault::Unknown(_) | Fault::Nonsense(_)) => false,
        };
        if is_good {
            self.account.kept.lock().await.push((self.session, Instant::now()));
        }
        drop(self.permit);
        result
    }
}

impl MailStore for ImapAccount {
    fn folders(&self) -> BoxFuture<'_, Result<Vec<Folder>, Fault>> {
        Box::pin(async {
            let mut turn = self.turn().await?;
            let listed = folders::list(&mut turn.session).await;
            turn.finish(listed).await
        })
    }

    fn changes<'a>(
        &'a self,
        folder: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<MailChanges, Fault>> {
        Box::pin(async move {
            let (mut turn, opened) = match since.is_some_and(State::has_more) {
                true => self.stay(folder).await?,
                false => self.enter(folder, Access::Read).await?,
            };
            let changes = sync::changes(&mut turn.session, opened, since).await;
            turn.finish(changes).await
        })
    }

    fn fetch<'a>(
        &'a self,
        folder: &'a str,
        key: &'a str,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Bytes, Fault>> {
        Box::pin(async move {
            let (mut turn, opened) = self.enter(folder, Access::Read).await?;
            let fetched = match messages::uid(&opened, key) {
                Ok(uid) => messages::fetch(&mut turn.session, uid, bytes_max).await,
                Err(fault) => Err(fault),
            };
            turn.finish(fetched).await
        })
    }

    fn append<'a>(
        &'a self,
        folder: &'a str,
        message: Bytes,
        flags: Flags,
    ) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        Box::pin(async move {
            let mut turn = self.turn().await?;
            let appended = messages::append(&mut turn.session, folder, &message, flags).await;
            match turn.finish(appended).await? {
                Some(key) => Ok(Some(key)),
                // Put there it is, so a fault from here on must not say otherwise.
                None => match messages::message_id(&message) {
                    Some(id) => {
                        Ok(self.find(folder, &id).await.ok().and_then(|found| found.into_iter().next_back()))
                    }
                    None => Ok(None),
                },
            }
        })
    }

    fn remove<'a>(&'a self, folder: &'a str, key: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let (mut turn, opened) = self.enter(folder, Access::Write).await?;
            let removed = match messages::uid(&opened, key) {
                Ok(uid) => messages::remove(&mut turn.session, uid).await,
                // From before the folder was numbered anew: it may still be there under another number.
                Err(fault) => Err(fault),
            };
            turn.finish(removed).await
        })
    }

    fn find<'a>(&'a self, folder: &'a str, id: &'a MessageId) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        Box::pin(async move {
            let (mut turn, opened) = self.enter(folder, Access::Read).await?;
            let found = messages::find(&mut turn.session, id).await;
            turn.finish(found.map(|uids| uids.iter().map(|uid| messages::key(&opened, *uid)).collect())).await
        })
    }
}
