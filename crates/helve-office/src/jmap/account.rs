//! An account on a JMAP server, as the office pack asks for it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use helve_core::{BoxFuture, boxed};
use serde_json::Value;

use super::call::{CallFault, call};
use super::session::{Session, is_id};
use super::{mails, submit, sync};
use crate::account::{Envelope, Fault, Flags, Folder, MailChanges, MailStore, Submit, Submitted};
use crate::text::MessageId;
use crate::web::{Intent, Server, WebSettings};

/// Most ids that are remembered of one mailbox.
const KNOWN_MAX: usize = 200_000;

/// The mails of an account on a JMAP server, and a way to send.
pub struct JmapAccount {
    pub(super) server: Server,
    session: Mutex<Option<Arc<Session>>>,
    /// Ids that were handed out, by mailbox: what changes on these are only marks.
    known: Mutex<HashMap<String, HashSet<String>>>,
}

impl JmapAccount {
    /// An account. Asks the server nothing yet.
    pub fn new(settings: &WebSettings) -> Result<Self, Fault> {
        Ok(Self { server: Server::new(settings)?, session: Mutex::default(), known: Mutex::default() })
    }

    /// Logs in, and says whether mails can be sent as well as read.
    pub async fn check(&self) -> Result<bool, Fault> {
        Ok(self.session().await?.submits)
    }

    /// What the server says of itself, asked once.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Fault> {
        if let Some(session) = locked(&self.session).as_ref() {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::open(&self.server).await?);
        *locked(&self.session) = Some(Arc::clone(&session));
        Ok(session)
    }

    /// Calls a method that only reads.
    pub(super) async fn read(&self, method: &'static str, arguments: Value) -> Result<Value, CallFault> {
        self.call(Intent::Read, method, arguments).await
    }

    /// Calls a method that changes something.
    pub(super) async fn change(&self, method: &'static str, arguments: Value) -> Result<Value, CallFault> {
        self.call(Intent::Change, method, arguments).await
    }

    async fn call(&self, intent: Intent, method: &'static str, arguments: Value) -> Result<Value, CallFault> {
        let answer = call(&self.server, &*self.session().await?, intent, method, arguments).await;
        if let Err(CallFault::Fault(Fault::Gone(_) | Fault::Refused(_))) = answer {
            // The server may have moved its parts: next time it is asked again where they are.
            *locked(&self.session) = None;
        }
        answer
    }

    pub(super) fn nonsense(&self, why: &str) -> Fault {
        Fault::Nonsense(format!("`{}` {why}", self.server.host()))
    }

    pub(super) fn is_known(&self, mailbox: &str, id: &str) -> bool {
        locked(&self.known).get(mailbox).is_some_and(|known| known.contains(id))
    }

    pub(super) fn learn(&self, mailbox: &str, id: &str) {
        let mut known = locked(&self.known);
        let ids = known.entry(mailbox.to_owned()).or_default();
        if ids.len() < KNOWN_MAX {
            ids.insert(id.to_owned());
        }
    }

    pub(super) fn forget(&self, mailbox: &str, id: Option<&str>) {
        let mut known = locked(&self.known);
        match id {
            Some(id) => drop(known.get_mut(mailbox).map(|ids| ids.remove(id))),
            None => drop(known.remove(mailbox)),
        }
    }
}

/// A mailbox's or message's id, as it was kept.
pub(super) fn checked(id: &str) -> Result<&str, Fault> {
    match is_id(id) {
        true => Ok(id),
        false => Err(Fault::Refused("that is no folder or message of a JMAP server".to_owned())),
    }
}

impl MailStore for JmapAccount {
    fn folders(&self) -> BoxFuture<'_, Result<Vec<Folder>, Fault>> {
        boxed(|| mails::folders(self))
    }

    fn changes<'a>(
        &'a self,
        folder: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<MailChanges, Fault>> {
        boxed(move || async move { sync::changes(self, checked(folder)?, since).await })
    }

    fn fetch<'a>(
        &'a self,
        folder: &'a str,
        key: &'a str,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Bytes, Fault>> {
        boxed(move || async move { mails::fetch(self, checked(folder)?, checked(key)?, bytes_max).await })
    }

    fn append<'a>(
        &'a self,
        folder: &'a str,
        message: Bytes,
        flags: Flags,
    ) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        boxed(move || async move { mails::append(self, checked(folder)?, message, flags).await.map(Some) })
    }

    fn remove<'a>(&'a self, folder: &'a str, key: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        boxed(move || async move { mails::remove(self, checked(folder)?, checked(key)?).await })
    }

    fn find<'a>(&'a self, folder: &'a str, id: &'a MessageId) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        boxed(move || async move { mails::find(self, checked(folder)?, id).await })
    }
}

impl Submit for JmapAccount {
    fn submit<'a>(&'a self, envelope: &'a Envelope, message: Bytes) -> BoxFuture<'a, Submitted> {
        boxed(move || submit::submit(self, envelope, message))
    }

    // The server moves what it took from the drafts to the sent mails.
    fn keeps_copy(&self) -> bool {
        true
    }
}

impl fmt::Debug for JmapAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JmapAccount").field("host", &self.server.host()).finish_non_exhaustive()
    }
}

/// What is remembered is whole after every change, so a panic elsewhere spoils nothing.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
