//! Runs the real binary in its own home.
//!
//! - `start`: the first minutes: help, `up`, `init`, `doctor`, completions;
//! - `first_hour`: one journal, a configuration that is followed, and links that can be copied;
//! - `broken`: one broken tool, server or hook, and the rest that works;
//! - `config`: layers, where values came from, what is refused;
//! - `tools`: list, show, search, export;
//! - `lint`: what `tools lint` finds in each sort of file;
//! - `composition`: tools made of tools;
//! - `call`: arguments, results, every exit code;
//! - `conditions`: what must hold before a tool runs;
//! - `policy`: who may do what, in Cedar;
//! - `office`, `office_connect`: mail and calendars, without an account and with real servers;
//! - `memory`: what agents remember;
//! - `files`: the file tools, their roots and their undo;
//! - `runs`: sagas, crashes, cancelling and undoing;
//! - `stop`: SIGTERM, with calls under way (`load` makes them);
//! - `takeover`: what dead processes left, and suspended processes;
//! - `audit`: the record afterwards;
//! - `replicas`: the ledger on PostgreSQL, and two machines that share it;
//! - `store`: backups, restoring one, pruning;
//! - `network`: tools that reach a server;
//! - `serve`: the tools, served to MCP clients;
//! - `clients`: MCP clients that others wrote, and calls that fail;
//! - `judges`: what judges tools, which no tool changes;
//! - `gate`, `jwt`, `keys`, `oauth`: who may come in over HTTP, and what is theirs;
//! - `labels`: private data, strangers' words and MCP servers that could send;
//! - `mcp`: MCP servers whose tools are used;
//! - `misbehaving`: MCP servers that misbehave in two hundred ways;
//! - `hooks`: the hooks that see calls and may object;
//! - `raised`: events that agents post, with their own rights;
//! - `trust`: what a project brings and a person must have seen first;
//! - `cloned`: a hostile repository, used without a word of trust;
//! - `secrets`: files that hold secrets, and the link that lets its reader decide;
//! - `telemetry`: traces, at a collector;
//! - `watch`: figures, alerts and the dashboard, with a real Prometheus;
//! - `hostile`: input that was made to do harm;
//! - `quickstarts`: the pages for the first hour, run as shown, and agents' loops over plain HTTP;
//! - `docs`: files that are made from the types.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod home;

mod approvals;
mod audit;
mod broken;
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
mod first_hour;
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
#[cfg(unix)]
mod load;
mod mcp;
mod memory;
#[cfg(target_os = "linux")]
mod misbehaving;
mod network;
mod oauth;
mod office;
mod office_connect;
mod policy;
mod quickstarts;
mod raised;
mod replicas;
mod rules;
mod runs;
mod sandbox;
#[cfg(target_os = "linux")]
mod secrets;
mod serve;
mod session;
mod specs;
mod start;
#[cfg(unix)]
mod stop;
mod store;
#[cfg(unix)]
mod takeover;
#[cfg(unix)]
mod telemetry;
mod tools;
mod trust;
mod up;
mod watch;
