//! Runs the real binary in a home of its own.
//!
//! - `start`: the first minutes: help, `up`, `init`, `doctor`, completions;
//! - `config`: layers, where values came from, what is refused;
//! - `tools`: list, show, search, export;
//! - `lint`: what `tools lint` finds in each sort of file;
//! - `composition`: tools made of tools;
//! - `call`: arguments, results, every exit code;
//! - `conditions`: what must hold before a tool runs;
//! - `policy`: who may do what, in Cedar;
//! - `memory`: what agents remember;
//! - `files`: the file tools, their roots and their undo;
//! - `runs`: sagas, crashes, cancelling and undoing;
//! - `audit`: the record afterwards;
//! - `store`: backups, restoring one, pruning;
//! - `network`: tools that reach a server;
//! - `serve`: the tools, served to MCP clients;
//! - `clients`: MCP clients that others wrote, and calls that fail;
//! - `judges`: what judges tools, which no tool changes;
//! - `gate`, `jwt`, `keys`, `oauth`: who may come in over HTTP, and what is theirs;
//! - `labels`: private data, strangers' words and MCP servers that could send;
//! - `mcp`: MCP servers whose tools are used;
//! - `misbehaving`: MCP servers that misbehave in two hundred ways;
//! - `hooks`: who is told of calls and may have a say;
//! - `raised`: events that agents post, with their own rights;
//! - `trust`: what a project brings and a person must have seen first;
//! - `cloned`: a hostile repository, used without a word of trust;
//! - `secrets`: files that hold secrets, and the link that lets its reader decide;
//! - `telemetry`: traces, at a collector;
//! - `watch`: figures, alerts and the dashboard, with a real Prometheus;
//! - `hostile`: input that was made to do harm;
//! - `docs`: files that are made from the types.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod home;

mod approvals;
mod audit;
mod call;
mod clients;
#[cfg(target_os = "linux")]
mod cloned;
mod composition;
mod conditions;
mod config;
mod docs;
#[cfg(unix)]
mod files;
mod gate;
mod hooks;
mod hostile;
#[cfg(unix)]
mod judges;
mod jwt;
mod keyring;
mod keys;
mod labels;
mod lint;
mod mcp;
mod memory;
#[cfg(target_os = "linux")]
mod misbehaving;
mod network;
mod oauth;
mod policy;
mod raised;
mod rules;
mod runs;
mod sandbox;
#[cfg(target_os = "linux")]
mod secrets;
mod serve;
mod session;
mod start;
mod store;
#[cfg(unix)]
mod telemetry;
mod tools;
mod trust;
mod up;
mod watch;
