//! What the tests of IMAP and SMTP share: the real servers, a second client, and connections that misbehave.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream as BlockingStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use helve_core::BoxFuture;
use helve_office::account::Fault;
use helve_office::imap::ImapAccount;
use helve_office::smtp::SmtpSubmit;
use helve_office::wire::{Login, Security, Server, Timeouts, Tokens};
use helve_testkit::OfficeServers;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::SecretString;
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Patience for tests in which a server stops answering.
pub(crate) const SHORT: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    silence: Duration::from_secs(1),
    command: Duration::from_secs(60),
    delivery: Duration::from_secs(8),
};

/// One of the fixture's servers: `imap`, `imaps`, `smtp`, `smtps`.
pub(crate) fn server(servers: &OfficeServers, which: &str) -> Server {
    let security = match servers.text(&format!("/{which}/tls")).as_str() {
        "implicit" => Security::Tls,
        _ => Security::StartTls,
    };
    let (host, port) = (servers.text(&format!("/{which}/host")), servers.port(&format!("/{which}/port")));
    Server { ca_file: Some(servers.text("/ca").into()), ..Server::new(host, port, security) }
}

pub(crate) fn password(name: &str) -> Login {
    Login::Password { user: format!("{name}@example.test"), password: format!("{name}-pw").into() }
}

/// The account of `alice`, `bob` or `carol`.
pub(crate) fn account(servers: &OfficeServers, name: &str) -> ImapAccount {
    ImapAccount::new(server(servers, "imaps"), password(name))
}

pub(crate) fn submit(servers: &OfficeServers, name: &str) -> SmtpSubmit {
    SmtpSubmit::new(server(servers, "smtps"), password(name))
}

/// A mail with an ID and a body.
pub(crate) fn mail(id: &str, body: &str) -> Bytes {
    let text = format!(
        "From: alice@example.test\r\nTo: bob@example.test\r\nSubject: {id}\r\nMessage-ID: <{id}@example.test>\r\n\
         \r\n{body}\r\n"
    );
    Bytes::from(text)
}

/// Another client of the same account, which sends what it is told and returns what was answered.
pub(crate) struct Other {
    stream: BufReader<BlockingStream>,
    number: u32,
}

impl Other {
    pub(crate) fn of(servers: &OfficeServers, name: &str) -> Self {
        let stream = BlockingStream::connect(("127.0.0.1", servers.port("/imap/port"))).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut other = Self { stream: BufReader::new(stream), number: 0 };
        other.stream.read_line(&mut String::new()).unwrap();
        other.run(&format!("LOGIN {name}@example.test {name}-pw"));
        other
    }

    pub(crate) fn run(&mut self, command: &str) -> String {
        let said = self.try_run(command);
        assert!(said.contains(&format!("o{} OK", self.number)), "{command}: {said}");
        said
    }

    pub(crate) fn try_run(&mut self, command: &str) -> String {
        self.number += 1;
        let tag = format!("o{} ", self.number);
        write!(self.stream.get_mut(), "{tag}{command}\r\n").unwrap();
        let mut said = String::new();
        loop {
            let mut line = String::new();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "closed after {said}");
            said.push_str(&line);
            if line.starts_with(&tag) {
                return said;
            }
        }
    }
}

/// A token as the fixture's issuer makes it, good for so many seconds from now.
pub(crate) fn token(servers: &OfficeServers, name: &str, seconds: i64) -> SecretString {
    let key = std::fs::read_to_string(servers.text("/jwt_key")).unwrap();
    let key = base64::engine::general_purpose::STANDARD.decode(key.trim()).unwrap();
    let now = jiff::Timestamp::now().as_second();
    let (iat, exp) = (now - 7200, now + seconds);
    let claims = serde_json::json!({
        "iss": "https://issuer.example.test", "sub": format!("{name}@example.test"), "iat": iat, "exp": exp,
    });
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())).into()
}

/// Gives one token, and counts how often.
pub(crate) struct OneToken(pub(crate) SecretString, pub(crate) AtomicUsize);

impl Tokens for OneToken {
    fn token(&self) -> BoxFuture<'_, Result<SecretString, Fault>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(self.0.clone()) })
    }
}

pub(crate) fn token_login(name: &str, token: SecretString) -> Login {
    Login::Token {
        user: format!("{name}@example.test"),
        tokens: Arc::new(OneToken(token, AtomicUsize::new(0))),
    }
}

/// Forwards to a server until it is told to stop: then it takes everything and passes nothing on.
pub(crate) struct Stalling {
    pub(crate) port: u16,
    pub(crate) stopped: Arc<AtomicBool>,
    pub(crate) connections: Arc<AtomicUsize>,
}

/// What a connection does after so many bytes from one side.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// Takes everything and passes nothing on.
    Swallow,
    /// Takes nothing more.
    Stop,
    /// Closes the connection.
    Close,
}

impl Stalling {
    /// Passes everything on until it is told to stop.
    pub(crate) async fn start(to: u16) -> Self {
        Self::at("127.0.0.1", to).await
    }

    /// The same at another address.
    pub(crate) async fn at(host: &str, to: u16) -> Self {
        Self::listen(host, to, usize::MAX, usize::MAX, Then::Swallow).await
    }

    /// Misbehaves by itself after so many bytes of the client or the server on one connection.
    pub(crate) async fn after(to: u16, client_bytes: usize, server_bytes: usize, then: Then) -> Self {
        Self::listen("127.0.0.1", to, client_bytes, server_bytes, then).await
    }

    async fn listen(host: &str, to: u16, client_bytes: usize, server_bytes: usize, then: Then) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stopped, connections) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stop, count) = (Arc::clone(&stopped), Arc::clone(&connections));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                let stop = Arc::clone(&stop);
                tokio::spawn(async move {
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    // One that ends drops all four halves, and so closes both connections.
                    tokio::select! {
                        () = pass(from_client, to_server, client_bytes, then, Arc::clone(&stop)) => {}
                        () = pass(from_server, to_client, server_bytes, then, stop) => {}
                    }
                });
            }
        });
        Self { port, stopped, connections }
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    bytes_max: usize,
    then: Then,
    stopped: Arc<AtomicBool>,
) {
    let (mut buffer, mut passed) = (vec![0; 16384], 0);
    while let Ok(read) = from.read(&mut buffer).await {
        if read == 0 {
            return;
        }
        passed += read;
        match (passed > bytes_max || stopped.load(Ordering::SeqCst), then) {
            (false, _) if to.write_all(&buffer[..read]).await.is_err() => return,
            (false, _) | (true, Then::Swallow) => {}
            (true, Then::Stop) => std::future::pending().await,
            (true, Then::Close) => return,
        }
    }
}

/// A server of one connection that says each of these in turn: the first at once, each other after a line from the
/// client. Returns its port, and everything that the client said once it hangs up.
pub(crate) async fn scripted(says: Vec<Vec<u8>>) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = tokio::io::BufReader::new(stream);
        let mut heard = Vec::new();
        for (at, say) in says.iter().enumerate() {
            if at > 0 && stream.read_until(b'\n', &mut heard).await.unwrap_or(0) == 0 {
                return String::from_utf8_lossy(&heard).into_owned();
            }
            let _ = stream.write_all(say).await;
        }
        let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut heard)).await;
        String::from_utf8_lossy(&heard).into_owned()
    });
    (port, heard)
}
