//! JMAP against Cyrus, and against servers that are broken or mean ill.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use helve_office::account::{
    Envelope, Fault, Flags, FolderRole, MailChanges, MailStore, Submit as _, Submitted,
};
use helve_office::jmap::JmapAccount;
use helve_office::text::{Address, MessageId};
use helve_testkit::OfficeServers;
use serde_json::{Value, json};

use super::dav_server::{Fake, Pass, Reply, Seen, proxy, settings};

fn account(url: &str, user: &str) -> JmapAccount {
    JmapAccount::new(&settings(url, user)).unwrap()
}

fn message(id: &str, lines: usize) -> Bytes {
    let body = "Grüße aus der Küche, line after line of it.\r\n".repeat(lines);
    Bytes::from(format!(
        "From: alice@example.test\r\nTo: bob@example.test\r\nSubject: {id}\r\nMessage-ID: <{id}@example.test>\r\n\
         Date: Wed, 18 Nov 2026 10:00:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Transfer-Encoding: 8bit\r\n\r\n{body}"
    ))
}

fn message_id(id: &str) -> MessageId {
    MessageId::new(&format!("<{id}@example.test>")).unwrap()
}

async fn folder(account: &JmapAccount, role: FolderRole) -> String {
    let folders = account.folders().await.unwrap();
    folders.into_iter().find(|folder| folder.role == Some(role)).unwrap().path
}

/// All pages from a state on, as one.
async fn all_changes(account: &JmapAccount, folder: &str, since: Option<&str>) -> MailChanges {
    let mut whole = account.changes(folder, since).await.unwrap();
    while whole.more {
        let state = whole.state.clone();
        let next = account.changes(folder, Some(&state)).await.unwrap();
        assert!(!next.reset);
        whole.new.extend(next.new);
        whole.flags.extend(next.flags);
        whole.gone.extend(next.gone);
        (whole.state, whole.more) = (next.state, next.more);
    }
    whole
}

