//! A server that runs follows the configuration: tools, MCP servers, rules, policies and hooks. It says what it
//! takes up, what has to wait for a restart, what is wrong, and when that is mended.
//!
//! INVARIANT: calls see the tools of one configuration, before or after: they are made next to those that run, and
//! taken over in one step, or not at all. A call that has begun ends with the tool that it began with.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helve::hook::{HookEvent, HookInput};
use helve::hooks::HookSet;
use helve::registry::LayerChange;
use helve::{Layer, Registry, Runtime, Tool, ToolName};
use helve_host::HostError;
use helve_host::config::asked::AskedSettings;
use helve_host::config::{Inputs, Loaded, PolicyPath, ProjectFile, adopted, find, load};
use helve_host::running::{Following, Note, Place};
use helve_host::wire;
use helve_host::wire::broken::{self, BrokenPart, What};
use helve_host::wire::mcp::{self, Configured};
use helve_mcp::servers::SetServers;
use helve_mcp::trust::Verdict;
use serde_json::{Value, json};

use super::Opened;
use super::upstream::Upstream;
use crate::failure::Failure;
use crate::ui::escape;

/// How often the configuration is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// How long a file that nobody knows yet is left alone: `helve init` writes it, and then down that it was made here.
const NEWCOMER_WAIT: Duration = Duration::from_secs(2);

/// The sections that are followed. All others count after a restart.
const FOLLOWED: [&str; 10] =
    ["tool", "openapi", "builtin", "files", "code", "web", "mcp", "rules", "policy", "hooks"];

/// What tools are made with, and what else runs is not: it counts for tools at once.
const PARTLY_FOLLOWED: [&str; 3] = ["net.", "sandbox.", "execution.default_timeout_ms"];

/// The sections that tools are made with.
const TOOLS_NEED: [&str; 9] =
    ["execution", "registry", "journal", "net", "sandbox", "code", "builtin", "files", "web"];

/// The tools of the configuration that are in force.
pub(super) struct InForce {
    tools: Vec<(Layer, Tool)>,
    /// What is wrong with those that are broken.
    mistakes: Vec<String>,
    /// What the files have for each, by its name or namespace.
    entries: BTreeMap<(Layer, String), Value>,
    /// What they were made of.
    made_of: Value,
    /// Settings of the project that they were made with.
    settings: Arc<AskedSettings>,
}

impl InForce {
    pub(super) fn of(tools: &wire::Tools, loaded: &Loaded) -> Self {
        Self {
            tools: tools.registry.layers(),
            mistakes: mistakes(&tools.broken),
            entries: entries(loaded),
            made_of: made_of(loaded),
            settings: Arc::clone(&loaded.in_use),
        }
    }
}

/// All that decides which tools there are and what they may do.
fn made_of(loaded: &Loaded) -> Value {
    let sections: BTreeMap<_, _> = TOOLS_NEED.iter().map(|name| (name, loaded.section(name))).collect();
    let entries = loaded.tools.iter().map(|entry| json!([entry.kind.section(), entry.layer, entry.value]));
    let servers: Vec<_> = loaded.config.mcp.servers.keys().chain(loaded.broken_servers.keys()).collect();
    let waiting = wire::brought::waiting(loaded);
    json!([sections, entries.collect::<Vec<_>>(), servers, waiting, loaded.in_use.pinned()])
}

fn entries(loaded: &Loaded) -> BTreeMap<(Layer, String), Value> {
    let entries = loaded.tools.iter();
    entries.map(|entry| ((entry.layer, entry.label().to_owned()), entry.value.clone())).collect()
}

/// What is wrong with tools and APIs. Of MCP servers it is said when they are set.
fn mistakes(broken: &[BrokenPart]) -> Vec<String> {
    let of_tools = broken.iter().filter(|one| one.what != What::Server);
    of_tools.flat_map(|one| one.lines.clone()).collect()
}

/// What the files looked like. Taken before they are read, so that no change falls in between.
#[derive(PartialEq, Eq)]
pub(super) struct Seen {
    files: String,
    policies: String,
}

