//! Helve inside a program, from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod embedded;
mod own_home;