fn envelope(to: &[&str]) -> Envelope {
    let to = to.iter().map(|to| Address::new(to).unwrap()).collect();
    Envelope { from: Address::new("alice@example.test").unwrap(), to }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_is_read_whole_and_then_only_what_changed() {
    let cyrus = OfficeServers::start_jmap();
    let alice = account(&cyrus.text("/jmap/session"), "alice");
    assert!(alice.check().await.unwrap());
    let roles: Vec<_> = alice.folders().await.unwrap().into_iter().filter_map(|folder| folder.role).collect();
    let has = |role: &FolderRole| *role == FolderRole::Everything || roles.contains(role);
    assert!(FolderRole::ALL.iter().all(has), "{roles:?}");
    let (inbox, archive) =
        (folder(&alice, FolderRole::Inbox).await, folder(&alice, FolderRole::Archive).await);
    let empty = all_changes(&alice, &inbox, None).await;
    assert_eq!((empty.new.len(), empty.reset, empty.total), (0, false, Some(0)));

    let mut keys = Vec::new();
    for number in 0..120 {
        let seen = Flags { seen: number % 2 == 0, ..Flags::default() };
        keys.push(alice.append(&inbox, message(&format!("m{number}"), 1), seen).await.unwrap().unwrap());
    }
    let long = message("long", 10_000);
    let long_key = alice.append(&inbox, long.clone(), Flags::default()).await.unwrap().unwrap();
    alice.append(&archive, message("elsewhere", 1), Flags::default()).await.unwrap();

    // A first look at once after that: nothing is missing, whatever the server's index has come to.
    let first = all_changes(&alice, &inbox, None).await;
    let found: BTreeSet<&str> = first.new.iter().map(|mail| mail.key.as_str()).collect();
    assert_eq!((first.new.len(), found.len(), first.total), (121, 121, Some(121)));
    let one = first.new.iter().find(|mail| mail.key == keys[0]).unwrap();
    assert_eq!(one.bytes, message("m0", 1));
    assert!(one.flags.seen && !one.flags.draft && one.size == one.bytes.len() as u64);
    let cut = first.new.iter().find(|mail| mail.key == long_key).unwrap();
    assert_eq!((cut.bytes.len(), cut.size), (256 << 10, long.len() as u64));
    assert_eq!(cut.bytes, long[..256 << 10]);
    // From the state before the first of them, the same comes as changes.
    assert_eq!(all_changes(&alice, &inbox, Some(&empty.state)).await.new.len(), 0, "all of them are known");
    let other = account(&cyrus.text("/jmap/session"), "alice");
    assert_eq!(all_changes(&other, &inbox, Some(&empty.state)).await.new.len(), 121);

    // One is new, one goes, one goes elsewhere.
    let made = alice.append(&inbox, message("made", 1), Flags::default()).await.unwrap().unwrap();
    alice.remove(&inbox, &keys[1]).await.unwrap();
    alice.remove(&inbox, &keys[1]).await.unwrap();
    assert_eq!(alice.append(&archive, message("m2", 1), Flags::default()).await.unwrap().unwrap(), keys[2]);
    alice.remove(&inbox, &keys[2]).await.unwrap();
    let delta = all_changes(&alice, &inbox, Some(&first.state)).await;
    assert_eq!(delta.new.iter().map(|mail| mail.key.as_str()).collect::<Vec<_>>(), [made.as_str()]);
    assert_eq!(delta.gone.iter().collect::<BTreeSet<_>>(), [&keys[1], &keys[2]].into_iter().collect());
    assert_eq!(alice.fetch(&archive, &keys[2], 1 << 20).await.unwrap(), message("m2", 1));
    assert!(matches!(alice.fetch(&inbox, &keys[2], 1 << 20).await.unwrap_err(), Fault::Gone(_)));
    assert!(matches!(alice.fetch(&inbox, &long_key, 1000).await.unwrap_err(), Fault::Refused(_)));

    // A state that the server does not know begins anew.
    for state in [r#"{"since":"nonsense"}"#, "nonsense"] {
        let again = all_changes(&alice, &inbox, Some(state)).await;
        assert!(again.reset && again.new.len() == 120, "{state}: {}", again.new.len());
    }
    // The message to go on from is gone.
    let page = alice.changes(&inbox, None).await.unwrap();
    let state: Value = serde_json::from_str(&page.state).unwrap();
    alice.remove(&inbox, state["first"]["after"].as_str().unwrap()).await.unwrap();
    let again = alice.changes(&inbox, Some(&page.state)).await.unwrap();
    assert!(again.reset && again.more);
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_are_changes_of_what_is_known() {
    let cyrus = OfficeServers::start_jmap();
    let alice = account(&cyrus.text("/jmap/session"), "alice");
    let inbox = folder(&alice, FolderRole::Inbox).await;
    let key = alice.append(&inbox, message("m", 1), Flags::default()).await.unwrap().unwrap();
    let first = all_changes(&alice, &inbox, None).await;
    // The same bytes again: the server keeps one message, and marks it.
    let flags = Flags { flagged: true, seen: true, ..Flags::default() };
    assert_eq!(alice.append(&inbox, message("m", 1), flags).await.unwrap(), Some(key.clone()));
    let delta = all_changes(&alice, &inbox, Some(&first.state)).await;
    assert_eq!((delta.new.len(), delta.flags), (0, vec![(key, flags)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_is_found_by_its_id_at_once() {
    let cyrus = OfficeServers::start_jmap();
    let alice = account(&cyrus.text("/jmap/session"), "alice");
    let (inbox, drafts) = (folder(&alice, FolderRole::Inbox).await, folder(&alice, FolderRole::Drafts).await);
    let key = alice.append(&inbox, message("a.b+c", 1), Flags::default()).await.unwrap().unwrap();
    alice.append(&inbox, message("xa.b+c", 1), Flags::default()).await.unwrap();
    assert_eq!(alice.find(&inbox, &message_id("a.b+c")).await.unwrap(), [key]);
    assert!(alice.find(&drafts, &message_id("a.b+c")).await.unwrap().is_empty());
    assert!(alice.find(&inbox, &message_id("b+c")).await.unwrap().is_empty());
    assert!(alice.find(&inbox, &MessageId::new("<\"}],x\\@y>").unwrap()).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_is_sent_once_and_is_among_the_sent_ones() {
    let cyrus = OfficeServers::start_jmap();
    let (alice, bob) =
        (account(&cyrus.text("/jmap/session"), "alice"), account(&cyrus.text("/jmap/session"), "bob"));
    let sent = folder(&alice, FolderRole::Sent).await;
    let to = envelope(&["bob@example.test", "hidden@elsewhere.test"]);
    let done = alice.submit(&to, message("hello", 1)).await;
    assert!(matches!(done, Submitted::Accepted(_)), "{done:?}");
    let log = cyrus.sent();
    assert_eq!(log.len(), 1);
    assert_eq!(log[0]["rcpt"].as_array().map(Vec::len), Some(2), "{}", log[0]);
    let found = alice.find(&sent, &message_id("hello")).await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(
        alice.find(&folder(&alice, FolderRole::Drafts).await, &message_id("hello")).await.unwrap().is_empty()
    );
    // A server that keeps a copy itself returns the existing one.
    let seen = Flags { seen: true, ..Flags::default() };
    assert_eq!(alice.append(&sent, message("hello", 1), seen).await.unwrap(), Some(found[0].clone()));
    assert_eq!(all_changes(&alice, &sent, None).await.new.len(), 1);
    let inbox = folder(&bob, FolderRole::Inbox).await;
    let mut got = Vec::new();
    for _ in 0..40 {
        got = bob.find(&inbox, &message_id("hello")).await.unwrap();
        if !got.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(got.len(), 1);

    // What is refused goes to nobody, and nothing of it stays.
    for recipient in ["reject@example.test", "tempfail@example.test", "data-reject@example.test"] {
        let said = alice.submit(&envelope(&[recipient]), message("no", 1)).await;
        assert!(matches!(said, Submitted::Refused { .. }), "{recipient}: {said:?}");
        for role in [FolderRole::Drafts, FolderRole::Sent] {
            let folder = folder(&alice, role).await;
            assert!(
                alice.find(&folder, &message_id("no")).await.unwrap().is_empty(),
                "{recipient}: {role:?}"
            );
        }
    }
    assert_eq!(cyrus.sent().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_leaves_open_what_was_sent_and_the_sent_mails_tell() {
    let cyrus = OfficeServers::start_jmap();
    let session = cyrus.text("/jmap/session").replace("/.well-known/jmap", "/jmap/");
    let loses = Arc::new(AtomicBool::new(true));
    let submissions = Arc::new(AtomicUsize::new(0));
    let (lost, counted) = (Arc::clone(&loses), Arc::clone(&submissions));
    let url = proxy(&session, move |seen| {
        let sends = seen.body.contains("EmailSubmission/set");
        counted.fetch_add(usize::from(sends), Ordering::SeqCst);
        match (sends, lost.load(Ordering::SeqCst)) {
            (true, true) => Pass::LoseReply,
            (true, false) => Pass::LoseRequest,
            (false, _) => Pass::On,
        }
    })
    .await;
    let alice = account(url.as_str(), "alice");
    let direct = account(&session, "alice");
    let sent = folder(&direct, FolderRole::Sent).await;
    for (id, arrives) in [("lost-reply", true), ("lost-request", false)] {
        loses.store(arrives, Ordering::SeqCst);
        let said = alice.submit(&envelope(&["bob@example.test"]), message(id, 1)).await;
        assert!(matches!(said, Submitted::Unknown(_)), "{id}: {said:?}");
        assert_eq!(!direct.find(&sent, &message_id(id)).await.unwrap().is_empty(), arrives, "{id}");
    }
    assert_eq!((submissions.load(Ordering::SeqCst), cyrus.sent().len()), (2, 1));
    // An append whose answer is lost is in doubt as well; before a submission nothing is.
    let url = proxy(&session, |seen| match seen.body.contains("Email/import") {
        true => Pass::LoseReply,
        false => Pass::On,
    })
    .await;
    let alice = account(url.as_str(), "alice");
    let append =
        alice.append(&folder(&direct, FolderRole::Inbox).await, message("doubt", 1), Flags::default()).await;
    assert!(matches!(append, Err(Fault::Unknown(_))), "{append:?}");
    let said = alice.submit(&envelope(&["bob@example.test"]), message("before", 1)).await;
    assert!(matches!(said, Submitted::Refused { temporary: true, .. }), "{said:?}");
    assert_eq!(cyrus.sent().len(), 1);
}

/// A session whose parts are where a test says.
fn session(api: &str, download: &str) -> Vec<u8> {
    json!({
        "apiUrl": api, "downloadUrl": download, "uploadUrl": "/up/{accountId}",
        "capabilities": { "urn:ietf:params:jmap:core": { "maxObjectsInGet": 0, "maxSizeUpload": 1000 }, "urn:ietf:params:jmap:submission": {} },
        "primaryAccounts": { "urn:ietf:params:jmap:mail": "a" },
    })
    .to_string()
    .into()
}

fn ok(content: impl Into<Vec<u8>>) -> Reply {
    Reply::Whole("200 OK", Vec::new(), content.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_goes_to_the_users_server_and_nowhere_else() {
    let thief = Fake::start(|_| Reply::status("200 OK")).await;
    let to = thief.url.to_string();
    let fake = Fake::start(move |_| Reply::redirect(&to)).await;
    let said = account(fake.url.as_str(), "alice").check().await.unwrap_err();
    assert!(matches!(said, Fault::Refused(_)), "{said:?}");
    let to = thief.url.to_string();
    let fake = Fake::start(move |_| ok(session(&to, "/d"))).await;
    assert!(matches!(account(fake.url.as_str(), "alice").check().await.unwrap_err(), Fault::Refused(_)));
    let to = format!("{}{{blobId}}", thief.url);
    let fake = Fake::start(move |seen: &Seen| match seen.method.as_str() {
        "GET" => ok(session("/api", &to)),
        _ if seen.body.contains("Email/query") => ok(r#"{"methodResponses":[["Email/query",{"ids":["m"]},"0"]]}"#),
        _ => ok(
            r#"{"methodResponses":[["Email/get",{"state":"1","list":[{"id":"m","blobId":"b","size":9,"mailboxIds":{"x":true}}]},"0"]]}"#,
        ),
    })
    .await;
    let said = account(fake.url.as_str(), "alice").changes("x", None).await.unwrap_err();
    assert!(matches!(said, Fault::Refused(_)), "{said:?}");
    assert_eq!(thief.seen().len(), 0);
    for id in ["", "../x", "a/b", "a b", "~1", &"x".repeat(300)] {
        let said = account(fake.url.as_str(), "alice").changes(id, None).await.unwrap_err();
        assert!(matches!(said, Fault::Refused(_)), "{id}: {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_no_jmap_are_refused_and_a_send_is_then_in_doubt() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        "",
        "hello",
        "{}",
        "[]",
        r#"{"methodResponses":[]}"#,
        r#"{"methodResponses":[["Other/get",{},"0"]]}"#,
        &deep,
    ] {
        let body = body.to_owned();
        let fake = Fake::start(move |seen: &Seen| match seen.method.as_str() {
            "GET" => ok(session("/api", "/d/{blobId}")),
            _ => ok(body.clone()),
        })
        .await;
        let said = account(fake.url.as_str(), "alice").folders().await.unwrap_err();
        assert!(matches!(said, Fault::Nonsense(_)), "{said:?}");
    }
    let fake = Fake::start(|_| ok("no session")).await;
    assert!(matches!(account(fake.url.as_str(), "alice").check().await.unwrap_err(), Fault::Nonsense(_)));
    let fake = Fake::start(|_| Reply::status("401 No")).await;
    assert!(matches!(account(fake.url.as_str(), "alice").check().await.unwrap_err(), Fault::Login(_)));

    for (last, is_unknown) in [
        ("nonsense", true),
        ("503 Busy", true),
        ("204 Nothing", true),
        ("429 Too Many", false),
        (r#"{"methodResponses":[["EmailSubmission/set",{},"0"]]}"#, true),
        (r#"{"methodResponses":[["error",{"type":"serverPartialFail"},"0"]]}"#, true),
        (r#"{"methodResponses":[["error",{"type":"serverUnavailable"},"0"]]}"#, false),
        (r#"{"methodResponses":[["error",{"type":"serverFail"},"0"]]}"#, true),
        (r#"{"methodResponses":[["error",{"type":"somethingNew"},"0"]]}"#, true),
        (
            r#"{"methodResponses":[["EmailSubmission/set",{"notCreated":{"s":{"type":"smtpProtocolError"}}},"0"]]}"#,
            true,
        ),
        (
            r#"{"methodResponses":[["EmailSubmission/set",{"notCreated":{"s":{"type":"serverFail"}}},"0"]]}"#,
            true,
        ),
        (r#"{"methodResponses":[["EmailSubmission/set",{"notCreated":{"s":{}}},"0"]]}"#, true),
        (
            r#"{"methodResponses":[["EmailSubmission/set",{"notCreated":{"s":{"type":"tooLarge"}}},"0"]]}"#,
            false,
        ),
        (
            r#"{"methodResponses":[["EmailSubmission/set",{"notCreated":{"s":{"type":"forbiddenToSend"}}},"0"]]}"#,
            false,
        ),
    ] {
        let fake = Fake::start(move |seen: &Seen| {
            let answer =
                |name: &str, value: Value| ok(json!({ "methodResponses": [[name, value, "0"]] }).to_string());
            match seen.body.as_str() {
                _ if seen.method == "GET" => ok(session("/api", "/d/{blobId}")),
                _ if seen.path.starts_with("/up/") => ok(r#"{"blobId":"b"}"#),
                body if body.contains("Identity/get") => {
                    answer("Identity/get", json!({ "list": [{ "id": "i", "email": "*@example.test" }] }))
                }
                body if body.contains("Mailbox/get") => answer(
                    "Mailbox/get",
                    json!({ "list": [
                        { "id": "d", "name": "D", "parentId": "s", "role": "drafts" },
                        { "id": "s", "name": "S", "parentId": "d", "role": "sent" },
                    ] }),
                ),
                body if body.contains("Email/import") => {
                    answer("Email/import", json!({ "created": { "m": { "id": "m" } } }))
                }
                body if body.contains("EmailSubmission/set") => match last.starts_with(char::is_numeric) {
                    true => Reply::status(last),
                    false => ok(last),
                },
                _ => answer("Email/set", json!({})),
            }
        })
        .await;
        let alice = account(fake.url.as_str(), "alice");
        let said = alice.submit(&envelope(&["bob@example.test"]), message("m", 1)).await;
        assert_eq!(matches!(said, Submitted::Unknown(_)), is_unknown, "{last}: {said:?}");
        let destroyed = fake.seen().iter().any(|seen| seen.body.contains("destroy"));
        assert_eq!(destroyed, !is_unknown, "{last}");
        assert_eq!(fake.seen().iter().filter(|seen| seen.body.contains("EmailSubmission/set")).count(), 1);
        // What is longer than the server says it takes does not go out.
        let said = alice.submit(&envelope(&["bob@example.test"]), message("m", 100)).await;
        assert!(matches!(said, Submitted::Refused { temporary: false, .. }), "{said:?}");
    }
}
