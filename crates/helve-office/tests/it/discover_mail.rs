//! Mail servers found from an address: by a name server of the test's own, against real mail servers.

use std::net::SocketAddr;

use helve_office::account::Fault;
use helve_office::connect::discover_mail::{Candidate, Evidence, Service, candidates, check};
use helve_office::connect::dns::Resolver;
use helve_office::connect::presets::PRESETS;
use helve_office::text::Address;
use helve_office::wire::{Login, Security, Server};
use helve_testkit::OfficeServers;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use super::mail_servers::{password, server};

/// A record: the name that is asked for, its type, its data.
pub(crate) type Record = (&'static str, u16, Vec<u8>);

pub(crate) const SRV: u16 = 33;
pub(crate) const MX: u16 = 15;
pub(crate) const TXT: u16 = 16;

fn labels(name: &str) -> Vec<u8> {
    let mut coded = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        coded.push(u8::try_from(label.len()).unwrap());
        coded.extend(label.bytes());
    }
    coded.push(0);
    coded
}

pub(crate) fn srv(priority: u16, weight: u16, port: u16, host: &str) -> Vec<u8> {
    let numbers = [priority, weight, port].map(u16::to_be_bytes).concat();
    [numbers, labels(host)].concat()
}

pub(crate) fn mx(host: &str) -> Vec<u8> {
    [vec![0, 10], labels(host)].concat()
}

/// The answer to a query, from these records.
fn answer(query: &[u8], records: &[Record]) -> Vec<u8> {
    let question = &query[12..];
    let end = question.iter().position(|byte| *byte == 0).unwrap() + 1;
    let kind = u16::from_be_bytes([question[end], question[end + 1]]);
    let fits = |(name, of, _): &&Record| labels(name) == question[..end] && *of == kind;
    let found: Vec<&Record> = records.iter().filter(fits).collect();
    let mut answer = query[..2].to_vec();
    answer.extend([
        0x81,
        if found.is_empty() { 0x83 } else { 0x80 },
        0,
        1,
        0,
        u8::try_from(found.len()).unwrap(),
    ]);
    answer.extend([0, 0, 0, 0]);
    answer.extend(&question[..end + 4]);
    for (_, kind, data) in found {
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 60]);
        answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        answer.extend(data);
    }
    answer
}

/// A name server with these records. Before each answer it sends those of somebody who guesses.
pub(crate) async fn name_server(records: Vec<Record>) -> Resolver {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1024];
        while let Ok((read, from)) = socket.recv_from(&mut buffer).await {
            let evil = [("_imaps._tcp.example.test", SRV, srv(0, 0, 993, "evil.example"))];
            let mut forged = answer(&buffer[..read], &evil);
            forged[0] ^= 0x55;
            socket.send_to(&forged, from).await.unwrap();
            socket.send_to(b"\xc0\x0c", from).await.unwrap();
            socket.send_to(&answer(&buffer[..read], &records), from).await.unwrap();
        }
    });
    Resolver::asking(vec![address])
}

fn shown(found: &[Candidate]) -> Vec<String> {
    found
        .iter()
        .map(|candidate| {
            format!("{:?} {} {:?}", candidate.service, candidate.server, candidate.server.security)
        })
        .collect()
}

fn address(text: &str) -> Address {
    Address::new(text).unwrap()
}

#[tokio::test]
async fn servers_that_a_domain_names_come_in_its_order() {
    let resolver = name_server(vec![
        ("_imap._tcp.example.test", SRV, srv(0, 0, 143, "plain.example.test")),
        ("_imaps._tcp.example.test", SRV, srv(20, 0, 993, "second.example.test")),
        ("_imaps._tcp.example.test", SRV, srv(10, 1, 993, "light.example.test")),
        ("_imaps._tcp.example.test", SRV, srv(10, 9, 1993, "heavy.example.test")),
        ("_imaps._tcp.example.test", SRV, srv(0, 0, 993, "a b\r\n.example")),
        ("_submissions._tcp.example.test", SRV, srv(0, 0, 465, ".")),
        ("_submission._tcp.example.test", SRV, srv(0, 0, 587, "smtp.example.test")),
    ])
    .await;
    let found = candidates(&address("ada@example.test"), &resolver).await;
    assert_eq!(
        shown(&found),
        [
            "Imap heavy.example.test:1993 Tls",
            "Imap light.example.test:993 Tls",
            "Imap second.example.test:993 Tls",
            "Imap plain.example.test:143 StartTls",
            "Submission smtp.example.test:587 StartTls",
        ]
    );
    assert!(found.iter().all(|candidate| candidate.found == Evidence::Dns));
}

