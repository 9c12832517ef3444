//! The mail tools against real servers: Dovecot, and an SMTP server with faults. Its log of what it took is the witness.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use helve::run::Recalled;
use helve::{BoxFuture, CallId, Caller, Context, ContextParts, Tool};
use helve_office::account::{Envelope, Fault, Flags, Folder, MailChanges, MailStore, Submit, Submitted};
use helve_office::imap::ImapAccount;
use helve_office::smtp::SmtpSubmit;
use helve_office::sync::sync_mails;
use helve_office::text::{Mailbox, MessageId};
use helve_office::tools::office_tools;
use helve_office::wire::{Login, Security, Server, Timeouts};
use helve_office::{Account, Office, OfficeSettings};
use helve_store::office::{AccountRow, OfficeDb};
use helve_testkit::OfficeServers;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::mail_world::{World, texts};

/// Where the servers are, also for a process that did not start them.
#[derive(Clone)]
struct Place(Value);

impl Place {
    fn of(servers: &OfficeServers) -> Self {
        let server = |which: &str| {
            json!([servers.text(&format!("/{which}/host")), servers.port(&format!("/{which}/port"))])
        };
        Self(json!({ "imaps": server("imaps"), "smtps": server("smtps"), "ca": servers.text("/ca") }))
    }

    fn server(&self, which: &str) -> Server {
        let port = u16::try_from(self.0[which][1].as_u64().unwrap()).unwrap();
        let server = Server::new(self.0[which][0].as_str().unwrap(), port, Security::Tls);
        Server { ca_file: Some(self.0["ca"].as_str().unwrap().into()), ..server }
    }

    fn login(name: &str) -> Login {
        Login::Password { user: format!("{name}@example.test"), password: format!("{name}-pw").into() }
    }

    /// Somebody's account, which ends its process at a moment of the test's choosing.
    fn account(&self, name: &str, dies: Option<String>) -> Account {
        let timeouts = Timeouts {
            silence: Duration::from_secs(5),
            delivery: Duration::from_secs(5),
            ..Timeouts::default()
        };
        let imap = ImapAccount::new(self.server("imaps"), Self::login(name)).with_timeouts(timeouts);
        let smtp = SmtpSubmit::new(self.server("smtps"), Self::login(name)).with_timeouts(timeouts);
        let mortal = Arc::new(Mortal { imap, smtp, dies });
        Account {
            id: name.to_owned(),
            kind: "mail".to_owned(),
            person: Some(Mailbox::parse(&format!("{name}@example.test")).unwrap()),
            owner: None,
            mails: Some(mortal.clone()),
            submit: Some(mortal),
            objects: None,
        }
    }
}

/// Real servers, and a process that ends at a moment.
struct Mortal {
    imap: ImapAccount,
    smtp: SmtpSubmit,
    dies: Option<String>,
}

impl Mortal {
    fn pass(&self, moment: &str) {
        if self.dies.as_deref() == Some(moment) {
            // As by `kill -9`: nothing is dropped, nothing is flushed.
            std::process::abort();
        }
    }
}

impl MailStore for Mortal {
    fn folders(&self) -> BoxFuture<'_, Result<Vec<Folder>, Fault>> {
        self.imap.folders()
    }

    fn changes<'a>(
        &'a self,
        folder: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<MailChanges, Fault>> {
        self.imap.changes(folder, since)
    }

    fn fetch<'a>(
        &'a self,
        folder: &'a str,
        key: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Bytes, Fault>> {
        self.imap.fetch(folder, key, most)
    }

    fn append<'a>(
        &'a self,
        folder: &'a str,
        message: Bytes,
        flags: Flags,
    ) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        Box::pin(async move {
            self.pass("before append");
            let key = self.imap.append(folder, message, flags).await;
            self.pass("after append");
            key
        })
    }

    fn remove<'a>(&'a self, folder: &'a str, key: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        self.pass("before remove");
        self.imap.remove(folder, key)
    }

    fn find<'a>(&'a self, folder: &'a str, id: &'a MessageId) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        self.imap.find(folder, id)
    }
}

impl Submit for Mortal {
    fn submit<'a>(&'a self, envelope: &'a Envelope, message: Bytes) -> BoxFuture<'a, Submitted> {
        Box::pin(async move {
            self.pass("before submit");
            let submitted = self.smtp.submit(envelope, message).await;
            self.pass("after submit");
            submitted
        })
    }
}

