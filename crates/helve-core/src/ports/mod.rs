//! The ports: what the core needs of the world, and others provide.

mod clock;
mod integrations;
mod journal;
mod launcher;
mod limiter;

pub use clock::{Clock, SystemClock};
pub use integrations::{Connected, Integrations};
pub use journal::{Begun, Journal, JournalError, KeyClaim};
pub use launcher::{Exit, ExitStatus, LaunchError, Launcher, Program};
pub use limiter::{LimitKey, Limiter, Refusal, Slot};
