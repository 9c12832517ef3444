//! Asks this machine's name servers for SRV and MX records, which the system's own lookup does not give.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::account::Fault;

/// How long one name server may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Most name servers that are asked.
const SERVERS_MAX: usize = 3;
/// Most records of one answer.
const RECORDS_MAX: usize = 20;
/// `resolv.conf` is short.
const CONFIG_BYTES_MAX: u64 = 64 << 10;

/// Name servers to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolver(Vec<SocketAddr>);

/// A server that a domain names for a service (RFC 2782), best first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Srv {
    priority: u16,
    /// Counted down: of two with the same priority, the heavier comes first.
    lightness: u16,
    /// The name of the host.
    pub host: String,
    /// The port it listens on.
    pub port: u16,
}

impl Resolver {
    /// Those of this machine.
    pub async fn system() -> Self {
        let mut text = String::new();
        if let Ok(file) = tokio::fs::File::open("/etc/resolv.conf").await {
            let _ = file.take(CONFIG_BYTES_MAX).read_to_string(&mut text).await;
        }
        Self(name_servers(&text))
    }

    /// A resolver that asks these name servers.
    pub fn asking(servers: Vec<SocketAddr>) -> Self {
        Self(servers)
    }

    /// Who is asked, in this order.
    pub fn servers(&self) -> &[SocketAddr] {
        &self.0
    }

    /// The servers of a domain for a service such as `_imaps._tcp`. None where it has none, or says that it does
    /// not offer the service.
    pub async fn srv(&self, service: &str, domain: &str) -> Result<Vec<Srv>, Fault> {
        let name = format!("{service}.{domain}");
        let found = self.ask(&name, TYPE::SRV, |data| match data {
            RData::SRV(srv) => Some(Srv {
                priority: srv.priority,
                lightness: u16::MAX - srv.weight,
                host: host(&srv.target)?,
                port: srv.port,
            }),
            _ => None,
        });
        Ok(found.await?.into_iter().collect())
    }

    /// The path that a domain names for a service such as `_caldavs._tcp` (RFC 6764 4).
    pub async fn path(&self, service: &str, domain: &str) -> Result<Option<String>, Fault> {
        let name = format!("{service}.{domain}");
        let found = self.ask(&name, TYPE::TXT, |data| match data {
            RData::TXT(txt) => {
                let (_, value) = txt.iter_raw().find(|(key, _)| key.eq_ignore_ascii_case(b"path"))?;
                let path = String::from_utf8(value?.to_vec()).ok()?;
                (path.starts_with('/') && path.len() <= 255 && path.bytes().all(|b| b.is_ascii_graphic()))
                    .then_some(path)
            }
            _ => None,
        });
        Ok(found.await?.into_iter().next())
    }

    /// The hosts that take mail for a domain, best first.
    pub async fn mx(&self, domain: &str) -> Result<Vec<String>, Fault> {
        let found = self.ask(domain, TYPE::MX, |data| match data {
            RData::MX(mx) => Some((mx.preference, host(&mx.exchange)?)),
            _ => None,
        });
        Ok(found.await?.into_iter().map(|(_, host)| host).collect())
    }

