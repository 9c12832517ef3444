//! Hooks: from configuration to a runtime's, and what a person must have trusted first.
//!
//! INVARIANT: a hook that a project brought runs only as a person has trusted it. Until then what it
//! would have checked is denied: a check that does not run must not be skipped without a word.
//!
//! INVARIANT: what a project's hook answers changes permissions of the session at most. Trust in a folder
//! does not write the user's own rules, nor trust more of the folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::hook::{HookEvent, OnFailure};
use helve::hooks::{HookEntry, HookSet, Matcher};
use helve::ports::{Exit, LaunchError, Launcher, Program, Seen};
use helve::{BoxFuture, Layer};
use helve_mcp::trust::Verdict;
use helve_sandbox::Sandbox;
use helve_tools::hooks::{HeldHook, HookConfig, HookGroup, HookMaker};
use helve_tools::web::client::LazyClient;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::trust::{self, Store};
use crate::config::place::OwnFolder;
use crate::config::{HookSection, Loaded, Origin, document};

/// Why a hook that is not trusted says no.
const HELD: &str = "the project's hooks are not trusted; a person must look at them first: `helve trust`";

/// The hooks of a configuration.
pub struct Hooks {
    pub set: HookSet,
    /// Those of the set that stand for hooks that cannot be used.
    pub stand_ins: Vec<HookEntry>,
    /// What is wrong with those that cannot be used, each a line with its place and what follows from it.
    pub broken: Vec<String>,
}

/// Every hook that the configuration names, in order: the person's own first. One that cannot be used stands
/// there as one that says no.
pub fn set(loaded: &Loaded) -> Hooks {
    let folder = folder(loaded);
    let mut set = HookSet::default().in_folder(folder.to_string_lossy().as_ref());
    let (mut broken, mut stand_ins) = (Vec::new(), Vec::new());
    for one in &loaded.broken_hooks {
        broken.extend(one.problems.iter().map(|problem| with_consequence(&one.event, &problem.line())));
        stand_ins.extend(deny(&one.event, one.matcher.as_deref(), &one.origin));
    }
    set = stand_ins.iter().cloned().fold(set, HookSet::with);
    if loaded.hooks.is_empty() {
        return Hooks { set, stand_ins, broken };
    }
    let sandbox = super::sandbox(loaded);
    let client = LazyClient::new(loaded.config.net.clone());
    let maker = HookMaker::new(Arc::new(sandbox.clone()), client.clone());
    // What is looked at now is all that they get, wherever links lead by the time they run.
    let within = std::iter::once(folder.clone()).chain(leads_outside(loaded).into_values()).collect();
    let of_project = HookMaker::new(Arc::new(Within { sandbox, within }), client);
    let held = verdict(loaded) != Verdict::Trusted;
    for section in &loaded.hooks {
        let maker = if loaded.is_foreign(section.layer) { &of_project } else { &maker };
        let entries = match made(section, maker, &folder) {
            Ok(entries) if held && section.layer == Layer::Project => {
                entries.into_iter().flat_map(|entry| hold(&entry, HELD)).collect()
            }
            Ok(entries) if loaded.is_foreign(section.layer) => {
                entries.into_iter().map(HookEntry::for_session).collect()
            }
            Ok(entries) => entries,
            Err(problems) => {
                broken.extend(problems.iter().map(|line| with_consequence(&section.event, line)));
                let denies = deny(&section.event, section.group.matcher.as_deref(), &section.origin());
                stand_ins.extend(denies.iter().cloned());
                denies
            }
        };
        set = entries.into_iter().fold(set, HookSet::with);
    }
    Hooks { set, stand_ins, broken }
}

const DENIED: &str = "; what this hook would look at is denied";
const SKIPPED: &str = "; its event goes on without it";

fn with_consequence(event: &str, line: &str) -> String {
    let is_heard = event.parse().is_ok_and(|event| matches!(when_held(&event), (_, OnFailure::Continue)));
    format!("{line}{}", if is_heard { SKIPPED } else { DENIED })
}

/// Whether a line says what follows from a broken hook.
pub fn has_consequence(line: &str) -> bool {
    line.ends_with(DENIED) || line.ends_with(SKIPPED)
}

/// What stands for hooks that cannot be used: it denies what they would look at, and where that cannot be read,
/// every call.
fn deny(event: &str, matcher: Option<&str>, origin: &Origin) -> Vec<HookEntry> {
    let place = document::at(origin);
    let why = format!(
        "the hook at {place} is broken, and what it would look at is denied; `helve doctor` says why"
    );
    let matcher = matcher.and_then(|text| Matcher::new(text).ok()).unwrap_or_else(Matcher::all);
    let event = event.parse().unwrap_or(HookEvent::PreToolUse);
    hold(&HookEntry::new(event, matcher, HeldHook::new(place, why.clone())), &why)
}

fn made(section: &HookSection, maker: &HookMaker, folder: &Path) -> Result<Vec<HookEntry>, Vec<String>> {
    let event: HookEvent = section.event.parse().map_err(|error| {
        vec![format!("{}  `{}`: {error}", document::at(&section.origin()), section.event)]
    })?;
    let entries = maker.make(&event, &section.group, folder).map_err(|problems| {
        let line =
            |at: &str, message: &str| format!("{}  `{at}`: {message}", document::at(&section.origin_of(at)));
        problems.iter().map(|problem| line(&problem.at, &problem.message)).collect::<Vec<_>>()
    })?;
    let placed =
        |(index, entry): (usize, HookEntry)| match place(&section.origin_of(&format!("hooks/{index}"))) {
            Some(place) => entry.at(place),
            None => entry,
        };
    Ok(entries.into_iter().enumerate().map(placed).collect())
}

