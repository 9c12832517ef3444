//! Sync against a real Dovecot: first, later, flags, removed mails, folders numbered anew.

use std::time::{Duration, Instant};

use helve_office::account::{Flags, FolderRole, MailChanges, MailStore as _};
use helve_office::imap::ImapAccount;
use helve_testkit::OfficeServers;

use super::mail_servers::{Other, account, mail};

/// All pages from a state on. How many there were, and all of them as one.
async fn all(account: &ImapAccount, folder: &str, since: Option<&str>) -> (usize, MailChanges) {
    let mut whole = account.changes(folder, since).await.unwrap();
    let mut pages = 1;
    while whole.more {
        let page = account.changes(folder, Some(&whole.state)).await.unwrap();
        pages += 1;
        assert!(!page.reset && pages < 100);
        whole.new.extend(page.new);
        whole.flags.extend(page.flags);
        whole.gone.extend(page.gone);
        (whole.state, whole.more) = (page.state, page.more);
    }
    (pages, whole)
}

async fn put(account: &ImapAccount, folder: &str, id: &str, flags: Flags) -> String {
    account.append(folder, mail(id, "text"), flags).await.unwrap().expect("Dovecot has UIDPLUS")
}

fn subjects(changes: &MailChanges) -> Vec<String> {
    let subject = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines().find_map(|line| line.strip_prefix("Subject: ").map(str::to_owned)).unwrap_or_default()
    };
    changes.new.iter().map(|mail| subject(&mail.bytes)).collect()
}

const SEEN: Flags = Flags { seen: true, answered: false, flagged: false, draft: false };

#[tokio::test]
async fn the_first_sync_comes_newest_first_and_marks_nothing_as_read() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    for number in 0..450 {
        put(&account, "INBOX", &format!("m{number}"), Flags::default()).await;
    }
    let first = account.changes("INBOX", None).await.unwrap();
    assert_eq!((first.new.len(), first.total, first.more, first.reset), (200, Some(450), true, false));
    assert_eq!(subjects(&first)[..2], ["m449", "m448"]);
    let (pages, rest) = all(&account, "INBOX", Some(&first.state)).await;
    assert_eq!((pages, rest.new.len()), (2, 250));
    assert_eq!(subjects(&rest).last().map(String::as_str), Some("m0"));
    assert!(rest.new.iter().all(|mail| !mail.flags.seen && mail.size == mail.bytes.len() as u64));
    let minute = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(5);
    assert!(rest.new.iter().all(|mail| mail.received > minute));
    assert!(!Other::of(&servers, "alice").run("STATUS INBOX (UNSEEN)").contains("UNSEEN 0"));
}

#[tokio::test]
async fn later_syncs_bring_what_changed_and_nothing_else() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    let mut keys = Vec::new();
    for number in 0..5 {
        keys.push(put(&account, "INBOX", &format!("m{number}"), Flags::default()).await);
    }
    let (_, first) = all(&account, "INBOX", None).await;
    let (_, idle) = all(&account, "INBOX", Some(&first.state)).await;
    assert!(idle.new.is_empty() && idle.flags.is_empty() && idle.gone.is_empty() && !idle.reset);

    let mut other = Other::of(&servers, "alice");
    other.run("SELECT INBOX");
    other.run("STORE 2 +FLAGS (\\Seen \\Flagged)");
    other.run("STORE 4 +FLAGS (\\Deleted)");
    other.run("EXPUNGE");
    let new = put(&account, "INBOX", "m5", SEEN).await;

    let (_, later) = all(&account, "INBOX", Some(&idle.state)).await;
    assert_eq!(later.new.iter().map(|mail| (&mail.key, mail.flags)).collect::<Vec<_>>(), [(&new, SEEN)]);
    assert_eq!(later.flags, [(keys[1].clone(), Flags { seen: true, flagged: true, ..Flags::default() })]);
    assert_eq!(later.gone, [keys[3].clone()]);
    // One that came and went moves the next UID on, and is not taken for the last that is there.
    let brief = put(&account, "INBOX", "brief", Flags::default()).await;
    account.remove("INBOX", &brief).await.unwrap();
    let (_, end) = all(&account, "INBOX", Some(&later.state)).await;
    assert!(end.new.is_empty() && end.flags.is_empty() && end.gone.is_empty());
}

#[tokio::test]
async fn mails_that_come_during_the_first_sync_are_not_missed() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    for number in 0..250 {
        put(&account, "INBOX", &format!("m{number}"), Flags::default()).await;
    }
    let first = account.changes("INBOX", None).await.unwrap();
    let mut other = Other::of(&servers, "alice");
    other.run("SELECT INBOX");
    other.run("STORE 1,250 +FLAGS (\\Deleted)");
    other.run("EXPUNGE");
    other.run("STORE 200 +FLAGS (\\Answered)");
    // By its own connection: ours has the folder open still.
    put(&super::mail_servers::account(&servers, "alice"), "INBOX", "late", Flags::default()).await;
    let second = account.changes("INBOX", Some(&first.state)).await.unwrap();
    assert_eq!(subjects(&second)[0], "late");
    let (_, third) = all(&account, "INBOX", Some(&second.state)).await;
    let found: Vec<_> =
        subjects(&first).into_iter().chain(subjects(&second)).chain(subjects(&third)).collect();
    assert_eq!(found.len(), 250, "249 of the first and the late one");
    assert_eq!(third.gone, [first.new[0].key.clone()]);
    assert_eq!(third.flags.iter().filter(|(_, flags)| flags.answered).count(), 1);
}

