//! Opening and closing the database.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use helve_core::CallId;
use helve_core::memory::MemoryLimits;
use helve_core::ports::{Clock, JournalError, SystemClock};
use helve_ledger::queue::{self, Health};
use jiff::Timestamp;

use crate::anchor::Anchor;
use crate::audit::{Audit, Stretch, VerifyingKey, key_file};
use crate::backup::finish_restore;
use crate::error::StoreError;
use crate::memory::Settings;
use crate::owners::{self, Owner, Peers};
use crate::quarantine::{self, Quarantine, Standing};
use crate::readers::Readers;
use crate::reserve::Reserve;
use crate::schema;
use crate::writer::{Job, Ledger, Own, Queue, Trouble, Writer};

/// How to open a [`Store`].
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Most entries that may wait for the disk. Beyond that, entries are refused.
    pub queue_entries_max: usize,
    /// Size of the file next to the database that is given up when the disk is full, so that calls
    /// under way can still be recorded to their end. 0: none, and such ends wait in memory.
    pub reserve_bytes: u64,
    /// Most pages that the file and the reserve together may have, to rehearse a full disk.
    /// Absent: as many as fit.
    pub pages_max: Option<u32>,
    /// Bounds on what agents remember.
    pub memory: MemoryLimits,
    /// Tells when what is remembered has expired.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions")
            .field("queue_entries_max", &self.queue_entries_max)
            .field("reserve_bytes", &self.reserve_bytes)
            .field("pages_max", &self.pages_max)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            queue_entries_max: 65_536,
            // Some hundred ends of calls, each of which touches a few pages.
            reserve_bytes: 4 << 20,
            pages_max: None,
            memory: MemoryLimits::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// The durable journal: one SQLite file, written by one thread.
///
/// Several processes may open the same file; their entries form one chain.
pub struct Store {
    path: PathBuf,
    pub(crate) queue: Arc<Queue>,
    trouble: Trouble,
    pub(crate) readers: Readers,
    pub(crate) peers: Arc<Peers>,
    pub(crate) memory: Settings,
    /// The part of the chain that was checked for runs that are resumed.
    pub(crate) checked: tokio::sync::Mutex<Option<Stretch>>,
    page_limit: Arc<AtomicU32>,
    writer: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the journal at `path`. On first use, creates the file and its folder, readable by
    /// this user alone.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        // The path must stay good, should the process change its folder.
        let path = &std::path::absolute(path).map_err(|error| StoreError::io("find", path, error))?;
        if path.is_dir() {
            return Err(StoreError::IsDirectory(path.to_owned()));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            owners::create_folder(folder).map_err(|error| StoreError::io("create", folder, error))?;
        }
        finish_restore(path).map_err(|error| StoreError::io("finish the restore of", path, error))?;
        let reserve = Reserve::new(path, options.reserve_bytes);
        let memory = Settings { clock: options.clock, limits: options.memory };
        let pages_max = options.pages_max.unwrap_or(0);
        let open_parts = || open_parts(path, memory.clone(), pages_max);
        let Parts { ledger, anchor, peers, standing } = open_parts().or_else(|error| {
            // A full disk must not keep anybody from reading.
            if error.may_lack_space() && reserve.give_up().is_ok() { open_parts() } else { Err(error) }
        })?;
        let queue = Arc::new(Queue::new(options.queue_entries_max));
        let trouble = Trouble::default();
        let page_limit = Arc::new(AtomicU32::new(pages_max));
        let mut writer = Writer {
            queue: Arc::clone(&queue),
            anchor,
            anchor_is_due: false,
            ledger,
            reserve,
            page_limit: Arc::clone(&page_limit),
            trouble: Arc::clone(&trouble),
            blocked_since: None,
        };
        let health = match standing {
            Standing::Wrong(why) => {
                tracing::error!(path = %path.display(), "{why}");
                writer.quarantine(why)
            }
            standing => {
                let held = writer.hold_reserve();
                writer.begin(&standing);
                held.map_or_else(|error| spared(&mut writer, &error), |()| Health::Working)
            }
        };
        let thread = helve_ledger::writer::spawn(&queue, writer, health)
            .map_err(|error| StoreError::io("start the writer of", path, error))?;
        Ok(Self {
            path: path.to_owned(),
            readers: Readers::new(path, &queue),
            queue,
            trouble,
            peers,
            memory,
            checked: tokio::sync::Mutex::new(None),
            page_limit,
            writer: Mutex::new(Some(thread)),
        })
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The read side. It sees what is on disk; flush first to see what is queued.
    pub fn audit(&self) -> Audit {
        Audit::of(&self.path)
    }