    /// The records of one name, from the first server that answers.
    async fn ask<T: Ord>(
        &self,
        name: &str,
        kind: TYPE,
        read: impl Fn(&RData<'_>) -> Option<T>,
    ) -> Result<BTreeSet<T>, Fault> {
        let mut last = Fault::Unreachable("this machine has no name server".to_owned());
        for server in self.0.iter().take(SERVERS_MAX) {
            let asked = timeout(ANSWER_WITHIN, exchange(*server, name, kind)).await;
            let silent = |_| Err(Fault::Unreachable(format!("the name server {server} did not answer")));
            match asked.unwrap_or_else(silent) {
                Ok(answer) => return Ok(records(&answer, read)),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }
}

fn records<T: Ord>(answer: &[u8], read: impl Fn(&RData<'_>) -> Option<T>) -> BTreeSet<T> {
    let Ok(packet) = Packet::parse(answer) else { return BTreeSet::new() };
    packet.answers.iter().take(RECORDS_MAX).filter_map(|record| read(&record.rdata)).collect()
}

/// Asks by UDP, and by TCP where the answer is too long for that.
async fn exchange(server: SocketAddr, name: &str, kind: TYPE) -> Result<Vec<u8>, Fault> {
    let broken = |_| Fault::Unreachable(format!("the name server {server} cannot be asked"));
    // A number and a port that nobody can guess: else others could answer in its place.
    let id = getrandom::u32().unwrap_or_default() as u16;
    let query = query(id, name, kind)?;
    let own: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((own, 0)).await.map_err(broken)?;
    socket.connect(server).await.map_err(broken)?;
    socket.send(&query).await.map_err(broken)?;
    let mut buffer = vec![0; 4096];
    loop {
        let read = socket.recv(&mut buffer).await.map_err(broken)?;
        match judged(&buffer[..read], id, name, kind) {
            Judged::Answer => return Ok(buffer[..read].to_vec()),
            Judged::Cut => break,
            Judged::Failed => return Err(Fault::Unreachable(format!("the name server {server} fails"))),
            // Another host's, or a guess: the real one may still come.
            Judged::NotOurs => {}
        }
    }
    let mut stream = TcpStream::connect(server).await.map_err(broken)?;
    let length = u16::try_from(query.len()).unwrap_or(u16::MAX).to_be_bytes();
    stream.write_all(&[&length[..], &query].concat()).await.map_err(broken)?;
    let mut answer = vec![0; usize::from(stream.read_u16().await.map_err(broken)?)];
    stream.read_exact(&mut answer).await.map_err(broken)?;
    match judged(&answer, id, name, kind) {
        Judged::Answer => Ok(answer),
        Judged::Cut | Judged::Failed | Judged::NotOurs => {
            Err(Fault::Unreachable(format!("the name server {server} fails")))
        }
    }
}

fn query(id: u16, name: &str, kind: TYPE) -> Result<Vec<u8>, Fault> {
    let bad = |_| Fault::Refused(format!("`{name}` is no name that can be looked up"));
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let question = Question::new(Name::new(name).map_err(bad)?, kind.into(), CLASS::IN.into(), false);
    packet.questions.push(question);
    packet.build_bytes_vec().map_err(bad)
}

enum Judged {
    Answer,
    Cut,
    Failed,
    NotOurs,
}

fn judged(answer: &[u8], id: u16, name: &str, kind: TYPE) -> Judged {
    // The header alone: what is cut off cannot be read further.
    let is_cut = answer.len() >= 12 && answer[..2] == id.to_be_bytes() && answer[2] & 0x82 == 0x82;
    let Ok(packet) = Packet::parse(answer) else {
        return if is_cut { Judged::Cut } else { Judged::NotOurs };
    };
    let asks = |question: &Question<'_>| {
        question.qtype == kind.into() && question.qname.to_string().eq_ignore_ascii_case(name)
    };
    let is_ours =
        packet.id() == id && packet.has_flags(PacketFlag::RESPONSE) && packet.questions.iter().any(asks);
    match packet.rcode() {
        _ if !is_ours => Judged::NotOurs,
        _ if packet.has_flags(PacketFlag::TRUNCATION) => Judged::Cut,
        // That there is no such name is an answer.
        RCODE::NoError | RCODE::NameError => Judged::Answer,
        _ => Judged::Failed,
    }
}

/// A name that can be connected to. A single dot means that there is none.
fn host(name: &Name<'_>) -> Option<String> {
    let name = name.to_string().trim_end_matches('.').to_ascii_lowercase();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (!name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain)).then_some(name)
}

fn name_servers(config: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and_then(|_| words.next())?;
        // An address of one link has its interface behind a `%`; those are left out.
        address.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, 53))
    };
    config.lines().filter_map(server).take(SERVERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn name_servers_are_read_from_the_system() {
        let config = "# comment\nsearch example.org\nnameserver 127.0.0.53\nnameserver ::1\nnameserver x\n";
        assert_eq!(name_servers(config), ["127.0.0.53:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
    }

    proptest! {
        #[test]
        fn no_answer_breaks_the_reader(
            bytes in prop::collection::vec(prop_oneof![0..4_u8, 0xbe..0xc4_u8, any::<u8>()], 0..200)
        ) {
            judged(&bytes, 1, "a.example", TYPE::SRV);
            let count = records(&bytes, |data| match data {
                RData::SRV(srv) => host(&srv.target),
                _ => None,
            });
            prop_assert!(count.len() <= RECORDS_MAX);
        }
    }
}
