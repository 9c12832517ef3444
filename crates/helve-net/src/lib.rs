//! The one guarded outbound HTTP client.
//!
//! A model chooses many of the URLs that Helve fetches, so every request goes through here:
//!
//! - `address` knows which addresses are not the public internet;
//! - `policy` says which of them may be reached all the same;
//! - `resolver` looks a name up once and lets a connection only go to addresses that passed;
//! - `check` says what would become of a URL;
//! - `plain` carries what goes without TLS; TLS and HTTP/2 are reqwest's;
//! - `client` sends, follows redirects hop by hop under the same checks, and bounds time and size;
//! - `proxy` lets confined programs out, under the same checks.

pub mod address;
mod pattern;
pub mod policy;
mod target;

mod dial;
mod repoll;
mod resolver;

pub mod check;
pub mod client;
pub mod error;
pub mod message;
mod plain;
pub mod proxy;

pub use check::{Report, Verdict, check};
pub use client::Client;
pub use error::NetError;
pub use message::{Redirects, Request, Response, StreamingResponse, Upgraded};
pub use policy::{HostPattern, NetPolicy};
pub use repoll::Repoll;
pub use resolver::{Lookup, system_lookup};

pub use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
pub use reqwest::{Method, StatusCode};
pub use url::Url;
