//! The runtime as its users see it.
//!
//! - `calls`: every stage of the pipeline, and what it does with a call;
//! - `available`: what models are shown of the tools;
//! - `attached`: what a tool gives besides its value;
//! - `endings`: timeouts, cancellation, panics, and callers who go away;
//! - `retry`: which attempts are repeated, and when; `breaker`: tools that keep failing;
//! - `costs`: what calls cost, and may cost;
//! - `limits`: how often, and how many at once;
//! - `recording`: what the journal keeps, and idempotency keys;
//! - `preconditions`: what must hold before a tool runs, and what happens where it does not;
//! - `approvals`: questions to people, who decides, and what runs then;
//! - `stop`: what a runtime that stops refuses, waits for, cancels and leaves;
//! - `runs`: parts, effects, undo, and resuming; `run_model`: the same by chance, against a model;
//! - `went_on`: compositions that go on without a part that failed;
//! - `memory`: what callers remember, for how long and how much;
//! - `registry`: registering, layers, finding;
//! - `events`: who listens and what they miss;
//! - `formats`: what providers see, and the way back; `sdk` checks it against their own types;
//! - `hooks`: which see what, and what their answers come to;
//! - `hostile`: schemas and arguments made to hurt; `nasty_schemas`: those made to take for ever;
//! - `seeds`: the seeds' own test cases.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod approvals;
mod attached;
mod available;
mod breaker;
mod calls;
mod costs;
mod endings;
mod events;
mod formats;
mod gate;
mod hooks;
mod hostile;
mod limits;
mod lost_answers;
mod memory;
mod nasty_schemas;
mod preconditions;
mod recording;
mod registry;
mod retry;
mod run_model;
mod runs;
mod sdk;
mod seeds;
mod stop;
mod support;
mod went_on;
