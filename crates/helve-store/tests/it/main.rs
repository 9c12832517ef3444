//! The store against real files: what it promises, and what it notices.
//!
//! - `journal`: the port's contract, group commits, closing and opening
//! - `keys`: idempotency across instances and deaths
//! - `runs`: who is at which run, across instances
//! - `approvals`: questions to people, across instances and restarts
//! - `memory`: what is remembered, and what effects did
//! - `audit`: reading back
//! - `tampering`: everything that `verify` must notice
//! - `finding`: runs and calls in a big journal, without reading all of it
//! - `behind_our_back`: the same for API keys and sessions, which the chain does not cover
//! - `deciding`: every column that decides, changed: found by `verify`, and refused when it is used
//! - `formats`: ledgers of earlier formats, which are migrated
//! - `prune`: taking the oldest entries off
//! - `quarantine`: a journal that its anchor does not know
//! - `replaced`: files that are removed, cut or replaced while in use, and damaged pages
//! - `backup`: copies of a ledger in use, and putting one in place
//! - `disk_full`: breaking and recovering
//! - `crash`: `kill -9` in the middle, and several processes at once
//! - `model`: random histories against a model

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod approvals;
mod audit;
mod backup;
mod behind_our_back;
mod crash;
mod deciding;
mod disk_full;
mod figures;
mod finding;
mod formats;
mod journal;
mod keys;
mod memory;
mod model;
mod prune;
mod quarantine;
mod replaced;
mod runs;
mod support;
mod tampering;
