//! Tools, calls and results as the model providers write them.

mod calls;
mod export;
pub(crate) mod results;
mod strict;
pub(crate) mod tools;