impl Seen {
    /// The files, before the configuration is read.
    pub(super) fn files(inputs: &Inputs) -> Self {
        Self { files: mcp::fingerprint(inputs), policies: String::new() }
    }

    /// With the policies that it names, before these are read.
    pub(super) fn with_policies(self, policies: &[PolicyPath]) -> Self {
        Self { policies: mcp::fingerprint_of(policies.iter().map(|one| one.path.as_path())), ..self }
    }
}

/// Lets a running server follow the configuration.
pub(super) struct Follower<'a> {
    inputs: &'a Inputs,
    /// What the server was started with.
    first: &'a Loaded,
    upstream: &'a Upstream,
    runtime: Runtime,
    in_force: InForce,
    /// The MCP servers that are set.
    servers: BTreeMap<String, Configured>,
    /// The files of policies that are in force.
    policies: Vec<PolicyPath>,
    seen: Seen,
    /// The last configuration that could be read.
    last: Option<Arc<Loaded>>,
    /// The one whose hooks are in force, if it is not the first.
    hooked: Option<Arc<Loaded>>,
    /// A project's file that was found and is not used.
    stranger: Option<PathBuf>,
    following: Following,
    note: Option<(&'a Place, Note)>,
}

impl<'a> Follower<'a> {
    pub(super) fn new(
        inputs: &'a Inputs,
        first: &'a Loaded,
        Opened { runtime, tools: in_force, seen, .. }: Opened,
        upstream: &'a Upstream,
    ) -> Self {
        let mut mistakes = in_force.mistakes.clone();
        mistakes.extend(of_parts(first));
        mistakes.extend(wire::hooks::set(first).broken);
        Self {
            inputs,
            first,
            upstream,
            runtime,
            in_force,
            servers: startable(first),
            policies: first.policy_files.clone(),
            seen,
            last: None,
            hooked: None,
            stranger: None,
            // Said already, when it was started.
            following: Following { mistakes, restart: Vec::new() },
            note: None,
        }
    }

    /// Lets other commands read there how far it follows.
    pub(super) fn announce_at(&mut self, place: Option<&'a Place>, mut note: Note) -> Result<(), Failure> {
        note.following = self.following.clone();
        if let Some(place) = place {
            place.announce(&note)?;
            self.note = Some((place, note));
        }
        Ok(())
    }

    /// Follows the configuration, and says what became of it. Runs until dropped.
    pub(super) async fn follow(&mut self) {
        loop {
            tokio::time::sleep(WATCH_EVERY).await;
            let now = Seen::files(self.inputs).with_policies(&self.policies);
            if now == self.seen {
                continue;
            }
            self.seen = if self.has_newcomer() {
                tokio::time::sleep(NEWCOMER_WAIT).await;
                Seen::files(self.inputs).with_policies(&self.policies)
            } else {
                now
            };
            let following = match load(&self.inputs_now()) {
                Ok(loaded) => self.apply_config(loaded).await,
                Err(failure) => {
                    // Policies are followed: what a user forbids does not wait until another file is mended.
                    let last = self.last.as_deref().unwrap_or(self.first);
                    self.follow_policies(last);
                    self.follow_rules(last);
                    self.hold_revoked_hooks();
                    Following { mistakes: lines_of(&failure), restart: self.following.restart.clone() }
                }
            };
            self.tell(following);
        }
    }

    /// What is read. A project that is not the one of the start counts if this machine knows it: a program in a
    /// box can write a helve.toml, and must not bring tools into a server that runs.
    fn inputs_now(&mut self) -> Inputs {
        let mut inputs = self.inputs.clone();
        let Ok(found) = find::project_file(&inputs.work_dir) else { return inputs };
        let stranger = self.stranger_in(found.as_deref());
        inputs.project = ProjectFile::Only(match &stranger {
            Some(_) => self.first.project_file.clone().filter(|file| file.is_file()),
            None => found,
        });
        if let Some(file) = stranger.as_ref().filter(|_| stranger != self.stranger) {
            say(&format!("there is a new helve.toml at {}: restart to use it", file.display()));
        }
        self.stranger = stranger;
        inputs
    }

