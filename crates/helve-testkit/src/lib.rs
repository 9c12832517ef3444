//! Fakes and fixtures for Helve's own tests.

pub mod clock;
pub mod conformance;
pub mod entries;
pub mod faulty;
pub mod office;
pub mod peers;
pub mod postgres;

pub use clock::ManualClock;
pub use faulty::{Boundary, Fault, FaultyLedger};
pub use office::OfficeServers;
pub use postgres::{Pooler, Postgres};
