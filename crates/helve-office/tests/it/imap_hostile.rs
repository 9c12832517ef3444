//! Servers and networks that mean harm or stop answering, and text that wants to be a command.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use helve_office::account::{Fault, Flags, MailStore as _};
use helve_office::imap::ImapAccount;
use helve_office::text::{MessageId, SearchWords};
use helve_office::wire::{Login, Security, Server};
use helve_testkit::OfficeServers;

use super::mail_servers::{
    OneToken, Other, SHORT, Stalling, Then, account, mail, password, scripted, server,
};

#[tokio::test]
async fn text_never_becomes_a_command() {
    let servers = OfficeServers::start();
    let account = account(&servers, "alice");
    Other::of(&servers, "alice").run("CREATE Precious");
    account.append("INBOX", mail("a", "x"), Flags::default()).await.unwrap();
    for attempt in [
        "INBOX\r\nh9 DELETE Precious",
        "INBOX\" (CONDSTORE)\r\nh9 DELETE \"Precious",
        "x\"\r\nh9 DELETE Precious\r\n\"",
        "{3}\r\nabc DELETE Precious",
        "{20+}\r\nh9 DELETE Precious",
        "a\0b",
        "\\\"",
        "x\" NOT TEXT \"x",
        "(\u{2028}h9 DELETE Precious",
    ] {
        let flags = Flags::default();
        assert!(account.changes(attempt, None).await.is_err(), "{attempt:?}");
        assert!(account.append(attempt, mail("b", "x"), flags).await.is_err(), "{attempt:?}");
        assert!(account.fetch("INBOX", attempt, 100).await.is_err(), "{attempt:?}");
        if let Ok(words) = SearchWords::new(attempt) {
            assert_eq!(account.search("INBOX", &words).await.unwrap().len(), 0, "{attempt:?}");
        }
        if let Ok(id) = MessageId::new(attempt) {
            assert_eq!(account.find("INBOX", &id).await.unwrap().len(), 0, "{attempt:?}");
        }
        assert!(account.changes("INBOX", Some(attempt)).await.unwrap().reset);
    }
    let id = MessageId::new("a\"\\{5}@x").unwrap();
    assert_eq!(account.find("INBOX", &id).await.unwrap().len(), 0);
    assert!(account.folders().await.unwrap().iter().any(|folder| folder.path == "Precious"));
    assert_eq!(account.changes("INBOX", None).await.unwrap().total, Some(1));
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_ends_in_a_fault_and_costs_its_connection() {
    let servers = OfficeServers::start();
    let direct = account(&servers, "alice");
    direct.append("INBOX", mail("m", &"text\r\n".repeat(50_000)), Flags::default()).await.unwrap();
    // Far enough to log in, and into the mail.
    let proxy = Stalling::after(servers.port("/imaps/port"), usize::MAX, 100_000, Then::Swallow).await;
    let account =
        ImapAccount::new(Server { port: proxy.port, ..server(&servers, "imaps") }, password("alice"))
            .with_timeouts(SHORT);
    let begun = Instant::now();
    let fault = account.changes("INBOX", None).await.unwrap_err();
    assert!(matches!(&fault, Fault::Unreachable(why) if why.contains("stopped answering")), "{fault:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    // The next call gets a new one, and does not read what is left of the old answer.
    account.folders().await.unwrap();
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 2);

    // One that was kept and is silent is not waited for as long as a new one.
    proxy.stopped.store(true, Ordering::SeqCst);
    let fault = account.folders().await.unwrap_err();
    assert!(matches!(fault, Fault::Unreachable(_)), "{fault:?}");
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_has_an_unknown_outcome() {
    let says: Vec<&[u8]> = vec![
        b"* OK hi\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh1 OK\r\n",
        b"h2 OK\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh3 OK\r\n",
        b"+ go on\r\n",
    ];
    let (account, _heard) = plain(says).await;
    let fault = account.append("Sent", mail("x", "x"), Flags::default()).await.unwrap_err();
    assert!(matches!(fault, Fault::Unknown(_)), "{fault:?}");
}

#[tokio::test]
async fn an_append_cut_off_in_its_middle_put_nothing_there() {
    let servers = OfficeServers::start();
    let message = mail("cut", &"0123456789 0123456789 0123456789\r\n".repeat(600_000));
    for then in [Then::Stop, Then::Close] {
        let proxy = Stalling::after(servers.port("/imaps/port"), 1 << 20, usize::MAX, then).await;
        let imaps = Server { port: proxy.port, ..server(&servers, "imaps") };
        let account = ImapAccount::new(imaps, password("alice")).with_timeouts(SHORT);
        let fault = account.append("INBOX", message.clone(), Flags::default()).await.unwrap_err();
        assert!(matches!(fault, Fault::Unreachable(_)), "{then:?}: {fault:?}");
    }
    assert_eq!(account(&servers, "alice").changes("INBOX", None).await.unwrap().total, Some(0));
}

#[tokio::test]
async fn a_message_is_never_removed_with_others_marks() {
    let says: Vec<&[u8]> = vec![
        b"* OK hi\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh1 OK\r\n",
        b"h2 OK\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh3 OK\r\n",
        b"* 1 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\nh4 OK\r\n",
        b"h5 OK\r\n",
    ];
    let (account, heard) = plain(says).await;
    let fault = account.remove("Drafts", "7-3").await.unwrap_err();
    assert!(matches!(&fault, Fault::Marked(why) if why.contains("marked as deleted")), "{fault:?}");
    drop(account);
    assert!(!heard.await.unwrap().contains("EXPUNGE"));
}

#[tokio::test]
async fn a_server_that_names_no_key_is_asked_for_the_message() {
    let says: Vec<&[u8]> = vec![
        b"* OK hi\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh1 OK\r\n",
        b"h2 OK\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh3 OK\r\n",
        // APPEND, and the six lines of the message with the end of the command.
        b"+ go on\r\n",
        b"",
        b"",
        b"",
        b"",
        b"",
        b"",
        b"h4 OK\r\n",
        b"* 9 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\nh5 OK\r\n",
        b"* SEARCH 3 8 9\r\nh6 OK\r\n",
        b"* 8 FETCH (UID 8 BODY[HEADER.FIELDS (MESSAGE-ID)] {30}\r\nMessage-Id:\r\n <x@example.test>)\r\n\
          * 9 FETCH (UID 9 BODY[HEADER.FIELDS (MESSAGE-ID)] \"Message-ID: <x@example.test.org>\")\r\nh7 OK\r\n",
    ];
    let (account, heard) = plain(says).await;
    let key = account.append("Sent", mail("x", "x"), Flags::default()).await.unwrap();
    assert_eq!(key.as_deref(), Some("7-8"));
    drop(account);
    assert!(heard.await.unwrap().contains("UID SEARCH HEADER Message-ID \"<x@example.test>\""));
}

/// An account whose server says these lines, each after a line of ours.
async fn plain(says: Vec<&[u8]>) -> (ImapAccount, tokio::task::JoinHandle<String>) {
    let (port, heard) = scripted(says.into_iter().map(<[u8]>::to_vec).collect()).await;
    let server = Server::new("127.0.0.1", port, Security::PlainOnThisMachine);
    (ImapAccount::new(server, password("alice")).with_timeouts(SHORT), heard)
}

#[tokio::test]
async fn without_tls_nothing_secret_is_said() {
    let injected: &[u8] = b"t OK begin\r\n* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n";
    for (says, why) in [
        (vec![&b"* OK [CAPABILITY IMAP4rev1] hi\r\n"[..], b"t BAD unknown\r\n"], "does not offer TLS"),
        (vec![b"* OK hi\r\n", b"t NO not now\r\n"], "does not offer TLS"),
        (vec![b"* OK hi\r\n", injected], "tampered with"),
        (vec![b"* PREAUTH welcome\r\n"], "does not greet"),
    ] {
        let (port, heard) = scripted(says.into_iter().map(<[u8]>::to_vec).collect()).await;
        let server = Server::new("127.0.0.1", port, Security::StartTls);
        let account = ImapAccount::new(server, password("alice")).with_timeouts(SHORT);
        let fault = account.folders().await.unwrap_err();
        assert!(matches!(&fault, Fault::Refused(text) if text.contains(why)), "{fault:?}");
        drop(account);
        let heard = heard.await.unwrap();
        assert!(heard.is_empty() || heard == "t STARTTLS\r\n", "{heard:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_or_for_another_name_is_refused() {
    let servers = OfficeServers::start();
    // The certificate is for 127.0.0.1 and not for this one.
    let elsewhere = "127.0.0.2";
    for which in ["imaps", "imap"] {
        let proxy = Stalling::at(elsewhere, servers.port(&format!("/{which}/port"))).await;
        let real = server(&servers, which);
        for wrong in [
            Server { ca_file: None, ..real.clone() },
            Server { host: elsewhere.into(), port: proxy.port, ..real },
        ] {
            let account = ImapAccount::new(wrong, password("alice")).with_timeouts(SHORT);
            let fault = account.folders().await.unwrap_err();
            assert!(matches!(&fault, Fault::Refused(why) if why.contains("not trusted")), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn answers_that_are_too_long_or_no_answers_are_refused() {
    let login: [&[u8]; 4] = [
        b"* OK hi\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh1 OK\r\n",
        b"h2 OK\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh3 OK\r\n",
    ];
    let long = [b"* LIST () \"/\" ".as_slice(), &b"x".repeat(5 << 20)].concat();
    let many = b"* 1 EXISTS\r\n".repeat(500_000);
    for (answer, is_nonsense) in [
        (&b"* LIST () \"/\" {4294967295}\r\n"[..], true),
        (b"* LIST () \"/\" {99999999999999999999999}\r\n* BYE\r\n", false),
        (&long, true),
        (&many, true),
        (b"* BYE no more\r\n", false),
    ] {
        let (account, _heard) = plain([login.as_slice(), &[answer]].concat()).await;
        match account.folders().await.unwrap_err() {
            Fault::Nonsense(why) => assert!(is_nonsense, "{why}"),
            Fault::Unreachable(why) => assert!(!is_nonsense, "{why}"),
            fault => panic!("{fault:?}"),
        }
    }
    let (account, _heard) = plain(vec![b"220 mail.example.test ESMTP\r\n"]).await;
    assert!(matches!(account.folders().await, Err(Fault::Nonsense(_))));
}

#[tokio::test]
async fn a_server_that_reports_four_billion_mails_is_not_believed() {
    let says: Vec<&[u8]> = vec![
        b"* OK hi\r\n",
        b"* CAPABILITY IMAP4rev1 ESEARCH\r\nh1 OK\r\n",
        b"h2 OK\r\n",
        b"* CAPABILITY IMAP4rev1 ESEARCH\r\nh3 OK\r\n",
        b"* 4294967295 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\nh4 OK\r\n",
        b"* ESEARCH (TAG \"h5\") UID ALL 1:4294967295\r\nh5 OK\r\n",
    ];
    let (account, _heard) = plain(says).await;
    let fault = account.changes("INBOX", None).await.unwrap_err();
    assert!(matches!(&fault, Fault::Refused(why) if why.contains("more than")), "{fault:?}");
}

#[tokio::test]
async fn a_server_without_extensions_is_compared_flag_by_flag() {
    let says: Vec<&[u8]> = vec![
        b"* OK hi\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh1 OK\r\n",
        b"h2 OK\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh3 OK\r\n",
        // The first look.
        b"* 2 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n* OK [UIDNEXT 6] x\r\nh4 OK\r\n",
        b"* SEARCH 3 5\r\nh5 OK\r\n",
        b"* 1 FETCH (UID 3 FLAGS () INTERNALDATE \"17-Jul-1996 02:44:25 -0700\" RFC822.SIZE 3)\r\n\
          * 2 FETCH (UID 5 FLAGS (\\Seen) INTERNALDATE \"17-Jul-1996 02:44:25 -0700\" RFC822.SIZE 3)\r\nh6 OK\r\n",
        // One cannot be read, alone neither: the other must not be lost with it.
        b"* 2 FETCH (UID 5 BODY[]<0> {3}\r\nabc)\r\n* 1 FETCH (UID 3 BODY[] \"\r\nh7 NO broken\r\n",
        b"h8 NO broken\r\n",
        // The second: sums are made. The third: a flag changed and a mail went.
        b"* 2 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n* OK [UIDNEXT 6] x\r\nh9 OK\r\n",
        b"* 1 FETCH (UID 3 FLAGS ())\r\n* 2 FETCH (UID 5 FLAGS (\\Seen))\r\nh10 OK\r\n",
        b"* 1 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n* OK [UIDNEXT 6] x\r\nh11 OK\r\n",
        b"* 1 FETCH (UID 5 FLAGS (\\Seen \\Flagged))\r\nh12 OK\r\n",
        b"* SEARCH 5\r\nh13 OK\r\n",
    ];
    let (account, _heard) = plain(says).await;
    let first = account.changes("INBOX", None).await.unwrap();
    let found: Vec<_> = first.new.iter().map(|mail| (mail.key.as_str(), &mail.bytes[..])).collect();
    assert_eq!(found, [("1-5", &b"abc"[..]), ("1-3", b"")]);
    let second = account.changes("INBOX", Some(&first.state)).await.unwrap();
    let third = account.changes("INBOX", Some(&second.state)).await.unwrap();
    assert_eq!(third.flags, [("1-5".to_owned(), Flags { seen: true, flagged: true, ..Flags::default() })]);
    assert_eq!(third.gone, ["1-3"]);
}

#[tokio::test]
async fn mails_that_a_busy_server_does_not_hand_out_are_asked_for_again() {
    for code in ["UNAVAILABLE", "INUSE", "LIMIT"] {
        let busy = format!("h7 NO [{code}] not now\r\n");
        let says: Vec<&[u8]> = vec![
            b"* OK hi\r\n",
            b"* CAPABILITY IMAP4rev1\r\nh1 OK\r\n",
            b"h2 OK\r\n",
            b"* CAPABILITY IMAP4rev1\r\nh3 OK\r\n",
            b"* 1 EXISTS\r\n* OK [UIDVALIDITY 1] x\r\n* OK [UIDNEXT 6] x\r\nh4 OK\r\n",
            b"* SEARCH 5\r\nh5 OK\r\n",
            b"* 1 FETCH (UID 5 FLAGS () INTERNALDATE \"17-Jul-1996 02:44:25 -0700\" RFC822.SIZE 3)\r\nh6 OK\r\n",
            busy.as_bytes(),
        ];
        let (account, _heard) = plain(says).await;
        let fault = account.changes("INBOX", None).await.unwrap_err();
        assert!(matches!(fault, Fault::Unreachable(_)), "{code}: {fault:?}");
    }
}

#[tokio::test]
async fn a_kept_password_logs_in_on_a_server_that_has_only_login() {
    let says = [
        &b"* OK hi\r\n"[..],
        b"* CAPABILITY IMAP4rev1\r\nh1 OK\r\n",
        b"h2 OK\r\n",
        b"* CAPABILITY IMAP4rev1\r\nh3 OK\r\n",
        b"* LIST () \"/\" INBOX\r\nh4 OK\r\n",
    ];
    let (port, heard) = scripted(says.into_iter().map(<[u8]>::to_vec).collect()).await;
    let server = Server::new("127.0.0.1", port, Security::PlainOnThisMachine);
    let login = Login::Kept {
        user: "alice".to_owned(),
        password: Arc::new(OneToken("kept-pw".into(), AtomicUsize::new(0))),
    };
    let account = ImapAccount::new(server, login).with_timeouts(SHORT);
    let _ = account.folders().await;
    drop(account);
    assert!(heard.await.unwrap().contains("h2 LOGIN \"alice\" \"kept-pw\"\r\n"));
}
