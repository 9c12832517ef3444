//! A proxy before a server, which cuts connections when the test wants it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The message that ends a transaction.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// When a connection is cut on which a transaction is to be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the server hears of it: it is not committed.
    BeforeCommit,
    /// After the server has done it, before the client hears of that.
    AfterCommit,
}

/// What the proxy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    Closed,
    Cutting(Cut),
}

/// A way to a server that can be closed.
pub(crate) struct Proxy {
    port: u16,
    mode: watch::Sender<Mode>,
    cuts: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// A way to a port on loopback.
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, watched) = watch::channel(Mode::Open);
        let cuts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&cuts);
        let task = tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { return };
                if *watched.borrow() != Mode::Closed {
                    let server = SocketAddr::from(([127, 0, 0, 1], server));
                    tokio::spawn(carry(client, server, watched.clone(), Arc::clone(&counted)));
                }
            }
        });
        Self { port, mode, cuts, task }
    }

    /// The address of a database, by way of the proxy.
    pub(crate) fn before(&self, database: &str) -> String {
        let (head, name) = database.rsplit_once('/').unwrap();
        let (head, _) = head.rsplit_once(':').unwrap();
        format!("{head}:{}/{name}", self.port)
    }

    /// Cuts all connections, and lets no new one through.
    pub(crate) fn close(&self) {
        self.mode.send_replace(Mode::Closed);
    }

    /// Lets connections through again.
    pub(crate) fn open(&self) {
        self.mode.send_replace(Mode::Open);
    }

    /// Cuts every connection at its next commit, until it is opened again.
    pub(crate) fn cut(&self, cut: Cut) {
        self.mode.send_replace(Mode::Cutting(cut));
    }

    /// How many connections were cut at a commit.
    pub(crate) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
        self.task.abort();
    }
}

async fn carry(
    client: TcpStream,
    server: SocketAddr,
    mut mode: watch::Receiver<Mode>,
    cuts: Arc<AtomicUsize>,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut asked, mut answered) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut is_committing = false;
    loop {
        tokio::select! {
            changed = mode.changed() => {
                if changed.is_err() || *mode.borrow() == Mode::Closed {
                    return;
                }
            }
            read = from_client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                let commits = asked[..count].windows(COMMIT.len()).any(|bytes| bytes == COMMIT);
                is_committing = commits && *mode.borrow() == Mode::Cutting(Cut::AfterCommit);
                if commits && *mode.borrow() == Mode::Cutting(Cut::BeforeCommit) {
                    cuts.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                if to_server.write_all(&asked[..count]).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if is_committing {
                    cuts.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                if to_client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
