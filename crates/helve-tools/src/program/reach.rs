//! What a program that configuration names may reach. The same for tools and hooks.

use std::path::PathBuf;

use helve::ports::Access;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a program may reach. Nothing, unless said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reach {
    /// Files and folders that the program may read, besides the system's programs and libraries and the
    /// folder in which it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Files and folders that the program may change; none unless said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Hosts that the program may reach, as `HOST:PORT`; none unless said. It has no network but a proxy
    /// that leads there, named in `HTTPS_PROXY` and its like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Whether the program runs in a box. `false` lets it do all that Helve itself may do.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub confined: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn is_true(value: &bool) -> bool {
    *value
}

impl Default for Reach {
    fn default() -> Self {
        Self { read: Vec::new(), write: Vec::new(), network: Vec::new(), confined: true }
    }
}

impl Reach {
    /// The same with every path as `place` has it.
    pub(crate) fn placed(mut self, place: impl Fn(&PathBuf) -> PathBuf) -> Self {
        self.read.iter_mut().chain(&mut self.write).for_each(|path| *path = place(path));
        self
    }

    /// As the launcher takes it.
    pub(crate) fn access(&self) -> Access {
        Access {
            read: self.read.clone(),
            write: self.write.clone(),
            network: self.network.clone(),
            unconfined: !self.confined,
            ..Access::default()
        }
    }
}
