//! One connection, read and written under limits of bytes and time.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::client::TlsStream;

use super::{Security, Server, Timeouts, tls};
use crate::account::Fault;

/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;
/// How long one address may keep the next waiting.
const NEXT_AFTER: Duration = Duration::from_secs(3);
/// What one read takes at most.
const CHUNK: usize = 64 * 1024;

enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read_buf(into).await,
            Self::Tls(tls) => tls.read_buf(into).await,
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.write_all(bytes).await,
            Self::Tls(tls) => {
                tls.write_all(bytes).await?;
                tls.flush().await
            }
        }
    }
}

/// One connection. Every fault of it leaves it unusable: its caller drops it.
pub(crate) struct Wire {
    transport: Transport,
    server: Server,
    timeouts: Timeouts,
    /// When the command under way is over.
    deadline: Instant,
    /// How long it may be silent meanwhile.
    patience: Duration,
    read: BytesMut,
    /// Bytes that this command's answer may still have.
    budget: usize,
}

impl Wire {
    /// Connects. With [`Security::StartTls`] the caller speaks the few words up to [`Plain::secured`].
    pub(crate) async fn open(server: &Server, timeouts: Timeouts) -> Result<Opened, Fault> {
        let deadline = Instant::now() + timeouts.connect;
        let opening = async {
            let tcp = dial(server).await?;
            let _ = tcp.set_nodelay(true);
            match server.security {
                Security::Tls => {
                    let tls = Transport::Tls(Box::new(tls::handshake(server, tcp).await?));
                    Ok(Opened::Ready(Self::new(tls, server, timeouts)))
                }
                Security::StartTls => {
                    Ok(Opened::Plain(Plain(Self::new(Transport::Plain(tcp), server, timeouts))))
                }
                Security::PlainOnThisMachine => {
                    on_this_machine(server, tcp.peer_addr().ok())?;
                    Ok(Opened::Ready(Self::new(Transport::Plain(tcp), server, timeouts)))
                }
            }
        };
        timeout_at(deadline, opening).await.unwrap_or_else(|_| {
            let seconds = timeouts.connect.as_secs();
            Err(Fault::Unreachable(format!("{server} did not answer within {seconds} seconds")))
        })
    }

    fn new(transport: Transport, server: &Server, timeouts: Timeouts) -> Self {
        Self {
            transport,
            server: server.clone(),
            timeouts,
            deadline: Instant::now() + timeouts.command,
            patience: timeouts.silence,
            read: BytesMut::new(),
            budget: 0,
        }
    }

    /// A command begins: its time and the bytes of its answer are counted from here.
    pub(crate) fn begin(&mut self, answer_bytes_max: usize) {
        self.deadline = Instant::now() + self.timeouts.command;
        self.patience = self.timeouts.silence;
        self.budget = answer_bytes_max;
    }

    /// For a reply that takes longer than others; until the next command begins.
    pub(crate) fn wait_longer(&mut self, silence: Duration) {
        self.patience = silence;
        self.deadline = Instant::now() + silence;
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// One line without its end.
    pub(crate) async fn line(&mut self, bytes_max: usize) -> Result<Bytes, Fault> {
        let mut seen = 0;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.read[seen..]) {
                let line = self.read.split_to(seen + found + 1).freeze();
                self.spend(line.len())?;
                let end = line.len() - 1;
                return Ok(line.slice(..if line[..end].ends_with(b"\r") { end - 1 } else { end }));
            }
            seen = self.read.len();
            if seen > bytes_max.min(self.budget) {
                return Err(self.too_much("a line"));
            }
            self.fill().await?;
        }
    }

    /// So many bytes. Memory is taken as they come, not as they are announced.
    pub(crate) async fn exactly(&mut self, len: usize) -> Result<Bytes, Fault> {
        self.spend(len)?;
        while self.read.len() < len {
            self.fill().await?;
        }
        Ok(self.read.split_to(len).freeze())
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        // In pieces: a server that takes a long mail slowly is not silent.
        for piece in bytes.chunks(CHUNK) {
            let written = self.transport.write(piece);
            within(self.patience, self.deadline, &self.server, written).await?;
        }
        Ok(())
    }

    async fn fill(&mut self) -> Result<(), Fault> {
        self.read.reserve(CHUNK.min(self.budget.max(1024)));
        let read = self.transport.read(&mut self.read);
        match within(self.patience, self.deadline, &self.server, read).await? {
            0 => Err(Fault::Unreachable(format!("{} closed the connection", self.server))),
            _ => Ok(()),
        }
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Fault> {
        let left = self.budget.checked_sub(bytes);
        self.budget = left.ok_or_else(|| self.too_much("an answer"))?;
        Ok(())
    }

    fn too_much(&self, what: &str) -> Fault {
        Fault::Nonsense(format!("{} sent {what} that is longer than we take", self.server))
    }
}

