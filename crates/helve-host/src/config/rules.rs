//! Everyday rules, file by file: the user's, the project's, and what this machine alone knows of the
//! project.

use std::path::{Path, PathBuf};

use helve::Layer;
use helve::json::{canonical, sha256_hex};
use helve::permission::{Destination, PermissionMode, PermissionSet};
use helve_mcp::trust::Verdict;
use serde::Deserialize;
use serde_json::{Value, json};

use super::document::Document;
use super::{Loaded, Origin, find};
use crate::error::HostError;

/// The rules of every place.
pub struct Places {
    /// Those that count.
    pub sets: Vec<(Destination, PermissionSet)>,
    /// What of the project's rules does not count, because nobody has trusted it.
    pub held: Option<PermissionSet>,
}

/// What this machine alone knows of a project.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LocalFile {
    /// The project, for people who look.
    project: String,
    /// The digest of the project's rules as they were trusted.
    trusted_rules: Option<String>,
    /// The journal that the project goes on with: see [`super::adopted`].
    pub(super) journal: Option<PathBuf>,
    rules: PermissionSet,
}

/// The rules of every place, as they count.
pub fn places(loaded: &Loaded) -> Result<Places, HostError> {
    let user = of_file(loaded.user_file.as_deref())?;
    let project = of_file(loaded.project_file.as_deref())?;
    let local = local(loaded)?;
    let is_trusted =
        !loaded.is_foreign(Layer::Project) || local.trusted_rules.as_deref() == Some(&*digest(&project));
    let (project, held) = if is_trusted { (project, PermissionSet::default()) } else { apart(project) };
    let sets = vec![
        (Destination::UserSettings, user),
        (Destination::ProjectSettings, project),
        (Destination::LocalSettings, local.rules),
        (Destination::CliArg, typed(loaded)),
    ];
    Ok(Places { sets, held: (!held.is_empty()).then_some(held) })
}

/// What a project's rules allow, and whether that counts.
pub struct BroughtRules {
    pub held: PermissionSet,
    /// All of them, as they are trusted.
    pub all: PermissionSet,
    pub verdict: Verdict,
    pub origin: Origin,
}

/// What the project's rules allow, if they allow anything.
pub fn brought(loaded: &Loaded) -> Result<Option<BroughtRules>, HostError> {
    let Some(file) = loaded.project_file.as_deref() else { return Ok(None) };
    let document = Document::read(file)?;
    let all: PermissionSet = read(document.value.get("rules"), file)?;
    let (_, held) = apart(all.clone());
    if held.is_empty() {
        return Ok(None);
    }
    let now = digest(&all);
    let verdict = match local(loaded)?.trusted_rules {
        Some(was) if was == now => Verdict::Trusted,
        Some(was) => Verdict::Changed { was, now, diff: Vec::new() },
        None => Verdict::Unknown,
    };
    Ok(Some(BroughtRules { held, all, verdict, origin: document.origin("/rules") }))
}

/// What only makes a project laxer, apart from the rest.
fn apart(mut set: PermissionSet) -> (PermissionSet, PermissionSet) {
    let laxer = |mode: &PermissionMode| {
        matches!(mode, PermissionMode::AcceptEdits | PermissionMode::BypassPermissions)
    };
    let held = PermissionSet {
        allow: std::mem::take(&mut set.allow),
        directories: std::mem::take(&mut set.directories),
        mode: set.mode.take_if(|mode| laxer(mode)),
        ..PermissionSet::default()
    };
    (set, held)
}

/// The digest by which a project's rules are trusted.
pub fn digest(set: &PermissionSet) -> String {
    sha256_hex(canonical(&json!(set)).as_bytes())
}

/// The rules in one helve.toml.
pub(crate) fn of_file(file: Option<&Path>) -> Result<PermissionSet, HostError> {
    let Some(file) = file else { return Ok(PermissionSet::default()) };
    let document = Document::read(file)?;
    read(document.value.get("rules"), file)
}

/// What this machine alone knows of the project.
pub fn local(loaded: &Loaded) -> Result<LocalFile, HostError> {
    local_file(loaded).map_or_else(|| Ok(LocalFile::default()), |file| of_machine(&file))
}

/// The same from its file, which need not be there.
pub(super) fn of_machine(file: &Path) -> Result<LocalFile, HostError> {
    match file.is_file() {
        true => read(Some(&Document::read(file)?.value), file),
        false => Ok(LocalFile::default()),
    }
}

/// Where that stands.
pub(crate) fn local_file(loaded: &Loaded) -> Option<PathBuf> {
    find::local_file(loaded.project_file.as_deref()?.parent()?)
}

fn read<T: for<'de> Deserialize<'de> + Default>(value: Option<&Value>, file: &Path) -> Result<T, HostError> {
    let Some(value) = value else { return Ok(T::default()) };
    T::deserialize(value).map_err(|error| {
        HostError::usage(format!("the rules in {} cannot be read", file.display())).because(&error)
    })
}

/// What was set by flags and variables.
fn typed(loaded: &Loaded) -> PermissionSet {
    let is_typed = |key: &str| {
        matches!(loaded.origin(&format!("/rules/{key}")), Origin::Flag { .. } | Origin::Env { .. })
    };
    let rules = loaded.config.rules.clone();
    let keep = |key, rules| if is_typed(key) { rules } else { Vec::new() };
    PermissionSet {
        allow: keep("allow", rules.allow),
        ask: keep("ask", rules.ask),
        deny: keep("deny", rules.deny),
        mode: rules.mode.filter(|_| is_typed("mode")),
        directories: if is_typed("directories") { rules.directories } else { Vec::new() },
    }
}