    /// Why nothing is written to this journal, and so no call runs, until a person has looked at it. Reading
    /// works. Ends by itself once the files are put back, or [`accept`](Self::accept)ed.
    pub fn quarantine(&self) -> Option<Arc<Quarantine>> {
        if !self.queue.is_quarantined() {
            return None;
        }
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Erases what was said in a call: arguments, results, errors, and the answer kept for its
    /// idempotency key and for undoing its effects. Returns how many entries lost their payload.
    ///
    /// The rest of the record stays, the chain still holds, and it says when this was done.
    pub async fn erase(&self, call_id: CallId, at: Timestamp) -> Result<usize, StoreError> {
        Ok(self.queue.ask(|reply| Job::Erase { call_id, at, reply }).await?)
    }

    /// Tells the journal which key signs for it, unless it knows one: from then on another one is noticed.
    pub fn tell_key(&self, key: &VerifyingKey) {
        // Most journals know it, and a note that changes nothing would cost a write. Nothing is written to one in
        // quarantine.
        if self.quarantine().is_none() && !matches!(key_file::told_at(&self.path), Ok(Some(_))) {
            self.queue.push(Job::Own(Own::Keyed(key.to_string())));
        }
    }

    /// Takes the journal at `path` as it is, whatever its anchor says or whether there is one: for
    /// a person who has looked into what `verify` reported, say after restoring a backup.
    ///
    /// Takes effect when a store is next opened, or at once where one is open, which notes it in the chain.
    /// Runs that are open in it wait for a person from then on, and questions are withdrawn: what is missing may
    /// tell that they have ended. The same as writing the word `accept` into the `.head` file.
    pub fn accept(path: &Path) -> Result<(), StoreError> {
        Anchor::accept(path).map_err(|error| StoreError::io("write the anchor of", path, error))
    }

    /// Changes how many pages the file may have; see [`StoreOptions::pages_max`].
    pub fn limit_pages(&self, pages_max: Option<u32>) {
        self.page_limit.store(pages_max.unwrap_or(0), Ordering::Relaxed);
    }

    /// Writes what is queued and leaves a file that stands for itself. Blocks until that is done.
    ///
    /// Dropping the store does the same, but can tell nobody what went wrong.
    pub fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        // The last to let go of the file tidies up, and that should be the writer.
        self.readers.close();
        let thread = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match thread.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_panic)) => Err(queue::closed().into()),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(error = error.chain(), "the journal was not closed cleanly");
        }
    }
}

/// What can be written without the reserve: it is given up for the ends of calls.
fn spared(writer: &mut Writer, error: &StoreError) -> Health {
    tracing::error!(error = error.chain(), "calls are refused until the journal can be written");
    writer.give_up_reserve();
    Health::ReportsOnly(JournalError::new(error.chain()))
}

/// What stands at a path.
struct Parts {
    ledger: Ledger,
    anchor: Anchor,
    peers: Arc<Peers>,
    standing: Standing,
}

/// Opens database and anchor, and compares them.
fn open_parts(path: &Path, memory: Settings, pages_max: u32) -> Result<Parts, StoreError> {
    let io = |error| StoreError::io("open the files next to", path, error);
    // The database first: nothing is put next to a file that is not ours.
    if path.exists() {
        schema::check_file(path)?;
    }
    let owner = Arc::new(Owner::register(path).map_err(io)?);
    let mut anchor = Anchor::open(path).map_err(io)?;
    let closed = Ledger::closed(path, &owner, memory)?;
    let (ledger, standing) = quarantine::examine(&closed, &mut anchor, pages_max)?;
    let ledger = ledger.unwrap_or(closed);
    Ok(Parts { ledger, anchor, peers: Arc::clone(owner.peers()), standing })
}
