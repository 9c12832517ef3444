//! An office with mails, a runtime around it, and a mail server that does what a test says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use helve::approvals::{Decider, Decision, Vouch};
use helve::{BoxFuture, Call, Caller, Layer, Outcome, Registry, Runtime, Status, VolatileLedger};
use helve_office::account::{
    Envelope, Fault, Flags, Folder, FolderRole, MailChanges, MailStore, NewMail, Submit, Submitted,
};
use helve_office::embedded::{EmbeddedMails, EmbeddedOutbox};
use helve_office::text::{Address, Mailbox, MessageId};
use helve_office::tools::office_tools;
use helve_office::{Account, Office, OfficeSettings};
use helve_store::office::{AccountRow, OfficeDb};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Notify;

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) office: Arc<Office>,
    pub(crate) runtime: Runtime,
    pub(crate) local: EmbeddedMails,
}

pub(crate) fn me() -> Mailbox {
    Mailbox::parse("Me Myself <me@example.org>").unwrap()
}

impl World {
    /// The local account alone.
    pub(crate) fn new() -> Self {
        Self::with(OfficeSettings { zone: TimeZone::UTC, recipient_domains: Vec::new() })
    }

    pub(crate) fn with(settings: OfficeSettings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = OfficeDb::open(&dir.path().join("office.db")).unwrap();
        Self::around(dir, db, settings, Arc::default())
    }

    pub(crate) fn around(
        dir: TempDir,
        db: OfficeDb,
        settings: OfficeSettings,
        ledger: Arc<VolatileLedger>,
    ) -> Self {
        let local = EmbeddedMails::new(&db, Some(me().address().clone()));
        let office = Arc::new(Office::new(db, settings));
        office.set_accounts([Arc::new(Account {
            id: "local".to_owned(),
            kind: "embedded".to_owned(),
            person: Some(me()),
            owner: None,
            mails: Some(Arc::new(local.clone())),
            submit: Some(Arc::new(EmbeddedOutbox)),
            objects: None,
        })]);
        let registry = Registry::default();
        registry.register_many(Layer::BuiltIn, office_tools(&office)).unwrap();
        let runtime =
            Runtime::builder().registry(registry).ledger(ledger).integrations(office.clone()).build();
        Self { dir, office, runtime, local }
    }

    /// The local account and one behind a server that does what a test says.
    pub(crate) async fn connected() -> (Self, Arc<Server>) {
        let world = Self::new();
        let server = world.connect("work", None).await;
        (world, server)
    }

    /// One more account.
    pub(crate) async fn connect(&self, id: &str, owner: Option<&str>) -> Arc<Server> {
        let server = Arc::new(Server::default());
        self.connect_to(id, owner, &server).await;
        server
    }

    pub(crate) async fn connect_to(&self, id: &str, owner: Option<&str>, server: &Arc<Server>) {
        let row = AccountRow {
            id: id.to_owned(),
            kind: "mail".to_owned(),
            address: Some("me@example.org".to_owned()),
            name: None,
            owner: owner.map(str::to_owned),
            settings: "{}".to_owned(),
            created_at: Timestamp::now(),
            synced_at: None,
            trouble: None,
        };
        self.office.db().add_account(row).await.unwrap();
        let account = Account {
            id: id.to_owned(),
            kind: "mail".to_owned(),
            person: Some(me()),
            owner: owner.map(str::to_owned),
            mails: Some(server.clone()),
            submit: Some(server.clone()),
            objects: None,
        };
        let accounts: Vec<_> = self.office.accounts().iter().cloned().chain([Arc::new(account)]).collect();
        self.office.set_accounts(accounts);
    }

    pub(crate) fn account(&self, id: &str) -> Arc<Account> {
        self.office.accounts().iter().find(|account| account.id == id).unwrap().clone()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.runtime.call(Call::new(tool, arguments).by(Caller::local())).await
    }

