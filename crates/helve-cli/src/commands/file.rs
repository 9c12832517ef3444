//! Changing a helve.toml: its comments stay, and it is replaced in one step.

use std::path::Path;

pub(crate) use helve_host::config::file::{take_ending, target};

use crate::failure::Failure;

/// Changes a file. One that is not there is made.
pub(crate) fn change(
    path: &Path,
    change: impl FnOnce(&str) -> Result<String, Failure>,
) -> Result<(), Failure> {
    helve_host::config::file::try_change(path, change)
}