/// An office in a folder, with one account.
async fn office(folder: &Path, account: Account) -> Arc<Office> {
    let db = OfficeDb::open(&folder.join("office.db")).unwrap();
    let row = AccountRow {
        id: account.id.clone(),
        kind: account.kind.clone(),
        address: account.person.as_ref().map(|person| person.address().to_string()),
        name: None,
        owner: None,
        settings: "{}".to_owned(),
        created_at: Timestamp::now(),
        synced_at: None,
        trouble: None,
    };
    db.add_account(row).await.unwrap();
    let settings = OfficeSettings { zone: TimeZone::UTC, recipient_domains: Vec::new() };
    let office = Arc::new(Office::new(db, settings));
    office.set_accounts([Arc::new(account)]);
    office
}

fn tool(office: &Arc<Office>, name: &str) -> Tool {
    office_tools(office).into_iter().find(|tool| tool.name().as_str() == name).unwrap()
}

/// The context of a call under a key.
fn under(tool: &Tool, key: &str) -> Context {
    let deadline = Instant::now() + Duration::from_secs(60);
    let parts =
        ContextParts::new(CallId::new(Timestamp::now()), tool.name().clone(), Caller::local(), deadline);
    ContextParts { idempotency_key: Some(key.into()), ..parts }.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn drafts_sends_and_searches_on_real_servers() {
    let servers = OfficeServers::start();
    let place = Place::of(&servers);
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let alice = office(dir.path(), place.account("alice", None)).await;
    drop(world);
    let call = async |name: &str, arguments: Value| {
        let tool = tool(&alice, name);
        let key = CallId::new(Timestamp::now()).to_string();
        let context = under(&tool, &key);
        tool.handler().call(arguments, context).await
    };
    let draft = call("draft_email", json!({
        "to": ["bob@example.test"], "bcc": ["carol@example.test"], "subject": "日本語の件名", "body": "会議は明日です\n"
    })).await.unwrap();
    let listed = call("list_drafts", json!({})).await.unwrap();
    assert_eq!(texts(&listed["drafts"], "id"), [draft["id"].as_str().unwrap()]);
    let second =
        call("draft_email", json!({ "draft": draft["id"], "body": "会議は来週です\n" })).await.unwrap();
    let sent =
        call("send_email", json!({ "draft": second["id"], "version": second["version"] })).await.unwrap();
    assert_eq!((&sent["status"], &sent["remarks"]), (&json!("sent"), &Value::Null));
    assert_eq!(servers.sent().len(), 1);
    assert_eq!(servers.sent()[0]["message_id"], sent["message_id"]);
    let synced = sync_mails(alice.db(), &alice.accounts()[0], &|_| {}).await.unwrap();
    assert_eq!(synced.gone, 0);
    let found = call("search_emails", json!({ "query": "来週", "folder": "sent" })).await.unwrap();
    assert_eq!(
        texts(&found["emails"], "id"),
        [sent["copy"].as_str().unwrap()],
        "the id stays after the sync"
    );
    assert!(call("list_drafts", json!({})).await.unwrap()["drafts"].as_array().unwrap().is_empty());
    // Bob has it, without Bcc; carol has it too.
    for (name, folder) in [("bob", "b"), ("carol", "c")] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
        let theirs = office(&dir.path().join(folder), place.account(name, None)).await;
        sync_mails(theirs.db(), &theirs.accounts()[0], &|_| {}).await.unwrap();
        let search = tool(&theirs, "search_emails");
        let found = search.handler().call(json!({ "query": "会議" }), under(&search, "s")).await.unwrap();
        let id = texts(&found["emails"], "id").remove(0);
        let read = tool(&theirs, "read_email");
        let mail = read.handler().call(json!({ "id": id }), under(&read, "r")).await.unwrap();
        assert_eq!(mail["emails"][0]["body"].as_str().unwrap().trim(), "会議は来週です");
        assert!(!mail.to_string().contains("carol@example.test"), "{mail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_real_server_are_told_as_what_they_are_and_nothing_goes_twice() {
    let servers = OfficeServers::start();
    let place = Place::of(&servers);
    let dir = tempfile::tempdir().unwrap();
    let alice = office(dir.path(), place.account("alice", None)).await;
    let send = tool(&alice, "send_email");
    for (recipient, code, taken) in [
        ("reject@example.test", "REFUSED", 0),
        ("tempfail@example.test", "REFUSED_FOR_NOW", 0),
        ("data-reject@example.test", "REFUSED", 0),
        ("data-tempfail@example.test", "REFUSED_FOR_NOW", 0),
        ("lost-data@example.test", "outcome_unknown", 0),
        ("lost-reply@example.test", "outcome_unknown", 1),
    ] {
        let before = servers.sent().len();
        let arguments = json!({ "to": [recipient], "subject": "fault", "body": "x" });
        for _ in 0..2 {
            let error = send.handler().call(arguments.clone(), under(&send, recipient)).await.unwrap_err();
            assert_eq!(error.name(), code, "{recipient}: {error}");
        }
        assert_eq!(servers.sent().len() - before, taken, "{recipient}");
    }
    // Where the sender is among the recipients, a lost answer is found out.
    let both =
        json!({ "to": ["lost-reply@example.test", "alice@example.test"], "subject": "found", "body": "x" });
    let sent = send.handler().call(both, under(&send, "both")).await.unwrap();
    assert_eq!(sent["status"], "sent");
}

/// Ends at a moment of a send, when its environment says so; else it is no test.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies() {
    let (Ok(folder), Ok(moment)) = (std::env::var("HELVE_TEST_FOLDER"), std::env::var("HELVE_TEST_MOMENT"))
    else {
        return;
    };
    let place = Place(serde_json::from_str(&std::env::var("HELVE_TEST_PLACE").unwrap()).unwrap());
    let alice = office(Path::new(&folder), place.account("alice", Some(moment))).await;
    let arguments = serde_json::from_str(&std::env::var("HELVE_TEST_ARGUMENTS").unwrap()).unwrap();
    let send = tool(&alice, "send_email");
    let _ = send.handler().call(arguments, under(&send, "key")).await;
    std::process::exit(7);
}

#[expect(clippy::disallowed_methods, reason = "the test's own process, which is to die")]
fn run_until_it_dies(folder: &Path, place: &Place, moment: &str, arguments: &Value) {
    let done = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mail_real::a_process_that_dies"])
        .env("HELVE_TEST_FOLDER", folder)
        .env("HELVE_TEST_MOMENT", moment)
        .env("HELVE_TEST_PLACE", place.0.to_string())
        .env("HELVE_TEST_ARGUMENTS", arguments.to_string())
        .output()
        .unwrap();
    assert!(!done.status.success() && done.status.code() != Some(7), "{moment}: {done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_anywhere_in_a_send_sends_at_most_once() {
    let servers = OfficeServers::start();
    let place = Place::of(&servers);
    for (moment, to_self, expected, taken) in [
        ("before submit", false, "unknown", 0),
        ("after submit", false, "unknown", 1),
        ("after submit", true, "happened", 1),
        ("before append", false, "happened", 1),
        ("after append", false, "happened", 1),
        ("before remove", false, "happened", 1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let before = servers.sent().len();
        let alice = office(dir.path(), place.account("alice", None)).await;
        let draft = tool(&alice, "draft_email");
        let to = if to_self { "alice@example.test" } else { "bob@example.test" };
        let made = json!({ "to": [to], "subject": moment, "body": "x" });
        let made = draft.handler().call(made, under(&draft, moment)).await.unwrap();
        let arguments = json!({ "draft": made["id"] });
        run_until_it_dies(dir.path(), &place, moment, &arguments);
        assert_eq!(servers.sent().len() - before, taken, "{moment}");
        let send = tool(&alice, "send_email");
        let recalled = send.recall_handler().unwrap().recall(arguments.clone(), under(&send, "key")).await;
        let again = send.handler().call(arguments, under(&send, "key")).await;
        match expected {
            "unknown" => {
                assert_eq!(recalled.unwrap_err().name(), "outcome_unknown", "{moment}");
                assert_eq!(again.unwrap_err().name(), "outcome_unknown", "{moment}");
            }
            _ => {
                let Ok(Recalled::Happened(answer)) = recalled else { panic!("{moment}: {recalled:?}") };
                assert_eq!(again.unwrap(), answer, "{moment}");
                let id = MessageId::new(answer["message_id"].as_str().unwrap()).unwrap();
                let copies =
                    alice.accounts()[0].mails.as_ref().unwrap().find("Sent Items", &id).await.unwrap();
                assert_eq!(copies.len(), 1, "{moment}");
            }
        }
        assert_eq!(servers.sent().len() - before, taken, "{moment}");
    }
}