    /// A call that must work.
    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.call(tool, arguments.clone()).await;
        match outcome.into_result() {
            Ok(value) => value,
            Err(error) => panic!("{tool} {arguments}: {error:?}"),
        }
    }

    /// A call that must fail: the name of the error and what it says.
    pub(crate) async fn fails(&self, tool: &str, arguments: Value) -> (String, String) {
        match self.call(tool, arguments.clone()).await.into_result() {
            Err(error) => (error.name().to_owned(), error.message().to_owned()),
            Ok(value) => panic!("{tool} {arguments}: {value}"),
        }
    }

    /// A send that a person approves. What they saw, and what came of it.
    pub(crate) async fn send(&self, arguments: Value) -> (String, Outcome) {
        self.approved(Call::new("send_email", arguments).by(Caller::local())).await
    }

    pub(crate) async fn approved(&self, call: Call) -> (String, Outcome) {
        let caller = Arc::clone(&call.caller);
        let outcome = self.runtime.call(call).await;
        let id = match &outcome.status {
            Status::Pending(pending) => pending.approval_id,
            _ => return (String::new(), outcome),
        };
        let seen = self.runtime.approvals().get(id).await.unwrap().unwrap();
        self.runtime
            .approvals()
            .decide(id, Decision::approve(), &Decider::vouched("ada", Vouch::LocalUser))
            .await
            .unwrap();
        (seen.preview.unwrap_or_default(), self.runtime.outcome_of(id, &caller).await.unwrap())
    }

    /// Puts a message into a folder of the local account.
    pub(crate) async fn put(&self, folder: &str, message: &str) {
        let message = message.replace('\n', "\r\n");
        self.local.append(folder, Bytes::from(message), Flags::default()).await.unwrap();
    }

    /// The ids of what a search finds.
    pub(crate) async fn found(&self, arguments: Value) -> Vec<String> {
        let answer = self.ok("search_emails", arguments).await;
        ids(&answer)
    }

    /// The subjects of what a search finds.
    pub(crate) async fn subjects(&self, arguments: Value) -> Vec<String> {
        let answer = self.ok("search_emails", arguments).await;
        texts(&answer["emails"], "subject")
    }
}

pub(crate) fn ids(answer: &Value) -> Vec<String> {
    texts(&answer["emails"], "id")
}

pub(crate) fn texts(list: &Value, field: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap().to_owned()).collect()
}

/// A mail with these headers.
pub(crate) fn mail(number: u32, subject: &str, from: &str, body: &str) -> String {
    format!(
        "From: {from}\nTo: Me <me@example.org>\nSubject: {subject}\nMessage-ID: <{number}@example.net>\n\
         Date: Mon, 2 Nov 2026 10:{:02}:{:02} +0000\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{body}\n",
        number / 60 % 60,
        number % 60
    )
}

/// What a server does with the next mail that it is handed.
#[derive(Debug, Clone)]
pub(crate) enum Submits {
    Takes,
    /// Takes it, keeps a copy in Sent, and its answer is lost.
    LosesReplyButKeepsCopy,
    /// Its answer is lost.
    LosesReply,
    Refuses {
        temporary: bool,
    },
    /// Never answers the submission.
    Hangs,
    /// Takes it once the test lets it.
    TakesLate,
}

/// A mail server in memory.
pub(crate) struct Server {
    pub(crate) folders: Mutex<BTreeMap<String, Vec<NewMail>>>,
    pub(crate) gone: Mutex<Vec<(String, String)>>,
    pub(crate) handed: Mutex<Vec<(Envelope, Bytes)>>,
    pub(crate) submits: Mutex<Submits>,
    /// Whether APPEND works.
    pub(crate) appends: Mutex<bool>,
    /// Whether it says that it keeps a copy of what it takes.
    pub(crate) keeps: Mutex<bool>,
    /// Whether it can take a message away, and not only mark it.
    pub(crate) expunges: Mutex<bool>,
    /// Lets it answer that takes a mail late.
    pub(crate) answers: Notify,
    next: AtomicU32,
}

impl Default for Server {
    fn default() -> Self {
        let folders = ["INBOX", "Drafts", "Sent Items", "Junk"].map(|name| (name.to_owned(), Vec::new()));
        Self {
            folders: Mutex::new(folders.into_iter().collect()),
            gone: Mutex::default(),
            handed: Mutex::default(),
            submits: Mutex::new(Submits::Takes),
            appends: Mutex::new(true),
            keeps: Mutex::new(false),
            expunges: Mutex::new(true),
            answers: Notify::new(),
            next: AtomicU32::new(1),
        }
    }
}

impl Server {
    pub(crate) fn put(&self, folder: &str, message: &str) -> String {
        self.put_bytes(folder, message.replace('\n', "\r\n").into(), Flags::default())
    }

    pub(crate) fn put_bytes(&self, folder: &str, bytes: Bytes, flags: Flags) -> String {
        let key = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let mail =
            NewMail { key: key.clone(), flags, received: Timestamp::now(), size: bytes.len() as u64, bytes };
        self.folders.lock().unwrap().get_mut(folder).unwrap().push(mail);
        key
    }

    pub(crate) fn in_folder(&self, folder: &str) -> Vec<Bytes> {
        self.folders.lock().unwrap()[folder].iter().map(|mail| mail.bytes.clone()).collect()
    }

    pub(crate) fn handed(&self) -> usize {
        self.handed.lock().unwrap().len()
    }

    pub(crate) fn set(&self, submits: Submits) {
        *self.submits.lock().unwrap() = submits;
    }
}

