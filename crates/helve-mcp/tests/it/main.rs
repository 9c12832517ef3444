//! Tests against real counterparts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod counterparts;
mod oauth;
mod person;
mod setup;

mod server_stdio;
