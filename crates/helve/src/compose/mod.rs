//! Composition: tools made of other tools.
//!
//! A [`Composition`] is plain data: a [`Sequence`] of steps, [`Parallel`] ones, a [`Conditional`],
//! or a [`MapOver`] a list. With the tools of a registry it becomes a tool like any other, which
//! says of itself what follows from its parts. It runs them through the whole pipeline, and does
//! nothing else: each part is checked, approved, retried and recorded for itself.
//!
//! Reading order: `shape` and `step` are the data; `plan` looks up and checks; `derive` makes the
//! tool; `run`, `window` and a file each sort run it.

mod shape;
mod step;

mod chain;
mod plan;

mod derive;
mod embed;
mod inputs;
mod outputs;

mod conditional;
mod handler;
mod map;
mod parallel;
mod run;
mod sequence;
mod window;

mod builder;

#[cfg(test)]
mod tests;

pub use builder::{ComposedBuilder, conditional, map, parallel, sequence};
pub use chain::{DEPTH_MAX, Order, order};
pub use derive::{Derived, Given, effects_of_parts};
pub use shape::{Branch, Composition, Conditional, ITEMS_MAX, MAP_CONCURRENCY, MapOver, Parallel, Sequence};
pub use step::{OnError, Step};