impl MailStore for Server {
    fn folders(&self) -> BoxFuture<'_, Result<Vec<Folder>, Fault>> {
        let role = |name: &str| match name {
            "INBOX" => Some(FolderRole::Inbox),
            "Drafts" => Some(FolderRole::Drafts),
            "Sent Items" => Some(FolderRole::Sent),
            "Junk" => Some(FolderRole::Junk),
            "Trash" => Some(FolderRole::Trash),
            "All Mail" => Some(FolderRole::Everything),
            _ => None,
        };
        let names: Vec<String> = self.folders.lock().unwrap().keys().cloned().collect();
        let folders = names.into_iter().map(|name| Folder { role: role(&name), path: name.clone(), name });
        Box::pin(std::future::ready(Ok(folders.collect())))
    }

    /// Two mails a page; the state is the highest key seen.
    fn changes<'a>(
        &'a self,
        folder: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<MailChanges, Fault>> {
        let since: u32 = since.map_or(0, |since| since.parse().unwrap());
        let folders = self.folders.lock().unwrap();
        let all = &folders[folder];
        let new: Vec<_> =
            all.iter().filter(|mail| mail.key.parse::<u32>().unwrap() > since).take(2).cloned().collect();
        let state = new.last().map_or(since.to_string(), |mail| mail.key.clone());
        let more = all.last().is_some_and(|last| last.key.parse::<u32>().unwrap() > state.parse().unwrap());
        let gone = self
            .gone
            .lock()
            .unwrap()
            .iter()
            .filter(|(from, _)| from == folder)
            .map(|(_, key)| key.clone())
            .collect();
        let changes =
            MailChanges { new, state, more, gone, total: Some(all.len() as u64), ..MailChanges::default() };
        Box::pin(std::future::ready(Ok(changes)))
    }

    fn fetch<'a>(
        &'a self,
        folder: &'a str,
        key: &'a str,
        _bytes_max: usize,
    ) -> BoxFuture<'a, Result<Bytes, Fault>> {
        let folders = self.folders.lock().unwrap();
        let found = folders[folder].iter().find(|mail| mail.key == key).map(|mail| mail.bytes.clone());
        Box::pin(std::future::ready(found.ok_or_else(|| Fault::Gone("gone".to_owned()))))
    }

    fn append<'a>(
        &'a self,
        folder: &'a str,
        message: Bytes,
        flags: Flags,
    ) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        let works = *self.appends.lock().unwrap();
        let appended = match works {
            true => Ok(Some(self.put_bytes(folder, message, flags))),
            false => Err(Fault::Unreachable("the server is down".to_owned())),
        };
        Box::pin(std::future::ready(appended))
    }

    fn remove<'a>(&'a self, folder: &'a str, key: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        if !*self.expunges.lock().unwrap() {
            return Box::pin(std::future::ready(Err(Fault::Marked("only marked".to_owned()))));
        }
        self.folders.lock().unwrap().get_mut(folder).unwrap().retain(|mail| mail.key != key);
        self.gone.lock().unwrap().push((folder.to_owned(), key.to_owned()));
        Box::pin(std::future::ready(Ok(())))
    }

    fn find<'a>(&'a self, folder: &'a str, id: &'a MessageId) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        let folders = self.folders.lock().unwrap();
        let has =
            |mail: &&NewMail| String::from_utf8_lossy(&mail.bytes).contains(&format!("Message-ID: {id}\r\n"));
        let keys = folders[folder].iter().filter(has).map(|mail| mail.key.clone()).collect();
        Box::pin(std::future::ready(Ok(keys)))
    }
}

impl Submit for Server {
    fn keeps_copy(&self) -> bool {
        *self.keeps.lock().unwrap()
    }

    fn submit<'a>(&'a self, envelope: &'a Envelope, message: Bytes) -> BoxFuture<'a, Submitted> {
        self.handed.lock().unwrap().push((envelope.clone(), message.clone()));
        let submits = self.submits.lock().unwrap().clone();
        let submitted = match submits {
            Submits::Takes => Submitted::Accepted("250 queued".to_owned()),
            Submits::LosesReplyButKeepsCopy => {
                self.put_bytes("Sent Items", message, Flags::default());
                Submitted::Unknown("the connection was lost".to_owned())
            }
            Submits::LosesReply => Submitted::Unknown("the connection was lost".to_owned()),
            Submits::Refuses { temporary } => {
                Submitted::Refused { why: "550 no".to_owned(), temporary, recipients: Vec::new() }
            }
            Submits::Hangs => return Box::pin(std::future::pending()),
            Submits::TakesLate => {
                return Box::pin(async {
                    self.answers.notified().await;
                    Submitted::Accepted("250 queued at last".to_owned())
                });
            }
        };
        Box::pin(std::future::ready(submitted))
    }
}

/// Everybody in an envelope.
pub(crate) fn recipients(envelope: &Envelope) -> Vec<&str> {
    envelope.to.iter().map(Address::as_str).collect()
}
