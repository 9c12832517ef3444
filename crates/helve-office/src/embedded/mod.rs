//! The account that needs no server: all that it has is in the office file.

mod objects;

pub use objects::{EmbeddedObjects, LOCAL};
