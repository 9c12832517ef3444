//! Tests against real counterparts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod conformance;
mod counterparts;
mod distrust;
mod oauth;
mod person;
mod plain;
mod sessions;
mod setup;
mod supervision;