/// File and line, without the folder: a model reads it, too.
fn place(origin: &Origin) -> Option<String> {
    match origin {
        Origin::File { path, line, .. } => Some(format!("{}:{line}", path.file_name()?.to_string_lossy())),
        _ => None,
    }
}

/// What stands for a hook that may not run, and why.
fn hold(entry: &HookEntry, why: &str) -> Vec<HookEntry> {
    let (event, on_failure) = when_held(&entry.event);
    let hook = HeldHook::new(entry.hook.label(), why);
    let mut held = HookEntry::new(event, entry.matcher.clone(), hook).on_failure(on_failure);
    held.place.clone_from(&entry.place);
    vec![held]
}

/// When something stands for a hook that may not run, and whether it denies. One that would look at a result must
/// be heard before there is one. A change of the configuration goes on: it may be what mends the hook.
fn when_held(event: &HookEvent) -> (HookEvent, OnFailure) {
    match event {
        HookEvent::PreToolUse
        | HookEvent::PermissionRequest
        | HookEvent::UserPromptSubmit
        | HookEvent::PostToolBatch
        | HookEvent::Elicitation => (event.clone(), OnFailure::Block),
        HookEvent::PostToolUse => (HookEvent::PreToolUse, OnFailure::Block),
        _ => (event.clone(), OnFailure::Continue),
    }
}

/// Where hooks start, and what they may read: the project's folder, or where one is without a project.
pub fn folder(loaded: &Loaded) -> PathBuf {
    let folder = loaded.folder();
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// Whether the project's hooks may run. Where there are none, or the user named the file that has them,
/// nothing needs to be trusted.
pub fn verdict(loaded: &Loaded) -> Verdict {
    let Some(hooks) = of_project(loaded) else { return Verdict::Trusted };
    if !loaded.is_foreign(Layer::Project) {
        return Verdict::Trusted;
    }
    match trust::look(Store::Hooks) {
        Some(trust) => trust.check_value(&trust::scope(loaded), NAME, &hooks),
        None => Verdict::Unknown,
    }
}

/// The files that hooks are made of.
pub fn scripts(loaded: &Loaded) -> Vec<PathBuf> {
    let folder = folder(loaded);
    let hooks = loaded.hooks.iter().flat_map(|section| &section.group.hooks);
    let lines = hooks.flat_map(|hook| hook.command.iter().chain(hook.args.iter().flatten()));
    lines.flat_map(|line| helve_tools::hooks::scripts(line, &folder)).collect()
}

/// The tools that hooks call.
pub fn tools_called(loaded: &Loaded) -> Vec<String> {
    loaded.hooks.iter().flat_map(|section| &section.group.hooks).filter_map(HookConfig::tool_called).collect()
}

/// What the project's file has for hooks, as it is trusted: all of it together.
pub fn of_project(loaded: &Loaded) -> Option<Value> {
    let mut hooks: BTreeMap<&str, Vec<&HookGroup>> = BTreeMap::new();
    for section in loaded.hooks.iter().filter(|section| section.layer == Layer::Project) {
        hooks.entry(&section.event).or_default().push(&section.group);
    }
    let mut value = (!hooks.is_empty()).then(|| json!(hooks))?;
    let leads = leads_outside(loaded);
    if !leads.is_empty() {
        let leads =
            leads.iter().map(|(path, end)| (path.display().to_string(), json!(end.to_string_lossy())));
        value["leads_to"] = Value::Object(leads.collect());
    }
    Some(value)
}

/// What the project's hooks are given that lies outside of the project once links are followed, as they name
/// it and as it is. Without a box that is everything, and nothing needs to be said.
fn leads_outside(loaded: &Loaded) -> BTreeMap<PathBuf, PathBuf> {
    let Some(file) = loaded.project_file.as_deref().filter(|_| loaded.is_foreign(Layer::Project)) else {
        return BTreeMap::new();
    };
    let own = OwnFolder::of(file);
    let sections = loaded.hooks.iter().filter(|section| section.layer == Layer::Project);
    let hooks = sections.flat_map(|section| &section.group.hooks).filter(|hook| hook.reach.confined);
    let programs = |hook: &HookConfig| {
        let program = hook.command.clone().filter(|command| hook.args.is_some() && command.contains('/'));
        let programs = program.map(PathBuf::from).into_iter().chain(hook.shell.clone());
        // The system's programs are everybody's.
        programs.filter(|path| !own.lead(path).end.starts_with("/usr")).collect::<Vec<_>>()
    };
    let paths = hooks.flat_map(|hook| {
        programs(hook).into_iter().chain(hook.reach.read.iter().chain(&hook.reach.write).cloned())
    });
    let leads = paths.map(|path| own.lead(&path)).filter(|lead| !lead.is_inside);
    leads.map(|lead| (lead.named, lead.end)).collect()
}

/// Starts programs with what lies in these, and nothing else.
struct Within {
    sandbox: Sandbox,
    within: Vec<PathBuf>,
}

impl Launcher for Within {
    fn launch_seen(
        &self,
        mut program: Program,
        cancellation: CancellationToken,
        seen: Seen,
    ) -> BoxFuture<'_, Result<Exit, LaunchError>> {
        program.access.within = Some(self.within.clone());
        self.sandbox.launch_seen(program, cancellation, seen)
    }
}

/// The name under which hooks are trusted: there is one list a project.
pub const NAME: &str = "hooks";
