//! Fakes and fixtures for Helve's own tests.

pub mod clock;
pub mod entries;
pub mod faulty;
pub mod journal_conformance;

pub use clock::ManualClock;
pub use faulty::{Boundary, Fault, FaultyLedger};
