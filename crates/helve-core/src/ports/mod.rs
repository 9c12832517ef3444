//! The ports: what the core needs of the world, and others provide.

mod clock;
mod integrations;
mod journal;
mod launcher;

pub use clock::{Clock, SystemClock};
pub use integrations::{Connected, Integrations};
pub use journal::{Begun, Journal, JournalError, KeyClaim};
pub use launcher::{Exit, ExitStatus, LaunchError, Launcher, Program};
