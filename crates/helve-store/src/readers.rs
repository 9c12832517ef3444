//! A few connections that only read, so that reading does not wait for the writer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use helve_core::ports::JournalError;
use rusqlite::Connection;

use crate::audit::open_to_read;
use crate::error::StoreError;
use crate::schema;
use crate::writer::Queue;

/// Most connections that are kept while nobody reads.
const IDLE_MAX: usize = 4;

/// A pool of reading connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Readers(Arc<Inner>);

struct Inner {
    path: PathBuf,
    queue: Arc<Queue>,
    /// Connections that nobody uses. Absent once the store is closed.
    idle: Mutex<Option<Vec<Reader>>>,
}

struct Reader {
    db: Connection,
    /// The file that it reads, to notice when another one stands at the path.
    identity: Option<(u64, u64)>,
}

impl Readers {
    pub(crate) fn new(path: &Path, queue: &Arc<Queue>) -> Self {
        let (path, queue) = (path.to_owned(), Arc::clone(queue));
        Self(Arc::new(Inner { path, queue, idle: Mutex::new(Some(Vec::new())) }))
    }

    /// Reads on a thread that may block. Sees everything that was acknowledged before.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.read(read)).await
    }

    /// Lets go of the file.
    pub(crate) fn close(&self) {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Inner {
    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let sqlite = |source| StoreError::sqlite(&self.path, source);
        if self.queue.is_quarantined() && !self.path.exists() {
            // Nobody makes a file in quarantine, and there is nothing in one that is gone.
            return schema::nothing().and_then(|db| at_once(&db, read)).map_err(sqlite);
        }
        let reader = self.take()?;
        let result = at_once(&reader.db, read).map_err(sqlite);
        // A connection on which something went wrong is not used again.
        if result.is_ok()
            && let Some(idle) = &mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner)
            && idle.len() < IDLE_MAX
        {
            idle.push(reader);
        }
        result
    }

    fn take(&self) -> Result<Reader, StoreError> {
        let identity = schema::identity(&self.path);
        match &mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner) {
            None => return Err(helve_ledger::queue::closed().into()),
            Some(idle) => {
                idle.retain(|reader| reader.identity == identity);
                if let Some(reader) = idle.pop() {
                    return Ok(reader);
                }
            }
        }
        let db = open_to_read(&self.path).map_err(|source| StoreError::sqlite(&self.path, source))?;
        Ok(Reader { db, identity })
    }
}

/// Reads everything as of one moment: a row and the entry that vouches for it belong together.
fn at_once<T>(db: &Connection, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let found = read(db)?;
    db.prepare_cached("COMMIT")?.execute([])?;
    Ok(found)
}

/// Runs something that blocks on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, JournalError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(StoreError::Journal(error))) => Err(error),
        Ok(Err(error)) => Err(JournalError::new(error.chain())),
        Err(error) => Err(JournalError::new("reading was cut short").with_source(error)),
    }
}
