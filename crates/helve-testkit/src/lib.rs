//! Fakes and fixtures for Helve's own tests.

pub mod clock;
pub mod conformance;
pub mod entries;

pub use clock::ManualClock;
