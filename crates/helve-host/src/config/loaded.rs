//! The configuration as it was read, with where each value came from.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use helve::Layer;
use helve_office::Office;
use helve_sandbox::Unwritable;
use serde_json::Value;

use super::asked::AskedSettings;
use super::entry::{ToolEntry, is_tool_list};
use super::hooks::{BrokenHook, HookSection};
use super::pointer::{dotted, leaves};
use super::servers::BrokenServer;
use super::{Config, Origin, PolicyPath, find};
use crate::Remark;

/// The configuration, with where each value came from.
pub struct Loaded {
    pub config: Config,
    /// Tools from the files, in order of precedence.
    pub tools: Vec<ToolEntry>,
    /// Hooks from the files, the user's first.
    pub hooks: Vec<HookSection>,
    /// Hooks that cannot be used.
    pub(crate) broken_hooks: Vec<BrokenHook>,
    /// MCP servers that cannot be used, by name.
    pub broken_servers: BTreeMap<String, BrokenServer>,
    /// What else is wrong with the files and does not count, while the rest does.
    pub set_aside: Vec<Remark>,
    /// The user's file, where there is one.
    pub user_file: Option<PathBuf>,
    /// The project's file, where there is one.
    pub project_file: Option<PathBuf>,
    /// The folder that it was loaded for, absolute. Only for the binary is it always the process's current one.
    pub(crate) work_dir: PathBuf,
    /// What should be known about it.
    pub remarks: Vec<Remark>,
    /// Where calls are recorded.
    pub journal_path: PathBuf,
    /// Where policies are read from: all layers, because one must not replace another's.
    pub policy_files: Vec<PolicyPath>,
    /// What the project's file grants beyond its own folder, trusted or not.
    pub settings: AskedSettings,
    /// The same as the tools that run were made with: a process keeps those it started with.
    pub in_use: Arc<AskedSettings>,
    /// What no tool changes: one list for as long as a process lives, see `wire::judges`.
    pub unwritable: Unwritable,
    /// The office of this process, see `wire::office`: one for all that are loaded one after another.
    pub office: Arc<OnceLock<Arc<Office>>>,
    /// Whether the project's file was found in a folder. One that is named on the command line is the
    /// user's own choice.
    pub(super) project_was_found: bool,
    pub(super) merged: Value,
    pub(super) origins: HashMap<String, Origin>,
}

impl Loaded {
    /// Every value that is not a list of tools: key, value, origin; sorted by key.
    pub fn values(&self) -> Vec<(String, &Value, Origin)> {
        let mut found = Vec::new();
        leaves(&self.merged, String::new(), &mut |pointer, value| {
            if !is_tool_list(&pointer) {
                found.push((dotted(&pointer), value, self.origin(&pointer)));
            }
        });
        found
    }

    /// Whether what this layer says came with a folder, and so could come from anybody.
    pub fn is_foreign(&self, layer: Layer) -> bool {
        layer == Layer::Project && self.project_was_found
    }

    /// Whether the journal is in the project's own folder for such things.
    pub(crate) fn is_in_project(&self) -> bool {
        let project_dir = self.project_file.as_deref().and_then(Path::parent);
        project_dir.is_some_and(|dir| self.journal_path == find::project_journal(dir))
    }

    /// Whether the project goes on with the user's journal: see [`super::adopted`].
    pub fn is_adopted(&self) -> bool {
        let is_chosen = self.is_set("/journal/path");
        self.project_file.is_some() && !is_chosen && find::user_journal().as_ref() == Some(&self.journal_path)
    }

    /// Whether it is for the project to say where the journal is.
    pub(crate) fn journal_is_foreign(&self) -> bool {
        let named_by = |file: &Path| match self.origin("/journal/path") {
            Origin::File { path, .. } => path == file,
            Origin::Default => self.is_in_project(),
            Origin::Env { .. } | Origin::Flag { .. } => false,
        };
        self.is_foreign(Layer::Project) && self.project_file.as_deref().is_some_and(named_by)
    }

    /// Where a relative path in the value at `pointer` starts, if a file gave it.
    pub(crate) fn folder_of(&self, pointer: &str) -> Option<&Path> {
        match self.origins.get(pointer)? {
            Origin::File { path, .. } => path.parent(),
            Origin::Default | Origin::Env { .. } | Origin::Flag { .. } => None,
        }
    }

    /// Where a relative path in the value at `pointer` starts, whichever file gave it.
    pub(crate) fn start_of(&self, pointer: &str) -> &Path {
        self.folder_of(pointer).unwrap_or(self.work_dir.as_path())
    }

    /// The project's folder, or without a project the one that it was loaded for.
    pub(crate) fn folder(&self) -> &Path {
        self.project_file.as_deref().and_then(Path::parent).unwrap_or(self.work_dir.as_path())
    }

    /// Whether the value was given at `pointer`.
    pub fn is_set(&self, pointer: &str) -> bool {
        self.origins.contains_key(pointer)
    }

    /// Where the values below `pointer` come from.
    pub(crate) fn origins_below(&self, pointer: &str) -> Vec<&Origin> {
        let below = format!("{pointer}/");
        self.origins.iter().filter(|(one, _)| one.starts_with(&below)).map(|(_, origin)| origin).collect()
    }

    /// A section as it counts.
    pub fn section(&self, name: &str) -> &Value {
        self.merged.get(name).unwrap_or(&Value::Null)
    }

    /// The keys that another configuration has with other values, outside of these sections.
    pub fn changed_keys(&self, other: &Self, without: &[&str]) -> Vec<String> {
        let values = |loaded: &Self| {
            let values = loaded.values().into_iter().map(|(key, value, _)| (key, value.clone()));
            values.collect::<BTreeMap<_, _>>()
        };
        let (here, there) = (values(self), values(other));
        let keys: BTreeSet<_> = here.keys().chain(there.keys()).collect();
        let is_left_out = |key: &str| without.contains(&key.split(['.', '[']).next().unwrap_or(key));
        let changed = keys.into_iter().filter(|key| !is_left_out(key) && here.get(*key) != there.get(*key));
        changed.cloned().collect()
    }

    /// Where the value at `pointer` comes from.
    pub fn origin(&self, pointer: &str) -> Origin {
        self.origins.get(pointer).cloned().unwrap_or(Origin::Default)
    }
}
