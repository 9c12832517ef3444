//! Tools from configuration and built-in tools, against the real thing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod http;
mod openapi;