#[tokio::test]
async fn providers_are_known_by_their_domains_and_exchangers() {
    let resolver = name_server(vec![
        ("firma.example", MX, mx("aspmx.l.google.com")),
        ("company.example", MX, mx("company-example.mail.protection.outlook.com")),
        ("fake.example", MX, mx("notgoogle.com.evil.example")),
    ])
    .await;
    for (who, wanted) in [
        ("a@gmail.com", Some("Google")),
        ("a@firma.example", Some("Google")),
        ("a@company.example", Some("Microsoft")),
        ("a@outlook.com", Some("Microsoft")),
        ("a@fake.example", None),
    ] {
        let found = candidates(&address(who), &resolver).await;
        let name = found.first().and_then(|candidate| match candidate.found {
            Evidence::Preset(preset) => Some(preset.name),
            Evidence::Dns | Evidence::Guessed => None,
        });
        assert_eq!(name, wanted, "{who}");
    }
    for preset in PRESETS {
        for server in [preset.imap(), preset.smtp()] {
            assert_ne!(server.security, Security::PlainOnThisMachine);
        }
        let urls = preset.oauth.iter().flat_map(|oauth| [oauth.authorize, oauth.token]);
        assert!(urls.into_iter().all(|url| url.starts_with("https://")));
    }
}

#[tokio::test]
async fn a_login_is_tried_and_the_server_says_what_it_can() {
    let servers = OfficeServers::start();
    for (service, which, can) in [
        (Service::Imap, "imaps", "CONDSTORE"),
        (Service::Imap, "imap", "UIDPLUS"),
        (Service::Submission, "smtps", "8BITMIME"),
        (Service::Submission, "smtp", "SIZE 26214400"),
    ] {
        let candidate = Candidate { service, server: server(&servers, which), found: Evidence::Dns };
        let checked = check(&candidate, &password("alice")).await.unwrap();
        assert!(checked.abilities.iter().any(|ability| ability == can), "{which}: {:?}", checked.abilities);
        assert_eq!(checked.folders, (service == Service::Imap).then_some(6));
        let wrong = Login::Password { user: "alice@example.test".into(), password: "no".to_owned().into() };
        assert!(matches!(check(&candidate, &wrong).await, Err(Fault::Login(_))), "{which}");
        // What speaks no TLS on this port, or is not there.
        let other = Server { port: 1, ..candidate.server.clone() };
        let nowhere = Candidate { server: other, ..candidate };
        assert!(matches!(check(&nowhere, &password("alice")).await, Err(Fault::Unreachable(_))));
    }
    assert_eq!(servers.sent().len(), 0);
}

#[tokio::test]
async fn an_answer_too_long_for_udp_is_asked_for_by_tcp() {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).await.unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1024];
        while let Ok((read, from)) = udp.recv_from(&mut buffer).await {
            let mut cut = answer(&buffer[..read], &[]);
            cut[2] |= 2;
            udp.send_to(&cut[..20], from).await.unwrap();
        }
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            let mut query = vec![0; usize::from(stream.read_u16().await.unwrap())];
            stream.read_exact(&mut query).await.unwrap();
            let answer =
                answer(&query, &[("_imaps._tcp.example.test", SRV, srv(1, 1, 993, "imap.example.test"))]);
            stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        }
    });
    let found = Resolver::asking(vec![address]).srv("_imaps._tcp", "example.test").await.unwrap();
    assert_eq!(found.iter().map(|srv| srv.host.as_str()).collect::<Vec<_>>(), ["imap.example.test"]);
}

#[tokio::test]
async fn a_name_server_that_is_silent_costs_seconds_and_the_next_is_asked() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = silent.local_addr().unwrap();
    assert!(matches!(Resolver::asking(vec![address]).mx("example.test").await, Err(Fault::Unreachable(_))));
    let working = name_server(vec![("example.test", MX, mx("mx.example.test"))]).await;
    let both = Resolver::asking([vec![address], working.servers().to_vec()].concat());
    assert_eq!(both.mx("example.test").await.unwrap(), ["mx.example.test"]);
    assert!(Resolver::asking(Vec::new()).mx("example.test").await.is_err());
}
