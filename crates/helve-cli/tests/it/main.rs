//! Runs the real binary in a home of its own.
//!
//! - `start`: the first minutes: help, `up`, `init`, `doctor`, completions;
//! - `config`: layers, where values came from, what is refused;
//! - `tools`: list, show, search, export, lint;
//! - `call`: arguments, results, every exit code;
//! - `audit`: the record afterwards;
//! - `hostile`: input that was made to do harm;
//! - `docs`: files that are made from the types.

mod home;

mod audit;
mod call;
mod config;
mod docs;
mod hostile;
mod start;
mod tools;
