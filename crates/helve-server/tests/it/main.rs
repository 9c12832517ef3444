//! The server against clients that others wrote, and against those that mean harm.

mod conformance;
mod counterparts;
mod gateway;
mod harness;
mod hostile;
mod http;
mod raw;
