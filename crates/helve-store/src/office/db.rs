//! The file, its one writing connection and a few that read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::OfficeError;

/// What the file's tables look like. Raised whenever `schema.sql` changes after a release.
const FORMAT: i64 = 1;

/// How long one process waits for another that writes.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// Between two tries.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// Most reading connections that are kept while nobody reads.
const IDLE_MAX: usize = 4;

/// The office file. Cheap to clone.
#[derive(Clone)]
pub struct OfficeDb(Arc<Inner>);

struct Inner {
    path: PathBuf,
    /// None until the first read or write.
    writer: Mutex<Option<Connection>>,
    /// Set once the tables are made: readers then wait for no writer.
    made: OnceLock<()>,
    idle: Mutex<Vec<Connection>>,
}

impl OfficeDb {
    /// The file, opened by the first read or write, and made where there is none: most commands never do.
    pub fn later(path: &Path) -> Self {
        let (writer, made, idle) = (Mutex::default(), OnceLock::new(), Mutex::default());
        Self(Arc::new(Inner { path: path.to_owned(), writer, made, idle }))
    }

    /// Opens the file now, and makes it where there is none.
    pub fn open(path: &Path) -> Result<Self, OfficeError> {
        let db = Self::later(path);
        db.0.with_writer(|_| Ok(()))?;
        Ok(db)
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Copies the file as it is at one moment, even if others write meanwhile, to a place where nothing is yet.
    pub fn copy_to(&self, to: &Path) -> Result<(), OfficeError> {
        make_private(to);
        let to = to.to_string_lossy().into_owned();
        self.0.with_writer(|db| Ok(db.execute("VACUUM INTO ?1", [to]).map(drop)?))
    }

    /// Takes the log into the file, as far as nobody reads from it.
    pub(super) async fn empty_log(&self) -> Result<(), OfficeError> {
        let inner = Arc::clone(&self.0);
        blocking(move || {
            inner.with_writer(|db| Ok(db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?))
        })
        .await
    }

    /// Reads as of one moment, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, OfficeError> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.read(read)).await
    }

    /// The same at once, where nothing else can wait. For small reads of few rows.
    pub(super) fn read_now<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, OfficeError> {
        self.0.read(read)
    }

    /// The same for a write.
    pub(super) fn write_now<T>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, OfficeError> {
        self.0.write(write)
    }

    /// Writes all or nothing, on a thread that may block. It is on disk when this returns.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, OfficeError> {
        let inner = Arc::clone(&self.0);
        blocking(move || inner.write(write)).await
    }
}

impl Inner {
    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, OfficeError> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let db = kept.map_or_else(|| self.reader(), Ok)?;
        let reading = db.unchecked_transaction()?;
        let found = read(&db)?;
        reading.finish()?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(db);
        }
        Ok(found)
    }

    fn reader(&self) -> Result<Connection, OfficeError> {
        if self.made.get().is_none() {
            // It makes the tables that are to be read.
            self.with_writer(|_| Ok(()))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = |source| OfficeError::Open { path: self.path.clone(), source };
        let db = Connection::open_with_flags(&self.path, flags).map_err(open)?;
        db.busy_timeout(BUSY_MAX)?;
        Ok(db)
    }

    fn write<T>(
        &self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, OfficeError> {
        self.with_writer(|db| {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let written = write(&transaction)?;
            transaction.commit()?;
            Ok(written)
        })
    }

    /// The one connection that writes, opened by the first who wants it.
    fn with_writer<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, OfficeError>,
    ) -> Result<T, OfficeError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match writer.as_mut() {
            Some(db) => work(db),
            None => {
                let db = writer.insert(open(&self.path)?);
                self.made.get_or_init(|| ());
                work(db)
            }
        }
    }
}

/// Opens the file for writing, and makes it where there is none.
fn open(path: &Path) -> Result<Connection, OfficeError> {
    let open = |source| OfficeError::Open { path: path.to_owned(), source };
    make_folder(path);
    make_private(path);
    let mut db = Connection::open(path).map_err(open)?;
    prepare(&mut db).map_err(open)?;
    let found = make_tables(&mut db).map_err(open)?;
    if found > FORMAT {
        return Err(OfficeError::Newer { path: path.to_owned(), found, known: FORMAT });
    }
    Ok(db)
}

/// Waits for another process that writes. SQLite's own waiting grows to a tenth of a second, and would miss the moments
/// between the steps of a sync for long.
fn is_patient(tries: i32) -> bool {
    std::thread::sleep(BUSY_PAUSE);
    u128::try_from(tries).unwrap_or_default() * BUSY_PAUSE.as_millis() < BUSY_MAX.as_millis()
}

fn prepare(db: &mut Connection) -> rusqlite::Result<()> {
    db.busy_handler(Some(is_patient))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // What is to be sent must survive a power cut before it is sent.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", "ON")?;
    // Removed mails are not to be found in the file.
    db.pragma_update(None, "secure_delete", "ON")
}

/// Makes the tables of a new file. The format of the file as it is now.
fn make_tables(db: &mut Connection) -> rusqlite::Result<i64> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let format = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format != 0 {
        return Ok(format);
    }
    transaction.execute_batch(include_str!("schema.sql"))?;
    transaction.execute_batch(include_str!("schema_objects.sql"))?;
    transaction.execute_batch(include_str!("schema_mail.sql"))?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()?;
    Ok(FORMAT)
}

/// A folder that only its owner can look into, where there is none. Where it fails, SQLite fails after us.
fn make_folder(path: &Path) {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let _ = path.parent().map(|folder| builder.create(folder));
}

/// Mails are nobody else's business: the file is its owner's alone before anything is in it.
fn make_private(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = std::fs::OpenOptions::new();
        // Where it fails, SQLite fails after us and says why.
        let _ = options.create_new(true).write(true).mode(0o600).open(path);
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OfficeError> + Send + 'static,
) -> Result<T, OfficeError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(OfficeError::Ending))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn who_reads_waits_for_no_writer() {
        let folder = tempfile::tempdir().unwrap();
        let db = OfficeDb::open(&folder.path().join("office.db")).unwrap();
        let (begun, wait_begun) = mpsc::channel();
        let (end, wait_end) = mpsc::channel::<()>();
        let writer = db.clone();
        let writing = std::thread::spawn(move || {
            writer.write_now(|_| {
                begun.send(()).unwrap();
                // Until the reader is done, or gave up.
                let _ = wait_end.recv_timeout(Duration::from_secs(20));
                Ok(())
            })
        });
        wait_begun.recv().unwrap();
        let (done, wait_done) = mpsc::channel();
        std::thread::spawn(move || done.send(db.accounts_now().map(|rows| rows.len())));
        let read = wait_done.recv_timeout(Duration::from_secs(10));
        end.send(()).unwrap();
        assert_eq!(read.expect("the reader waited for the writer").unwrap(), 0);
        writing.join().unwrap().unwrap();
    }
}
