//! Tests against real counterparts.

mod counterparts;
mod peers;
mod setup;
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod oauth;
