//! Tests against real counterparts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod announced;
mod approvals;
mod calls;
mod conformance;
mod counterparts;
mod credentials;
mod distrust;
mod in_process;
mod lines;
mod logs;
mod looks;
mod oauth;
mod oddities;
mod served;
mod server_stdio;
mod sessions;
mod shown;
mod streams;
mod subscribed;
mod supervision;
mod updates;

mod behind;
mod clients;
mod person;
mod plain;
mod setup;
