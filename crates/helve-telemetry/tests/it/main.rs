//! Calls of a real runtime, told to a collector on loopback that reads them with OpenTelemetry's own
//! messages.
//!
//! - `collector`: the collector, and how a span is looked at;
//! - `told`: what a trace says, and what it never says;
//! - `parents`: traces of others, runs and their parts;
//! - `trouble`: collectors that are down, slow, busy or hostile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collector;

mod parents;
mod told;
mod trouble;
