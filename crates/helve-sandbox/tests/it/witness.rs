//! Tells when a process is up and when it and all its children are gone.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// One end of a FIFO. A script opens the other as descriptor 3 and writes a byte; the FIFO ends
/// when the last process that inherited the descriptor has died, whichever process reaps it.
pub(crate) struct Witness {
    fifo: PathBuf,
    up: oneshot::Receiver<()>,
    gone: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Witness {
    /// What a script begins with, its first argument being [`Witness::path`].
    pub(crate) const OPEN: &'static str = "exec 3> \"$1\"; echo up >&3;";

    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("alive");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
        let (say_up, up) = oneshot::channel();
        let path = fifo.clone();
        let gone = tokio::task::spawn_blocking(move || {
            let mut stream = File::open(path).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            let _ = say_up.send(());
            stream.read_to_end(&mut Vec::new()).unwrap();
        });
        Self { fifo, up, gone, _folder: folder }
    }

    pub(crate) fn path(&self) -> &str {
        self.fifo.to_str().unwrap()
    }

    pub(crate) async fn up(&mut self) {
        (&mut self.up).await.unwrap();
    }

    pub(crate) async fn gone(self) {
        tokio::time::timeout(Duration::from_secs(10), self.gone).await.expect("a child lives on").unwrap();
    }
}
