//! Everything the binary says: one door to standard output and standard error.
//!
//! [`Ui`] writes, [`escape`] makes untrusted text harmless, [`table`] and [`json`] give it form.

pub(crate) mod escape;
pub(crate) mod json;
pub(crate) mod log;
pub(crate) mod paint;
pub(crate) mod table;
mod writer;

pub(crate) use helve_host::words::count;

pub(crate) use paint::Paint;
pub(crate) use table::Table;
pub(crate) use writer::{Colour, Detail, Format, Ui, unwritten};
