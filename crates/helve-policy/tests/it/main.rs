//! Policies from outside: text in, decisions out.
//!
//! - `decisions`: who may do what, asks, errors, arguments;
//! - `findings`: what is found when policies are loaded;
//! - `hostile`: input that was made to do harm;
//! - `shipped`: the default policy.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

mod decisions;
mod findings;
mod hostile;
mod shipped;
