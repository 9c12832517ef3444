//! What every ledger of Helve has in common, whatever database it stands in.
//!
//! - [`entry`] and [`chain`]: how an entry is encoded, and how each one's hash covers the one before it;
//! - [`vouch`], [`seal`] and [`keys`]: how entries vouch for rows that change;
//! - [`job`], [`request`] and [`queue`]: what the writer is asked for, and what waits for it;
//! - [`audit`]: what is read back, whichever ledger it comes from;
//! - [`writer`] and [`backend`]: the one thread that writes groups of jobs, and what it writes to.

pub mod backend;
pub mod job;
pub mod queue;
pub mod request;
pub mod writer;

pub mod audit;

pub mod chain;
pub mod entry;
pub mod keys;
pub mod seal;
pub mod vouch;