/// A connection that was opened.
pub(crate) enum Opened {
    /// Ready to be spoken on.
    Ready(Wire),
    /// Only to ask for TLS on.
    Plain(Plain),
}

/// A connection without TLS, of which no byte outlives the step to TLS: what an attacker slipped in before it could
/// pass for the server's own words after it.
pub(crate) struct Plain(Wire);

impl Plain {
    /// For the few words before TLS.
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.0
    }

    /// Shakes hands, once the server agreed.
    pub(crate) async fn secured(self) -> Result<Wire, Fault> {
        let Wire { transport, server, timeouts, read, .. } = self.0;
        if !read.is_empty() {
            return Err(Fault::Refused(format!(
                "{server} sent more than its agreement to TLS: the connection may have been tampered with"
            )));
        }
        let tls = match transport {
            Transport::Plain(tcp) => timeout(timeouts.connect, tls::handshake(&server, tcp)).await,
            Transport::Tls(_) => Ok(Err(Fault::Refused(format!("{server} speaks TLS already")))),
        };
        let tls = tls.unwrap_or_else(|_| {
            Err(Fault::Unreachable(format!("{server} stopped answering while TLS was set up")))
        })?;
        Ok(Wire::new(Transport::Tls(Box::new(tls)), &server, timeouts))
    }
}

fn on_this_machine(server: &Server, peer: Option<SocketAddr>) -> Result<(), Fault> {
    match peer {
        Some(address) if address.ip().is_loopback() => Ok(()),
        Some(_) | None => Err(Fault::Refused(format!(
            "{server} is not on this machine, and nothing is sent there without TLS"
        ))),
    }
}

/// A connection to the first address that answers. The caller looks at the clock.
async fn dial(server: &Server) -> Result<TcpStream, Fault> {
    let found = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
    let found = found.map_err(|_| {
        Fault::Unreachable(format!("the name `{}` has no address; check its spelling", server.host))
    })?;
    let addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX).collect();
    for (at, address) in addresses.iter().enumerate() {
        let connecting = TcpStream::connect(address);
        let connected = match at + 1 == addresses.len() {
            true => connecting.await.ok(),
            false => timeout(NEXT_AFTER, connecting).await.ok().and_then(Result::ok),
        };
        if let Some(tcp) = connected {
            return Ok(tcp);
        }
    }
    Err(Fault::Unreachable(format!("no connection to {server}; check that it can be reached from here")))
}

async fn within<T>(
    silence: Duration,
    deadline: Instant,
    server: &Server,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T, Fault> {
    let until = deadline.min(Instant::now() + silence);
    match timeout_at(until, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(Fault::Unreachable(format!("the connection to {server} broke"))),
        Err(_) => Err(Fault::Unreachable(format!("{server} stopped answering"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_goes_to_this_machine_alone() {
        let server = Server::new("localhost", 143, Security::PlainOnThisMachine);
        let may =
            |peer: Option<&str>| on_this_machine(&server, peer.map(|peer| peer.parse().unwrap())).is_ok();
        assert!(may(Some("127.0.0.1:143")) && may(Some("[::1]:143")));
        for peer in
            [None, Some("10.0.0.1:143"), Some("0.0.0.0:143"), Some("[fe80::1]:143"), Some("192.0.2.1:143")]
        {
            assert!(!may(peer), "{peer:?}");
        }
    }
}
