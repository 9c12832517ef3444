//! Submission against a real server, with faults by recipient and by the network.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use helve_office::account::{Envelope, MailStore as _, Submit as _, Submitted};
use helve_office::smtp::SmtpSubmit;
use helve_office::text::Address;
use helve_office::wire::{Login, Security, Server, Timeouts};
use helve_testkit::OfficeServers;

use super::mail_servers::{
    SHORT, Stalling, Then, account, mail, password, scripted, server, submit, token, token_login,
};

fn envelope(to: &[&str]) -> Envelope {
    let address = |name: &&str| Address::new(&format!("{name}@example.test")).unwrap();
    Envelope { from: address(&"alice"), to: to.iter().map(address).collect() }
}

fn names(recipients: &[Address]) -> Vec<&str> {
    recipients.iter().map(Address::local_part).collect()
}

#[tokio::test]
async fn a_mail_arrives_once_and_as_it_was_written() {
    let servers = OfficeServers::start();
    let text = "one\r\n.\r\n..two\nthree\r.four\r\n\r\nQUIT\r\n";
    let message = mail("sent", text);
    let ended = submit(&servers, "alice").submit(&envelope(&["bob", "carol"]), message).await;
    assert!(matches!(&ended, Submitted::Accepted(words) if words.starts_with("250")), "{ended:?}");
    let sent = servers.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0]["rcpt"], serde_json::json!(["bob@example.test", "carol@example.test"]));
    let page = account(&servers, "bob").changes("INBOX", None).await.unwrap();
    let arrived = String::from_utf8_lossy(&page.new[0].bytes).into_owned();
    assert!(arrived.contains("\r\n\r\none\r\n.\r\n..two\r\nthree\r\n.four\r\n\r\nQUIT\r\n"), "{arrived}");
}

#[tokio::test]
async fn every_fault_has_its_outcome() {
    let servers = OfficeServers::start();
    let smtp = submit(&servers, "alice");
    // Who refuses, whether for now alone, who is named, how often it went out.
    for (to, temporary, named, sent) in [
        (&["bob", "reject"][..], Some(false), &["reject"][..], 0),
        (&["tempfail", "bob"], Some(true), &["tempfail"], 0),
        (&["tempfail", "reject", "bob"], Some(false), &["tempfail", "reject"], 0),
        (&["data-reject"], Some(false), &[], 0),
        (&["data-tempfail"], Some(true), &[], 0),
        (&["lost-reply"], None, &[], 1),
        (&["lost-data"], None, &[], 0),
    ] {
        let before = servers.sent().len();
        let ended = smtp.submit(&envelope(to), mail("fault", "x")).await;
        match (ended, temporary) {
            (Submitted::Refused { why, temporary, recipients }, Some(wanted)) => {
                assert_eq!((temporary, names(&recipients).as_slice()), (wanted, named), "{to:?}: {why}");
            }
            (Submitted::Unknown(_), None) => {}
            (ended, _) => panic!("{to:?}: {ended:?}"),
        }
        assert_eq!(servers.sent().len() - before, sent, "{to:?}");
    }
}

#[tokio::test]
async fn a_slow_server_is_waited_for_and_a_slower_one_is_not() {
    let servers = OfficeServers::start();
    let slow = submit(&servers, "alice").with_timeouts(SHORT);
    let ended = slow.submit(&envelope(&["slow-3"]), mail("slow", "x")).await;
    assert!(matches!(ended, Submitted::Accepted(_)), "{ended:?}");
    let short =
        submit(&servers, "alice").with_timeouts(Timeouts { delivery: Duration::from_secs(1), ..SHORT });
    let ended = short.submit(&envelope(&["slow-30"]), mail("slower", "x")).await;
    assert!(matches!(ended, Submitted::Unknown(_)), "{ended:?}");
}

