//! The guarded client against real servers on loopback, and the policy against hostile URLs.

mod fetch;
mod hostile_urls;
mod redirects;
mod server;
