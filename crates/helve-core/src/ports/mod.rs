//! The ports: what the core needs of the world, and others provide.

mod approvals;
mod client;
mod clock;
mod figures;
mod host;
mod integrations;
mod journal;
mod keys;
mod launcher;
mod limiter;
mod memory;
mod policy;
mod runs;
mod sessions;
mod tracer;

pub use approvals::Approvals;
pub use client::{AskError, Client, Question};
pub(crate) use clock::was_set_back;
pub use clock::{Clock, SystemClock};
pub use figures::{Histogram, LedgerFigures, RunFigures, SharedHistogram};
pub use host::ToolHost;
pub use integrations::{Connected, Integrations};
pub use journal::{Begun, Journal, JournalError, KeyClaim, KeyHolder};
pub use keys::{KEYS_MAX, Keys, too_many_keys};
pub use launcher::{Access, Exit, ExitStatus, LaunchError, Launcher, Program, Seen};
pub use limiter::{LimitKey, Limiter, Refusal, Slot};
pub use memory::{EffectId, Memory};
pub use policy::Policy;
pub use runs::{Adoption, Holder, OpenRun, Runs};
pub use sessions::Sessions;
pub use tracer::Tracer;

/// The one source of truth: calls, runs, approvals, sessions, keys and memory in one place, so that what belongs together is
/// written together.
pub trait Ledger: Journal + Memory + Runs + Approvals + Sessions + Keys {}

impl<T: Journal + Memory + Runs + Approvals + Sessions + Keys> Ledger for T {}
