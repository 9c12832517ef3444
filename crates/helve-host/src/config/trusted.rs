//! Where it is kept what a person has trusted: files of the state folder, never of a project.

use std::path::{Path, PathBuf};

use helve_mcp::trust::Trust;

use super::find;

/// The files that trust is kept in. One for each kind: a server may be called as a tool is.
#[derive(Debug, Clone, Copy)]
pub enum Store {
    Servers,
    Hooks,
    Tools,
    Settings,
}

impl Store {
    pub const ALL: [Self; 4] = [Self::Servers, Self::Hooks, Self::Tools, Self::Settings];

    pub fn file(self, state: &Path) -> PathBuf {
        state.join(match self {
            Self::Servers => "trust.json",
            Self::Hooks => "trusted-hooks.json",
            Self::Tools => "trusted-tools.json",
            Self::Settings => "trusted-settings.json",
        })
    }
}

/// What is trusted, for a look. Nothing is, where there is no place to keep it.
pub fn look(store: Store) -> Option<Trust> {
    find::mcp_state().map(|state| Trust::open(store.file(&state)))
}
