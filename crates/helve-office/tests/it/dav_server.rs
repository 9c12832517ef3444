//! Servers of the tests' own: one that answers whatever a test says, and one that stands between us and a real one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve_net::Url;
use helve_office::web::{Login, PlainHttp, WebSettings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A request as a server sees it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn has_login(&self) -> bool {
        self.head.to_ascii_lowercase().contains("authorization:")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self
            .head
            .lines()
            .find(|line| line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name)))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }
}

/// What a server does about a request.
pub(crate) enum Reply {
    /// A status line's rest, header lines, content.
    Whole(&'static str, Vec<String>, Vec<u8>),
    /// Bytes as they are, then the connection ends.
    Raw(Vec<u8>),
    /// A head, and content without an end.
    Endless(&'static str),
    /// Nothing, for ever.
    Silent,
    /// The connection ends without an answer.
    Gone,
}

impl Reply {
    pub(crate) fn status(status: &'static str) -> Self {
        Self::Whole(status, Vec::new(), Vec::new())
    }

    pub(crate) fn xml(content: impl Into<Vec<u8>>) -> Self {
        let kind = "Content-Type: application/xml".to_owned();
        Self::Whole("207 Multi-Status", vec![kind], content.into())
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::Whole("301 Moved Permanently", vec![format!("Location: {to}")], Vec::new())
    }
}

/// A server that answers as a test says.
pub(crate) struct Fake {
    pub(crate) url: Url,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (kept, answer) = (Arc::clone(&seen), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Some((request, _)) = read_request(&mut stream).await else { return };
                    kept.lock().unwrap().push(request.clone());
                    reply(&mut stream, answer(&request)).await;
                });
            }
        });
        Self { url: Url::parse(&url).unwrap(), seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn settings(&self) -> WebSettings {
        settings(self.url.as_str(), "alice")
    }
}

/// Settings for a server on loopback.
pub(crate) fn settings(url: &str, user: &str) -> WebSettings {
    let login = Login::password(user, format!("{user}-pw"));
    WebSettings { plain_http: PlainHttp::OnLoopback, ..WebSettings::new(Url::parse(url).unwrap(), login) }
}

async fn reply(stream: &mut TcpStream, reply: Reply) {
    match reply {
        Reply::Whole(status, headers, content) => {
            let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
            let head = format!(
                "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
                content.len()
            );
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&content).await;
        }
        Reply::Raw(bytes) => drop(stream.write_all(&bytes).await),
        Reply::Endless(status) => {
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n\r\n<multistatus xmlns=\"DAV:\">");
            let _ = stream.write_all(head.as_bytes()).await;
            let part = "<response/>".repeat(10_000);
            while stream.write_all(part.as_bytes()).await.is_ok() {}
        }
        Reply::Silent => tokio::time::sleep(Duration::from_secs(600)).await,
        Reply::Gone => {}
    }
    let _ = stream.shutdown().await;
}

/// Reads one request: what it says, and its bytes.
async fn read_request(stream: &mut TcpStream) -> Option<(Seen, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut words = head.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut seen = Seen { method, path, head, body: String::new() };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    seen.body = String::from_utf8_lossy(&bytes[end..]).into_owned();
    Some((seen, bytes))
}

/// What stands between us and a real server does with an answer.
pub(crate) enum Pass {
    /// Hands it on.
    On,
    /// Ends the connection after the server has answered: the deed is done, and nobody knows.
    LoseReply,
    /// Ends the connection before the server hears of it.
    LoseRequest,
}

/// Stands between us and a real server. Its own address is the one to be used.
pub(crate) async fn proxy(to: &str, decide: impl Fn(&Seen) -> Pass + Send + Sync + 'static) -> Url {
    let mut url = Url::parse(to).unwrap();
    let target = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
    let decide = Arc::new(decide);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (target, decide) = (target.clone(), Arc::clone(&decide));
            tokio::spawn(async move {
                let Some((request, bytes)) = read_request(&mut stream).await else { return };
                let pass = decide(&request);
                if matches!(pass, Pass::LoseRequest) {
                    return;
                }
                let mut server = TcpStream::connect(&target).await.unwrap();
                // One request a connection: the answer ends where the connection does.
                let text = String::from_utf8_lossy(&bytes[..request.head.len()]).replacen(
                    "\r\n",
                    "\r\nConnection: close\r\n",
                    1,
                );
                server.write_all(text.as_bytes()).await.unwrap();
                server.write_all(&bytes[request.head.len()..]).await.unwrap();
                let mut answer = Vec::new();
                server.read_to_end(&mut answer).await.unwrap();
                if matches!(pass, Pass::On) {
                    let _ = stream.write_all(&answer).await;
                }
                let _ = stream.shutdown().await;
            });
        }
    });
    url
}

/// Sends one request to a real server, as another program would, and gives back the whole answer.
pub(crate) async fn other_program(
    user: &str,
    method: &str,
    url: &str,
    headers: &[&str],
    body: &str,
) -> String {
    use base64::Engine as _;
    let url = Url::parse(url).unwrap();
    let mut stream = TcpStream::connect((url.host_str().unwrap(), url.port().unwrap())).await.unwrap();
    let login = base64::prelude::BASE64_STANDARD.encode(format!("{user}:{user}-pw"));
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let request = format!(
        "{method} {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Basic {login}\r\n{headers}Content-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        url.path(),
        url.authority(),
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
