//! Mails pulled from a server, and read from files.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use bytes::Bytes;
use helve_office::account::{Flags, FolderRole};
use helve_office::import::import_mails;
use helve_office::sync::sync_mails;
use serde_json::json;

use crate::mail_world::{World, mail, texts};

async fn sync(world: &World, account: &str) -> (usize, usize) {
    let synced = sync_mails(world.office.db(), &world.account(account), &|_| {}).await.unwrap();
    (synced.added, synced.gone)
}

#[tokio::test]
async fn a_sync_takes_every_page_and_then_only_what_changed() {
    let (world, server) = World::connected().await;
    let keys: Vec<_> = (0..7)
        .map(|n| server.put("INBOX", &mail(n, &format!("mail {n}"), "Ann <ann@example.org>", "words")))
        .collect();
    server.put("Junk", &mail(99, "buy", "Spam <spam@example.com>", "words"));
    let told = Mutex::new(Vec::new());
    let tell = |progress: helve_office::sync::MailProgress| {
        told.lock().unwrap().push((progress.taken, progress.total))
    };
    sync_mails(world.office.db(), &world.account("work"), &tell).await.unwrap();
    assert!(told.lock().unwrap().contains(&(4, Some(7))), "{told:?}");
    assert_eq!(world.found(json!({ "query": "words" })).await.len(), 7, "junk is left out");
    assert_eq!(world.found(json!({ "query": "words", "folder": "junk" })).await.len(), 1);
    assert_eq!(sync(&world, "work").await, (0, 0));
    let before = world.found(json!({ "query": "words" })).await;
    server.put("INBOX", &mail(8, "mail 8", "Ann <ann@example.org>", "words"));
    server.folders.lock().unwrap().get_mut("INBOX").unwrap().retain(|mail| mail.key != keys[0]);
    server.gone.lock().unwrap().push(("INBOX".to_owned(), keys[0].clone()));
    assert_eq!(sync(&world, "work").await, (1, 1));
    let after = world.found(json!({ "query": "words" })).await;
    assert_eq!(after[1..], before[..6], "ids stay");
}

#[tokio::test]
async fn malformed_mails_are_there_with_what_could_be_read() {
    let (world, server) = World::connected().await;
    for bytes in [
        &b""[..],
        b"\0\0\0",
        b"no header at all",
        b"Subject: half\r\nFrom: x <\r\n\r\nbody words",
        b"\xff\xfe\r\n\r\n",
    ] {
        server.put_bytes("INBOX", Bytes::copy_from_slice(bytes), Flags::default());
    }
    let deep = "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n".repeat(600);
    server.put_bytes("INBOX", deep.into(), Flags::default());
    server.put("INBOX", &mail(1, "fine", "Ann <ann@example.org>", "body words").replace("2026", "9999"));
    assert_eq!(sync(&world, "work").await.0, 7);
    let all = world.ok("search_emails", json!({})).await;
    assert_eq!(all["emails"].as_array().unwrap().len(), 7);
    assert_eq!(world.subjects(json!({ "query": "body words" })).await.len(), 2);
    for id in texts(&all["emails"], "id") {
        world.ok("read_email", json!({ "id": id })).await;
    }
    assert!(!all["emails"][0]["date"].as_str().unwrap().starts_with("9999"));
}

#[tokio::test]
async fn people_are_counted_and_forgotten_with_their_mails() {
    let (world, server) = World::connected().await;
    let keys = [1, 2].map(|n| server.put("INBOX", &mail(n, "x", "Sarah Connor <Sarah@example.org>", "y")));
    server.put(
        "Sent Items",
        &mail(3, "x", "Me <me@example.org>", "y").replace("To: Me <me@example.org>", "To: sarah@example.org"),
    );
    sync(&world, "work").await;
    let people = async |word: &str| {
        world.office.db().people_seen(vec!["work".to_owned()], vec![word.to_owned()], 10).await.unwrap()
    };
    let seen = people("sarah").await;
    assert_eq!((seen.len(), seen[0].times, seen[0].written), (1, 3, 1));
    assert_eq!(seen[0].name.as_deref(), Some("Sarah Connor"));
    for key in keys {
        server.folders.lock().unwrap().get_mut("INBOX").unwrap().retain(|mail| mail.key != key);
        server.gone.lock().unwrap().push(("INBOX".to_owned(), key));
    }
    sync(&world, "work").await;
    assert_eq!(people("sarah").await[0].times, 1);
    world.office.db().remove_account("work").await.unwrap();
    assert!(people("sarah").await.is_empty());
}