#[tokio::test]
async fn a_folder_that_was_made_anew_voids_what_was_known_and_its_keys() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    let mut other = Other::of(&servers, "alice");
    other.run("CREATE Projekt");
    let old = put(&account, "Projekt", "old", Flags::default()).await;
    let (_, before) = all(&account, "Projekt", None).await;
    other.run("DELETE Projekt");
    // Dovecot numbers folders by the second of its own clock.
    std::thread::sleep(Duration::from_millis(1500));
    other.run("CREATE Projekt");
    put(&account, "Projekt", "new", Flags::default()).await;

    let after = account.changes("Projekt", Some(&before.state)).await.unwrap();
    assert!(after.reset);
    assert_eq!(subjects(&after), ["new"]);
    assert!(matches!(account.fetch("Projekt", &old, 1000).await, Err(helve_office::account::Fault::Gone(_))));
    assert!(account.remove("Projekt", &old).await.is_err());
    assert_eq!(account.changes("Projekt", None).await.unwrap().new.len(), 1);
}

#[tokio::test]
async fn roles_come_from_marks_and_names_are_readable() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    let mut other = Other::of(&servers, "alice");
    other.run("CREATE \"Pl&AOQ-ne &- Entw&APw-rfe\"");
    other.run("CREATE \"&ZeVnLIqe-/2026\"");
    let folders = account.folders().await.unwrap();
    let role =
        |role| folders.iter().find(|folder| folder.role == Some(role)).map(|folder| folder.name.as_str());
    assert_eq!(role(FolderRole::Sent), Some("Sent Items"));
    assert_eq!(role(FolderRole::Inbox), Some("INBOX"));
    for role_of in FolderRole::ALL.into_iter().filter(|role| *role != FolderRole::Everything) {
        assert!(role(role_of).is_some(), "{role_of:?}");
    }
    for name in ["Pläne & Entwürfe", "日本語/2026"] {
        let folder = folders.iter().find(|folder| folder.name == name).expect(name);
        let key = put(&account, &folder.path, "x", SEEN).await;
        assert_eq!(account.changes(&folder.path, None).await.unwrap().new[0].key, key);
    }
    // By the name that people see as well.
    assert_eq!(account.changes("日本語/2026", None).await.unwrap().new.len(), 1);
}

#[tokio::test]
async fn a_long_mail_is_indexed_by_its_beginning_and_fetched_whole_under_a_limit() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    let line = "0123456789".repeat(7) + "\r\n";
    let message = mail("long", &line.repeat(50 * 1024 * 1024 / line.len()));
    let key = account.append("INBOX", message.clone(), Flags::default()).await.unwrap().unwrap();

    let page = account.changes("INBOX", None).await.unwrap();
    assert_eq!((page.new[0].size, page.new[0].bytes.len()), (message.len() as u64, 256 * 1024));
    let refused = account.fetch("INBOX", &key, 1 << 20).await.unwrap_err();
    assert!(refused.to_string().contains("bytes"), "{refused}");
    assert_eq!(account.fetch("INBOX", &key, 64 << 20).await.unwrap(), message);
}

#[tokio::test]
async fn malformed_mails_come_as_they_are() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    let odd: [&[u8]; 5] = [
        b"\r\n",
        b"no header at all",
        b"Subject: \xff\xfe {999999}\r\n\r\n* OK fake\r\nh1 OK done\r\n)\r\n",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n--x\r\n--x",
        b": : :\r\n\r\n\x01\x02\x7f",
    ];
    for message in odd {
        account.append("INBOX", message.into(), Flags::default()).await.unwrap();
    }
    let page = account.changes("INBOX", None).await.unwrap();
    assert_eq!(page.new.len(), odd.len());
    for (mail, message) in page.new.iter().rev().zip(odd) {
        assert!(mail.bytes.starts_with(message.trim_ascii_end()), "{:?}", mail.bytes);
    }
    let nul = account.append("INBOX", b"a\0b".as_slice().into(), Flags::default()).await;
    assert!(nul.unwrap_err().to_string().contains("NUL"));
}

#[tokio::test]
async fn a_change_ends_the_wait_for_one() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    let (_, before) = all(&account, "INBOX", None).await;
    let short = Duration::from_millis(300);
    assert!(!account.wait_for_change("INBOX", &before.state, short).await.unwrap());
    let waits = account.wait_for_change("INBOX", &before.state, Duration::from_secs(60));
    let puts = async {
        // Most likely it waits by then; if not, the test is easier and still right.
        tokio::time::sleep(Duration::from_millis(100)).await;
        put(&account, "INBOX", "m", Flags::default()).await
    };
    let (changed, _) = tokio::join!(waits, puts);
    assert!(changed.unwrap());
    // What came since is no reason to wait.
    let begun = Instant::now();
    assert!(account.wait_for_change("INBOX", &before.state, Duration::from_secs(60)).await.unwrap());
    let (_, after) = all(&account, "INBOX", Some(&before.state)).await;
    assert_eq!(after.new.len(), 1);
    let mut other = Other::of(&servers, "alice");
    other.run("SELECT INBOX");
    other.run("STORE 1 +FLAGS (\\Seen)");
    assert!(account.wait_for_change("INBOX", &after.state, Duration::from_secs(60)).await.unwrap());
    assert!(begun.elapsed() < Duration::from_secs(30));
}
