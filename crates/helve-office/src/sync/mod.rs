//! What brings servers' accounts into the file, page by page.

mod objects;

pub use objects::{Progress, Synced, sync_objects, take_up};