#[tokio::test]
async fn a_mail_counts_once_for_each_of_its_people_and_only_what_the_user_sent_is_theirs() {
    let (world, server) = World::connected().await;
    let to = |text: String, to: &str| text.replace("To: Me <me@example.org>", to);
    // Somebody pretends to be the user, and names an accomplice whom the user "wrote to".
    server.put("INBOX", &to(mail(1, "x", "Me <me@example.org>", "y"), "To: eve@example.net"));
    let twice = "To: Özgür <ozgur@example.org>\nCc: ozgur@example.org";
    let sent = server.put("Sent Items", &to(mail(2, "x", "Me <me@example.org>", "y"), twice));
    server.put("Drafts", &to(mail(3, "x", "Me <me@example.org>", "y"), "To: nobody@example.net"));
    sync(&world, "work").await;
    let people = async |word: &str| {
        let seen = world.office.db().people_seen(vec!["work".to_owned()], vec![word.to_owned()], 10).await;
        seen.unwrap().iter().map(|one| (one.times, one.written)).collect::<Vec<_>>()
    };
    assert_eq!(people("eve").await, [(1, 0)]);
    assert_eq!(people("ÖZGÜR").await, [(1, 1)]);
    assert_eq!(people("nobody").await, []);
    let again = server.put("Sent Items", &to(mail(4, "x", "Me <me@example.org>", "y"), twice));
    sync(&world, "work").await;
    assert_eq!(people("özgür").await, [(2, 2)]);
    for (key, left) in [(sent, vec![(1, 1)]), (again, vec![])] {
        server.folders.lock().unwrap().get_mut("Sent Items").unwrap().retain(|mail| mail.key != key);
        server.gone.lock().unwrap().push(("Sent Items".to_owned(), key));
        sync(&world, "work").await;
        assert_eq!(people("özgür").await, left);
    }
}

#[tokio::test]
async fn what_was_thrown_away_is_not_what_the_user_knows() {
    let (world, server) = World::connected().await;
    server.folders.lock().unwrap().insert("Trash".to_owned(), Vec::new());
    server.put("INBOX", &mail(1, "zebra inbox", "Ann <ann@example.org>", "y"));
    server.put("Junk", &mail(2, "zebra junk", "Ann <ann@example.org>", "y"));
    server.put("Trash", &mail(3, "zebra trash", "Ann <ann@example.org>", "y"));
    sync(&world, "work").await;
    let found = world.ok("query_context", json!({ "query": "zebra" })).await;
    assert_eq!(texts(&found["results"], "title"), ["zebra inbox"]);
    let found = world.ok("query_context", json!({ "query": "Ann", "entityType": "person" })).await;
    assert_eq!(texts(&found["results"][0]["recent"], "title"), ["zebra inbox"]);
}

#[tokio::test]
async fn ten_thousand_mails_take_seconds() {
    let world = World::new();
    let path = world.dir.path().join("big.mbox");
    let mut text = String::new();
    for number in 0..10_000 {
        text.push_str("From ann@example.org Mon Nov  2 10:00:00 2026\n");
        text.push_str(&mail(
            number,
            &format!("mail {number}"),
            "Ann <ann@example.org>",
            &"some words of a mail ".repeat(20),
        ));
        text.push('\n');
    }
    std::fs::write(&path, text).unwrap();
    let begun = Instant::now();
    let imported = import_mails(&world.local, &path, None, &|_| {}).await.unwrap();
    assert_eq!(imported.added, 10_000);
    // Generous: a debug build on a busy machine. Speed is measured elsewhere.
    assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
    assert_eq!(world.found(json!({ "query": "mail 9999" })).await.len(), 1);
}

#[tokio::test]
async fn a_folder_with_every_mail_adds_what_was_put_away_and_shows_nothing_twice() {
    let (world, server) = World::connected().await;
    server.folders.lock().unwrap().insert("All Mail".to_owned(), Vec::new());
    let ann = "Ann <ann@example.org>";
    let (new, old) = (mail(1, "new words", ann, "x"), mail(2, "old words", ann, "x"));
    let inbox = server.put("INBOX", &new);
    for message in [&new, &old] {
        server.put("All Mail", message);
    }
    sync(&world, "work").await;
    assert_eq!(world.subjects(json!({ "query": "words" })).await, ["old words", "new words"]);
    assert_eq!(world.subjects(json!({ "folder": "archive" })).await, ["old words"]);
    assert_eq!(world.subjects(json!({ "folder": "All Mail" })).await.len(), 2);
    let found = world.ok("query_context", json!({ "query": "words" })).await;
    assert_eq!(texts(&found["results"], "type"), ["email", "email"]);
    let known =
        world.office.db().people_seen(vec!["work".to_owned()], vec!["ann".to_owned()], 5).await.unwrap();
    assert_eq!(known[0].times, 2, "each mail counts once");
    // Put away: it stays findable, under the folder where it is now.
    server.folders.lock().unwrap().get_mut("INBOX").unwrap().clear();
    server.gone.lock().unwrap().push(("INBOX".to_owned(), inbox));
    sync(&world, "work").await;
    assert_eq!(world.subjects(json!({ "folder": "archive" })).await, ["old words", "new words"]);
}

#[tokio::test]
async fn words_far_down_in_a_long_mail_are_found() {
    let world = World::new();
    let long = format!("{}\nneedle at the end", "some words of a long mail\n".repeat(6_000));
    assert!(long.len() > 150_000);
    world.put("Inbox", &mail(1, "long", "Ann <ann@example.org>", &long)).await;
    assert_eq!(world.subjects(json!({ "query": "needle" })).await, ["long"]);
}

