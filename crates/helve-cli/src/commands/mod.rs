//! One file or folder a command. Each takes its raw arguments, resolves them, and acts.

pub(crate) mod up;

pub(crate) mod init;

pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod hook;
pub(crate) mod hooks;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod office;
pub(crate) mod sandbox;
pub(crate) mod tools;

mod caller;
mod file;
mod interrupt;
mod outcome;
mod person;
pub(crate) mod progress;
mod recovered;
mod serve;
mod servers;
mod stopping;
mod when;

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod policy;
pub(crate) mod rules;
pub(crate) mod runs;
pub(crate) mod session;
pub(crate) mod store;
pub(crate) mod trust;

pub(crate) mod keys;

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod net;
