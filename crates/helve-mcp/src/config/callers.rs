//! What single callers show to a server, where each has their own account there.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Setting;

/// Whose account is used at a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Credentials {
    /// One for all callers.
    #[default]
    Shared,
    /// Each caller's own.
    Caller,
}

impl Credentials {
    /// Whether it is one for all callers.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn is_shared(&self) -> bool {
        *self == Self::Shared
    }
}

/// What a single caller shows to a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallerConfig {
    /// Headers of each of their requests, for a server with `url`, such as
    /// `{ Authorization = { env = "NAME", prefix = "Bearer " } }`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Setting>,
    /// The environment of their own process, for a server with `command`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Setting>,
}

impl CallerConfig {
    pub(super) fn settings_mut(&mut self) -> impl Iterator<Item = &mut Setting> {
        self.headers.values_mut().chain(self.env.values_mut())
    }
}
