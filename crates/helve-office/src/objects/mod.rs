//! Events, tasks and contacts in the file: what is read from their bytes to find them by, and the ids that tools hand
//! out for them.

mod derive;
mod id;

pub use derive::{OBJECT_BYTES_MAX, derive, version_of};
pub use id::{Kind, ObjectId};

pub(crate) use derive::{mailto, main_component};