async fn import(world: &World, path: &Path, into: Option<FolderRole>) -> (usize, usize, Vec<String>) {
    let imported = import_mails(&world.local, path, into, &|_| {}).await.unwrap();
    (imported.added, imported.known, imported.skipped.into_iter().map(|one| one.why).collect())
}

#[tokio::test]
async fn mbox_files_are_read_once_however_often_they_are_imported() {
    let world = World::new();
    let path = world.dir.path().join("Inbox.mbox");
    let text = "From a@example.org Mon Nov  2 10:00:00 2026\nFrom: a@example.org\nSubject: one\nStatus: RO\n\
        Message-ID: <1@x>\n\nhello\n>From here on\n>>From there\nFrom nowhere, in a paragraph\n\n\
        From b@example.org Mon Nov  2 10:00:00 2026\nFrom: b@example.org\nSubject: two\nStatus: O\nMessage-ID: <2@x>\n\nbye\n";
    std::fs::write(&path, text).unwrap();
    assert_eq!(import(&world, &path, None).await, (2, 0, vec![]));
    assert_eq!(import(&world, &path, None).await, (0, 2, vec![]));
    assert_eq!(world.subjects(json!({ "folder": "inbox", "unread": true })).await, ["two"]);
    let id = world.found(json!({ "subject": "one" })).await.remove(0);
    let read = world.ok("read_email", json!({ "id": id })).await;
    let body = "hello\nFrom here on\n>From there\nFrom nowhere, in a paragraph";
    assert_eq!(read["emails"][0]["body"].as_str().unwrap().trim(), body);
}

#[tokio::test]
async fn a_sentence_that_begins_with_from_begins_no_mail() {
    let world = World::new();
    let path = world.dir.path().join("Inbox.mbox");
    let begin = "From a@example.org Mon Nov  2 10:00:00 2026\n";
    let text = format!(
        "{begin}From: a@example.org\nSubject: one\n\nhello\n\nFrom what I hear, all is well.\n\n\
         {begin}From: a@example.org\nSubject: two\n\nbye\n"
    );
    std::fs::write(&path, text).unwrap();
    assert_eq!(import(&world, &path, None).await, (2, 0, vec![]));
    let id = world.found(json!({ "subject": "one" })).await.remove(0);
    let read = world.ok("read_email", json!({ "id": id })).await;
    assert!(read["emails"][0]["body"].as_str().unwrap().contains("From what I hear"), "{read}");
}

#[tokio::test]
async fn a_message_is_taken_for_one_by_what_is_in_it() {
    let world = World::new();
    let path = world.dir.path().join("saved-message.txt");
    std::fs::write(&path, mail(1, "raw", "Ann <ann@example.org>", "x")).unwrap();
    assert_eq!(import(&world, &path, None).await, (1, 0, vec![]));
    std::fs::write(&path, "Shopping: milk, eggs\n\nbread\n").unwrap();
    assert_eq!(import(&world, &path, None).await.0, 0);
}

#[tokio::test]
async fn maildirs_and_messages_are_read_and_links_are_not_followed() {
    let world = World::new();
    let (root, outside) = (world.dir.path().join("maildir"), world.dir.path().join("outside"));
    for folder in ["cur", "new", "tmp", ".Sent/cur"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("secret.eml"), mail(66, "secret", "Eve <eve@example.org>", "x")).unwrap();
    std::fs::write(root.join("cur/1.host:2,S"), mail(1, "read", "Ann <ann@example.org>", "x")).unwrap();
    std::fs::write(root.join("new/2.host"), mail(2, "fresh", "Ann <ann@example.org>", "x")).unwrap();
    std::fs::write(root.join("tmp/3.host"), mail(3, "half", "Ann <ann@example.org>", "x")).unwrap();
    std::fs::write(root.join(".Sent/cur/4.host:2,RS"), mail(4, "mine", "Me <me@example.org>", "x")).unwrap();
    std::fs::write(root.join("alone.eml"), mail(5, "alone", "Ann <ann@example.org>", "x")).unwrap();
    std::fs::write(root.join("dovecot.index"), "binary").unwrap();
    std::fs::write(root.join("empty.eml"), "").unwrap();
    symlink(outside.join("secret.eml"), root.join("cur/link.eml")).unwrap();
    symlink(&outside, root.join("folder")).unwrap();
    let (added, _, skipped) = import(&world, &root, None).await;
    assert_eq!(added, 4);
    let links = skipped.iter().filter(|why| why.contains("link")).count();
    assert_eq!((skipped.len(), links), (4, 2), "{skipped:?}");
    assert!(world.found(json!({ "query": "secret" })).await.is_empty());
    assert_eq!(world.subjects(json!({ "folder": "sent" })).await, ["mine"]);
    assert_eq!(world.subjects(json!({ "unread": true })).await, ["fresh"]);
    let missing = import(&world, Path::new("/nowhere/at/all"), None).await;
    assert!(missing.2[0].contains("cannot be read"), "{missing:?}");
}
