//! One account against a real Dovecot: logins, single messages, connections.

use std::sync::atomic::Ordering;

use helve_office::account::{Fault, Flags, MailStore as _};
use helve_office::imap::ImapAccount;
use helve_office::text::{MessageId, SearchWords};
use helve_office::wire::{Login, Security, Server};
use helve_testkit::OfficeServers;

use super::mail_servers::{Other, Stalling, account, mail, password, server, token, token_login};

#[tokio::test]
async fn every_kind_of_login_works_and_a_wrong_one_says_so() {
    let servers = OfficeServers::start();
    let good = token(&servers, "alice", 600);
    let expired = token(&servers, "alice", -600);
    let wrong = Login::Password { user: "alice@example.test".into(), password: "geheim".to_owned().into() };
    let foreign = token_login("bob", token(&servers, "alice", 600));
    let plain = Server { security: Security::PlainOnThisMachine, ca_file: None, ..server(&servers, "imap") };
    for (server, login, works) in [
        (server(&servers, "imaps"), password("alice"), true),
        (server(&servers, "imap"), password("alice"), true),
        (plain, password("alice"), true),
        (server(&servers, "imaps"), token_login("alice", good), true),
        (server(&servers, "imaps"), token_login("alice", expired), false),
        (server(&servers, "imaps"), foreign, false),
        (server(&servers, "imaps"), wrong, false),
    ] {
        let shown = format!("{server} {login:?}");
        match ImapAccount::new(server, login).folders().await {
            Ok(folders) => assert!(works && !folders.is_empty(), "{shown}"),
            Err(Fault::Login(why)) => {
                assert!(!works && !why.contains("geheim") && !why.contains("eyJ"), "{why}")
            }
            Err(other) => panic!("{shown}: {other:?}"),
        }
        assert!(!shown.contains("pw") && !shown.contains("geheim"), "{shown}");
    }
}

#[tokio::test]
async fn a_message_is_put_found_fetched_and_removed_alone() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    let flags = Flags { seen: true, draft: true, ..Flags::default() };
    let key = account.append("Drafts", mail("one", "text"), flags).await.unwrap().unwrap();
    let twin = account.append("Drafts", mail("one-more", "text"), flags).await.unwrap().unwrap();
    let id = MessageId::new("<one@example.test>").unwrap();
    assert_eq!(account.find("Drafts", &id).await.unwrap(), std::slice::from_ref(&key));
    assert_eq!(account.find("INBOX", &id).await.unwrap(), Vec::<String>::new());
    // A part of an ID is another ID.
    assert_eq!(account.find("Drafts", &MessageId::new("<ne@example.test>").unwrap()).await.unwrap().len(), 0);
    assert_eq!(account.fetch("Drafts", &key, 10_000).await.unwrap(), mail("one", "text"));

    let untidy = account.append("Drafts", "Subject: a\n\nb\rc".into(), flags).await.unwrap().unwrap();
    assert_eq!(&account.fetch("Drafts", &untidy, 100).await.unwrap()[..], b"Subject: a\r\n\r\nb\r\nc\r\n");
    account.remove("Drafts", &untidy).await.unwrap();

    // Somebody else marked one for later; it must stay.
    let mut other = Other::of(&servers, "alice");
    other.run("SELECT Drafts");
    other.run("STORE 2 +FLAGS (\\Deleted)");
    account.remove("Drafts", &key).await.unwrap();
    account.remove("Drafts", &key).await.unwrap();
    assert!(matches!(account.fetch("Drafts", &key, 10_000).await, Err(Fault::Gone(_))));
    assert_eq!(account.changes("Drafts", None).await.unwrap().new[0].key, twin);
    for wrong in ["", "x", "1", "1-0", "1-99999999999", "*", "1:*", &format!("{key},1:*")] {
        assert!(matches!(account.remove("Drafts", wrong).await, Err(Fault::Gone(_))), "{wrong}");
    }
    assert!(matches!(account.append("Nowhere", mail("x", ""), flags).await, Err(Fault::Gone(_))));
    assert!(matches!(account.changes("Nowhere", None).await, Err(Fault::Gone(_))));
}

#[tokio::test]
async fn words_in_any_script_are_searched_for_as_they_stand() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    let body = "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n会議 für c++ \"quoted\"";
    let message = format!("Subject: x\r\nMessage-ID: <w@example.test>\r\nMIME-Version: 1.0\r\n{body}\r\n");
    let key = account.append("INBOX", message.into(), Flags::default()).await.unwrap().unwrap();
    for (words, found) in [("会議", true), ("FÜR c++", true), ("\\", false), ("NOT", false), ("ALL", false)]
    {
        let keys = account.search("INBOX", &SearchWords::new(words).unwrap()).await.unwrap();
        assert_eq!(keys.contains(&key), found, "{words}");
    }
}

#[tokio::test]
async fn connections_are_kept_and_replaced_where_they_were_closed() {
    let servers = OfficeServers::start();
    let proxy = Stalling::start(servers.port("/imaps/port")).await;
    let account =
        ImapAccount::new(Server { port: proxy.port, ..server(&servers, "imaps") }, password("alice"));
    for number in 0..10 {
        account.append("INBOX", mail(&format!("m{number}"), "x"), Flags::default()).await.unwrap();
        account.changes("INBOX", None).await.unwrap();
    }
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 1);
    // Two at a time, however many ask.
    let asked = (0..10).map(|_| account.changes("INBOX", None));
    let done = futures_util::future::join_all(asked).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 2);
    kick(&servers, "alice@example.test");
    // The server's processes hear of it one after the other, on a busy machine not at once.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    account.changes("INBOX", None).await.unwrap();
    account.append("INBOX", mail("after", "x"), Flags::default()).await.unwrap();
    assert!(proxy.connections.load(Ordering::SeqCst) > 2);
}

/// Closes every connection of a user, as an administrator does.
#[expect(clippy::disallowed_methods, reason = "a counterpart is not Helve's to confine")]
fn kick(servers: &OfficeServers, user: &str) {
    let config = servers.folder().join("dovecot/dovecot.conf");
    let done =
        std::process::Command::new("doveadm").arg("-c").arg(config).args(["kick", user]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
