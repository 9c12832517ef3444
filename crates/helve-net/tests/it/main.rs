//! The guarded client against real servers on loopback, and the policy against hostile URLs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fetch;
mod hostile_urls;
mod http2;
mod policy;
mod proxy;
mod rebinding;
mod redirects;
mod server;
mod streams;
