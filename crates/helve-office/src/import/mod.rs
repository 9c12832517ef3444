//! Files that other programs exported, read into the embedded account.

mod objects;

pub use objects::{ImportError, Imported, Skipped, import_objects};