#[tokio::test]
async fn fifty_recipients_get_it_and_of_fifty_one_none_does() {
    let servers = OfficeServers::start();
    let all: Vec<String> = (0..51).map(|number| format!("r{number}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let smtp = submit(&servers, "alice");
    let ended = smtp.submit(&envelope(&all), mail("many", "x")).await;
    let Submitted::Refused { recipients, temporary: true, .. } = ended else { panic!("{ended:?}") };
    assert_eq!(names(&recipients), ["r50"]);
    assert_eq!(servers.sent().len(), 0);
    let ended = smtp.submit(&envelope(&all[..50]), mail("many", "x")).await;
    assert!(matches!(ended, Submitted::Accepted(_)), "{ended:?}");
    assert_eq!(servers.sent()[0]["rcpt"].as_array().unwrap().len(), 50);
}

#[tokio::test]
async fn logins_and_senders_that_are_refused_send_nothing() {
    let servers = OfficeServers::start();
    let smtps = server(&servers, "smtps");
    let wrong = Login::Password { user: "alice@example.test".into(), password: "geheim".to_owned().into() };
    for (server, login, from, works) in [
        (server(&servers, "smtp"), password("alice"), "alice", true),
        (smtps.clone(), token_login("alice", token(&servers, "alice", 600)), "alice", true),
        (smtps.clone(), token_login("alice", token(&servers, "alice", -600)), "alice", false),
        (smtps.clone(), wrong, "alice", false),
        (smtps, password("alice"), "bob", false),
    ] {
        let before = servers.sent().len();
        let mut envelope = envelope(&["carol"]);
        envelope.from = Address::new(&format!("{from}@example.test")).unwrap();
        match SmtpSubmit::new(server, login).submit(&envelope, mail("login", "x")).await {
            Submitted::Accepted(_) => assert!(works),
            Submitted::Refused { why, temporary, .. } => {
                assert!(!works && !temporary, "{why}");
                assert!(!why.contains("geheim") && !why.contains("eyJ"), "{why}");
            }
            Submitted::Unknown(why) => panic!("{why}"),
        }
        assert_eq!(servers.sent().len() - before, usize::from(works));
    }
    assert_eq!(servers.sent()[0]["tls"], true, "the one by STARTTLS");
}

#[tokio::test]
async fn a_connection_lost_before_the_last_dot_has_sent_nothing() {
    let servers = OfficeServers::start();
    let before = Instant::now();
    let proxy = Stalling::start(servers.port("/smtps/port")).await;
    let smtps = Server { port: proxy.port, ..server(&servers, "smtps") };
    let smtp = SmtpSubmit::new(smtps, password("alice")).with_timeouts(SHORT);
    proxy.stopped.store(true, Ordering::SeqCst);
    let ended = smtp.submit(&envelope(&["bob"]), mail("lost", "x")).await;
    assert!(matches!(&ended, Submitted::Refused { temporary: true, .. }), "{ended:?}");
    assert!(before.elapsed() < Duration::from_secs(20));
    let nowhere = Server::new("127.0.0.1", 1, Security::Tls);
    let ended = SmtpSubmit::new(nowhere, password("alice")).submit(&envelope(&["bob"]), mail("x", "x")).await;
    assert!(matches!(&ended, Submitted::Refused { temporary: true, .. }), "{ended:?}");
    assert_eq!(servers.sent().len(), 0);
}

#[tokio::test]
async fn a_mail_cut_off_in_its_middle_was_not_sent() {
    let servers = OfficeServers::start();
    // Long enough that no buffer of the system holds it.
    let message = mail("cut", &"0123456789 0123456789 0123456789\r\n".repeat(600_000));
    for then in [Then::Stop, Then::Close] {
        let proxy = Stalling::after(servers.port("/smtps/port"), 1 << 20, usize::MAX, then).await;
        let smtps = Server { port: proxy.port, ..server(&servers, "smtps") };
        let smtp = SmtpSubmit::new(smtps, password("alice")).with_timeouts(SHORT);
        let ended = smtp.submit(&envelope(&["bob"]), message.clone()).await;
        let Submitted::Refused { why, temporary: true, .. } = ended else { panic!("{then:?}: {ended:?}") };
        assert!(why.contains("was not sent"), "{why}");
    }
    // Swallowed whole, nobody can tell.
    let proxy = Stalling::after(servers.port("/smtps/port"), 1 << 20, usize::MAX, Then::Swallow).await;
    let smtps = Server { port: proxy.port, ..server(&servers, "smtps") };
    let timeouts = Timeouts { delivery: Duration::from_secs(1), ..SHORT };
    let smtp = SmtpSubmit::new(smtps, password("alice")).with_timeouts(timeouts);
    let ended = smtp.submit(&envelope(&["bob"]), message).await;
    assert!(matches!(ended, Submitted::Unknown(_)), "{ended:?}");
    assert_eq!(servers.sent().len(), 0);
}

const HELLO: [&[u8]; 4] =
    [b"220 hi\r\n", b"250-hi\r\n250-AUTH PLAIN\r\n250 SIZE 1000\r\n", b"334 \r\n", b"235 ok\r\n"];

async fn against(says: &[&[u8]], message: Bytes) -> (Submitted, String) {
    let says = HELLO.iter().chain(says).map(|say| say.to_vec()).collect();
    let (port, heard) = scripted(says).await;
    let server = Server::new("127.0.0.1", port, Security::PlainOnThisMachine);
    let smtp = SmtpSubmit::new(server, password("alice"))
        .with_timeouts(Timeouts { delivery: Duration::from_secs(1), ..SHORT });
    let ended = smtp.submit(&envelope(&["bob"]), message).await;
    (ended, heard.await.unwrap())
}

#[tokio::test]
async fn what_a_server_cannot_take_is_not_sent_to_it() {
    let long = mail("long", &"x".repeat(2000));
    let raw = Bytes::from_static("Subject: Grüße\r\n\r\nx\r\n".as_bytes());
    let body = Bytes::from_static("Subject: x\r\n\r\nGrüße\r\n".as_bytes());
    for (message, why) in
        [(long, "bytes"), (raw, "ASCII"), (body, "8BITMIME"), (Bytes::from_static(b"a\0b"), "NUL")]
    {
        let (ended, heard) = against(&[], message).await;
        let Submitted::Refused { why: said, temporary: false, .. } = ended else { panic!("{ended:?}") };
        assert!(said.contains(why), "{said}");
        assert!(!heard.contains("MAIL FROM"), "{heard}");
    }
}

#[tokio::test]
async fn replies_that_mean_nothing_are_no_success() {
    // After the mail: unknown. Before it: refused.
    let taken: [&[u8]; 3] = [b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"];
    for last in [&b"hello\r\n"[..], b"354 more\r\n", b"25\r\n", &b"250-on and on\r\n".repeat(200), b"250"] {
        // A line of the mail is answered as well: five until the dot.
        let says = [&taken[..], &[b"", b"", b"", b"", b"", last]].concat();
        let (ended, heard) = against(&says, mail("x", "x")).await;
        assert!(matches!(ended, Submitted::Unknown(_)), "{ended:?}: {heard}");
    }
    for says in [
        &[&b"354 what\r\n"[..]][..],
        &[b"250 ok\r\n", b"999 ?\r\n"],
        &[b"250 ok\r\n", b"250 ok\r\n", b"250 ok\r\n"],
    ] {
        let (ended, heard) = against(says, mail("x", "x")).await;
        assert!(matches!(ended, Submitted::Refused { .. }), "{ended:?}");
        assert!(!heard.contains("Subject"), "{heard}");
    }
}

#[tokio::test]
async fn without_tls_no_password_is_said() {
    for says in [
        vec![&b"220 hi\r\n"[..], b"250-hi\r\n250 AUTH PLAIN\r\n", b"502 no\r\n"],
        vec![b"220 hi\r\n", b"250 hi\r\n", b"220 go\r\n250-AUTH PLAIN\r\n"],
    ] {
        let (port, heard) = scripted(says.into_iter().map(<[u8]>::to_vec).collect()).await;
        let server = Server::new("127.0.0.1", port, Security::StartTls);
        let smtp = SmtpSubmit::new(server, password("alice")).with_timeouts(SHORT);
        let ended = smtp.submit(&envelope(&["bob"]), mail("x", "x")).await;
        assert!(matches!(ended, Submitted::Refused { temporary: false, .. }), "{ended:?}");
        let heard = heard.await.unwrap();
        assert!(heard.ends_with("STARTTLS\r\n") && !heard.contains("AUTH"), "{heard:?}");
    }
}