    /// The project's file that is found, where this machine does not know it.
    fn stranger_in(&self, found: Option<&Path>) -> Option<PathBuf> {
        let file = found.filter(|_| self.inputs.config.is_none())?;
        let is_ours =
            [self.first.project_file.as_deref(), find::user_file().as_deref()].contains(&Some(file));
        (!is_ours && !adopted::is_known(file)).then(|| file.to_owned())
    }

    fn has_newcomer(&self) -> bool {
        let Ok(found) = find::project_file(&self.inputs.work_dir) else { return false };
        self.stranger_in(found.as_deref()).is_some_and(|file| self.stranger != Some(file))
    }

    /// Takes up a configuration, and says what could not be.
    async fn apply_config(&mut self, mut loaded: Loaded) -> Following {
        // What is followed is kept from the tools that run before it counts.
        loaded.unwritable = self.first.unwritable.clone();
        loaded.office = Arc::clone(&self.first.office);
        wire::judges::unwritable(&loaded);
        self.policies.clone_from(&loaded.policy_files);
        let files = std::mem::take(&mut self.seen.files);
        self.seen = Seen { files, policies: String::new() }.with_policies(&self.policies);
        if let Err(failure) = wire::journal::keep_adopted(&loaded) {
            say(&format!("the project's journal is not written down: {failure}"));
        }
        // What guards new tools is there before they are.
        let asked = std::mem::replace(&mut loaded.in_use, Arc::clone(&self.in_force.settings));
        self.follow_policies(&loaded);
        self.follow_rules(&loaded);
        let hooks = self.follow_hooks(&loaded).await;
        loaded.in_use = asked;
        let (mut loaded, mut mistakes) = self.follow_tools(loaded).await;
        loaded.in_use = Arc::clone(&self.in_force.settings);
        mistakes.extend(self.follow_servers(&loaded).await);
        // Policies are read against the tools that there are.
        self.follow_policies(&loaded);
        mistakes.extend(hooks.mistakes);
        let mut restart = self.first.changed_keys(&loaded, &FOLLOWED);
        restart.extend(self.stranger.iter().map(|_| find::FILE_NAME.to_owned()));
        let loaded = Arc::new(loaded);
        if hooks.are_taken_up {
            self.hooked = Some(Arc::clone(&loaded));
        }
        self.last = Some(loaded);
        Following { mistakes, restart }
    }

