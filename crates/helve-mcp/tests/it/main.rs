//! Tests against real counterparts.

mod counterparts;
mod peers;
mod setup;