    /// Lets the tools be those of the configuration, unless one that works would be broken. Says what is wrong.
    async fn follow_tools(&mut self, loaded: Loaded) -> (Loaded, Vec<String>) {
        let made_of = made_of(&loaded);
        if made_of == self.in_force.made_of {
            return (loaded, self.in_force.mistakes.clone());
        }
        let home = self.runtime.registry().clone();
        // Documents of APIs may have to be fetched, and calls do not wait for that.
        let made = tokio::task::spawn_blocking(move || {
            let beside = Registry::with_limit(loaded.config.registry.tools_max);
            let tools = wire::tools_for(&loaded, &home, beside);
            (loaded, tools)
        });
        let (loaded, tools) = match made.await {
            Ok(made) => made,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let tools = match tools {
            Ok(tools) => tools,
            Err(failure) => return (loaded, lines_of(&failure)),
        };
        let works = |one: &BrokenPart| {
            let is_it = |(layer, tool): &(Layer, Tool)| *layer == one.layer && one.has(tool.name().as_str());
            one.what != What::Server && self.in_force.tools.iter().any(is_it)
        };
        if tools.broken.iter().any(works) {
            return (loaded, mistakes(&tools.broken));
        }
        let mut new = InForce::of(&tools, &loaded);
        // What is not followed is still as it was, and so is the trust that it needs.
        new.settings = Arc::new(self.first.in_use.followed_by(&new.settings, &FOLLOWED));
        self.exchange(&new, &tools.broken);
        self.in_force = new;
        (loaded, self.in_force.mistakes.clone())
    }

    /// Puts new tools in the place of those that run.
    fn exchange(&self, new: &InForce, broken: &[BrokenPart]) {
        say_tools(&self.in_force, new);
        let of = |tools: &[(Layer, Tool)], layer: Layer| -> Vec<Tool> {
            tools.iter().filter(|(other, _)| *other == layer).map(|(_, tool)| tool.clone()).collect()
        };
        let changes = [Layer::BuiltIn, Layer::Org, Layer::Project].map(|layer| LayerChange {
            layer,
            out: of(&self.in_force.tools, layer).iter().map(|tool| tool.name().clone()).collect(),
            tools: of(&new.tools, layer),
        });
        let refused = self.runtime.registry().update(changes, broken::in_registry(broken));
        for (name, error) in refused {
            say(&format!("`{name}` is left out: {error}"));
        }
    }

    /// Lets the MCP servers be those of the configuration. One that is broken now goes on as it was, for as long
    /// as it is trusted.
    async fn follow_servers(&mut self, loaded: &Loaded) -> Vec<String> {
        let mut servers = startable(loaded);
        let broken = &loaded.broken_servers;
        let kept = self.servers.values().filter(|one| broken.contains_key(&one.name));
        let kept = kept.map(|one| one.judged_anew(loaded)).filter(|one| one.hold().is_none());
        servers.extend(kept.map(|one| (one.name.clone(), one)));
        match mcp::set(&self.upstream.servers, servers.values().cloned().collect(), loaded).await {
            Ok(set) => {
                say_set(&set);
                self.servers = servers;
            }
            Err(failure) => say(&format!("MCP servers are not followed: {failure}")),
        }
        of_parts(loaded)
    }

    /// Lets the policies be those of the configuration. Those that are wrong deny everything.
    fn follow_policies(&self, loaded: &Loaded) {
        self.runtime.set_policy(wire::brought::gate(loaded, self.runtime.registry()));
    }

    /// Lets the rules be those of the configuration. Those that are wrong stay as they were, since without them
    /// less might be denied.
    fn follow_rules(&self, loaded: &Loaded) {
        match helve_host::config::rules::places(loaded) {
            Ok(places) => {
                places.sets.into_iter().for_each(|(place, set)| self.runtime.set_permissions(place, set));
            }
            Err(failure) => {
                say(&format!("the rules stay as they were: {failure}: {}", failure.lines().join("; ")));
            }
        }
    }

    /// Lets the hooks be those of the configuration, unless a hook says no: then all stay. One that is broken
    /// denies what it would look at, whatever anybody says: a tool of the same edit may need it.
    async fn follow_hooks(&self, loaded: &Loaded) -> FollowedHooks {
        self.hold_revoked_hooks();
        let file = loaded.project_file.as_ref().or(loaded.user_file.as_ref());
        let source = if loaded.project_file.is_some() { "project_settings" } else { "user_settings" };
        let mut input = HookInput::new(HookEvent::ConfigChange).with("source", source);
        if let Some(file) = file {
            input = input.with("file_path", file.to_string_lossy().as_ref());
        }
        let fired = self.runtime.fire(input).await;
        let hooks = wire::hooks::set(loaded);
        let are_taken_up = match fired.refusal() {
            Some(why) => {
                say(&format!("the hooks stay as they were; a hook says no: {why}"));
                let stays = wire::hooks::set(self.hooked()).set;
                self.runtime.hooks().replace(hooks.stand_ins.into_iter().fold(stays, HookSet::with));
                false
            }
            None => {
                self.runtime.hooks().replace(hooks.set);
                true
            }
        };
        FollowedHooks { are_taken_up, mistakes: hooks.broken }
    }

    /// The configuration whose hooks are in force.
    fn hooked(&self) -> &Loaded {
        self.hooked.as_deref().unwrap_or(self.first)
    }

    /// Hooks of the project that are no longer trusted neither run nor have a say in whether they go: from now on
    /// they deny what they would look at.
    fn hold_revoked_hooks(&self) {
        if wire::hooks::verdict(self.hooked()) != Verdict::Trusted {
            self.runtime.hooks().replace(wire::hooks::set(self.hooked()).set);
        }
    }

    /// Says what has changed since it was last said, and leaves it for other commands to read.
    fn tell(&mut self, now: Following) {
        let before = std::mem::replace(&mut self.following, now);
        let now = &self.following;
        if now.mistakes != before.mistakes {
            for line in &now.mistakes {
                match wire::hooks::has_consequence(line) {
                    true => say(&format!("a mistake in the configuration: {line}")),
                    false => say(&format!(
                        "a mistake in the configuration, and what it concerns stays as it was: {line}"
                    )),
                }
            }
            if now.mistakes.is_empty() {
                say("the configuration is mended, and followed again");
            }
        }
        if now.restart != before.restart {
            match now.restart.is_empty() {
                true => say("no restart is needed any more"),
                false => say_restart(&now.restart),
            }
        }
        if let Some((place, note)) = &mut self.note {
            note.following = now.clone();
            if let Err(failure) = place.announce(note) {
                say(&failure.to_string());
            }
        }
    }
}

/// What became of the hooks of a configuration.
struct FollowedHooks {
    are_taken_up: bool,
    mistakes: Vec<String>,
}

/// The servers that may be started.
fn startable(loaded: &Loaded) -> BTreeMap<String, Configured> {
    let all = mcp::configured(loaded).into_iter().filter(|one| one.hold().is_none());
    all.map(|one| (one.name.clone(), one)).collect()
}

/// What is wrong with MCP servers, and with what else stands for itself.
fn of_parts(loaded: &Loaded) -> Vec<String> {
    let problems = loaded.broken_servers.values().flat_map(|one| &one.problems);
    let set_aside = loaded.set_aside.iter().map(|remark| remark.found.clone());
    problems.map(|problem| problem.line()).chain(set_aside).collect()
}

/// What a failure says, each with its place.
fn lines_of(failure: &HostError) -> Vec<String> {
    match failure.lines().is_empty() {
        true => vec![failure.message.clone()],
        false => failure.lines().to_vec(),
    }
}

fn say_tools(before: &InForce, now: &InForce) {
    let names = |in_force: &InForce| -> BTreeSet<ToolName> {
        in_force.tools.iter().map(|(_, tool)| tool.name().clone()).collect()
    };
    let (was, is) = (names(before), names(now));
    let shown = |names: &mut dyn Iterator<Item = &ToolName>| names.map(ToString::to_string).collect();
    let changed =
        now.entries.iter().filter(|(one, value)| before.entries.get(one).is_some_and(|was| was != *value));
    let changes: [(&str, Vec<String>); 3] = [
        ("added", shown(&mut is.difference(&was))),
        ("removed", shown(&mut was.difference(&is))),
        ("changed", changed.map(|((_, name), _)| name.clone()).collect()),
    ];
    for (what, tools) in changes {
        if !tools.is_empty() {
            say(&format!("tools {what}: {}", tools.join(", ")));
        }
    }
}

/// Says which keys need a restart, and for what.
fn say_restart(keys: &[String]) {
    let is_partly = |key: &String| PARTLY_FOLLOWED.iter().any(|start| key.starts_with(start));
    let (partly, wholly): (Vec<_>, Vec<_>) = keys.iter().cloned().partition(is_partly);
    let said = [
        ("counts for tools now, and for the rest after a restart", partly),
        ("needs a restart, and counts after it", wholly),
    ];
    for (what, keys) in said.iter().filter(|(_, keys)| !keys.is_empty()) {
        say(&format!("{what}: {}", keys.join(", ")));
    }
}

fn say_set(set: &SetServers) {
    for (what, names) in [("added", &set.added), ("removed", &set.removed)] {
        if !names.is_empty() {
            say(&format!("MCP servers {what}: {}", names.join(", ")));
        }
    }
    for (name, reason) in &set.errors {
        say(&format!("MCP server `{name}` cannot be used: {reason}"));
    }
}

/// Says something while everything else waits for Ctrl-C.
pub(super) fn say(text: &str) {
    // Standard error may be closed; there is nobody left to tell.
    let _ = writeln!(io::stderr(), "{}", escape::one_line(text, 2_000));
}
