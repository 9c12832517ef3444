//! Merges the layers, and refuses what is wrong in any of them, all at once and with its place.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use helve::hidden::one_line;
use helve::json::escape_pointer;
use helve::{Layer, Schema};
use helve_mcp::trust::Verdict;
use helve_office::Office;
use helve_sandbox::Unwritable;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::asked::{self, AskedSettings};
use super::document::{Document, at};
use super::entry::{ToolEntry, is_tool_list, tool_entries};
use super::hooks::{self, BrokenHook, HookSection, hook_sections, is_hook};
use super::overrides::{self, Override};
use super::parts::{self, Problem, problems_of};
use super::servers::{self, BrokenServer};
use super::{Config, Origin, PolicyPath, Resource, adopted, find, policy, schema};
use crate::Remark;
use crate::error::HostError;
use crate::words::count;

/// What the layers are read from.
#[derive(Clone)]
pub struct Inputs {
    pub work_dir: PathBuf,
    /// `--config`: read this instead of the project's file.
    pub config: Option<PathBuf>,
    /// `--set`, in order.
    pub sets: Vec<String>,
    pub variables: Vec<(String, String)>,
    pub project: ProjectFile,
}

impl Inputs {
    /// The nearest project's file, and the variables of this process.
    pub fn of_process(work_dir: PathBuf) -> Self {
        // A variable that is not text cannot be one of ours.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { work_dir, config: None, sets: Vec::new(), variables, project: ProjectFile::default() }
    }
}

/// Which file is the project's, where `--config` names none.
#[derive(Clone, Default)]
pub enum ProjectFile {
    /// The nearest one.
    #[default]
    Nearest,
    /// This one, whatever else is found.
    Only(Option<PathBuf>),
}

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
    project_was_found: bool,
    merged: Value,
    origins: HashMap<String, Origin>,
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

/// Reads and merges all layers.
pub fn load(inputs: &Inputs) -> Result<Loaded, HostError> {
    // Compiling takes longer than all the rest, and where no value differs from its default there is no need.
    let schema: LazyCell<Schema> = LazyCell::new(schema::compiled);
    let documents = documents(inputs)?;
    let overrides = all_overrides(inputs, &schema)?;
    let wrong = check(&documents, &overrides, &schema)?;

    let mut merged = serde_json::to_value(Config::default()).expect("defaults are plain data");
    let mut origins = HashMap::new();
    let (mut tools, mut refused) = (Vec::new(), Vec::new());
    let (mut hooks, mut broken_hooks, mut broken_servers) = (Vec::new(), Vec::new(), BTreeMap::new());
    let (mut settings, mut in_use) = (AskedSettings::none(), AskedSettings::none());
    let project_was_found = inputs.config.is_none();
    for ((layer, document), wrong) in documents.iter().zip(&wrong) {
        let mut left_out = Vec::new();
        if *layer == Layer::Project && project_was_found {
            let sorted = asked::sort(document, &merged, &origins);
            settings = sorted.settings;
            (left_out, refused) = sorted.refused.into_iter().unzip();
        }
        let verdict = settings.verdict();
        let waits = verdict != Verdict::Trusted;
        in_use = settings.in_force(&verdict);
        servers::replace(document, &mut merged, &mut origins);
        servers::set_aside(document, wrong, &mut broken_servers);
        leaves(&document.value, String::new(), &mut |pointer, value| {
            let is_broken = wrong.keys().any(|part| parts::is_below(&pointer, part));
            let is_left_out = is_broken || left_out.contains(&pointer) || waits && settings.has(&pointer);
            if is_left_out || is_tool_list(&pointer) || is_hook(&pointer) {
                return;
            }
            overrides::put(&mut merged, &pointer, value.clone());
            origins.insert(pointer.clone(), document.origin(&pointer));
        });
        refused.extend(settings.remarks().filter(|_| waits));
        tools.extend(tool_entries(*layer, document, wrong));
        let (sound, broken) = hook_sections(*layer, document, wrong)?;
        hooks.extend(sound);
        broken_hooks.extend(broken);
    }
    let policy_files = policy::files(&documents, &overrides, inputs, &settings);
    for Override { pointer, value, origin } in overrides {
        overrides::put(&mut merged, &pointer, value);
        origins.insert(pointer, origin);
    }
    servers::untype(&mut merged, &mut origins, &mut broken_servers);
    let config = typed(&merged, &origins)?;
    check_waiting(&settings, &merged, &origins)?;
    check_together(&config, &origins)?;

    let file_of = |wanted: Layer| {
        documents.iter().find(|(layer, _)| *layer == wanted).map(|(_, document)| document.path.clone())
    };
    let project_file = file_of(Layer::Project);
    let journal_path = journal_path(&config, origins.get("/journal/path"), project_file.as_deref(), inputs)?;
    merged["journal"]["path"] = json!(journal_path);
    let mut remarks = unused_variables(inputs, &config, &tools, &hooks);
    remarks.append(&mut refused);
    remarks.extend(hooks::remarks(&hooks));
    remarks.extend(unknown_zone(&config, &origins));
    let user_file = file_of(Layer::Org);
    let work_dir = std::path::absolute(&inputs.work_dir).unwrap_or_else(|_| inputs.work_dir.clone());
    Ok(Loaded {
        config,
        tools,
        hooks,
        broken_hooks,
        broken_servers,
        user_file,
        project_file,
        work_dir,
        remarks,
        journal_path,
        policy_files,
        unwritable: Unwritable::default(),
        office: Arc::default(),
        in_use: Arc::new(in_use),
        settings,
        project_was_found,
        merged,
        origins,
    })
}

/// The typed whole. Its shape was checked before; here a value can still be wrong in itself, such
/// as a host that is none.
fn typed(merged: &Value, origins: &HashMap<String, Origin>) -> Result<Config, HostError> {
    serde_json::from_value(merged.clone()).map_err(|error| {
        let culprits = origins.iter().filter_map(|(pointer, origin)| {
            let mut alone = json!({});
            overrides::put(&mut alone, pointer, merged.pointer(pointer)?.clone());
            let why = serde_json::from_value::<Config>(alone).err()?;
            Some(format!("{}  `{}`: {why}", at(origin), dotted(pointer)))
        });
        let mut lines: Vec<_> = culprits.collect();
        lines.sort();
        if lines.is_empty() {
            lines.push(error.to_string());
        }
        HostError::usage(format!("the configuration has {}", count(lines.len(), "problem"))).details(lines)
    })
}

/// What waits must be right as well: trust changes what counts, not what can be read.
fn check_waiting(
    settings: &AskedSettings,
    merged: &Value,
    origins: &HashMap<String, Origin>,
) -> Result<(), HostError> {
    if settings.asked.is_empty() {
        return Ok(());
    }
    let (mut merged, mut origins) = (merged.clone(), origins.clone());
    for asked in &settings.asked {
        overrides::put(&mut merged, &asked.pointer, asked.value.clone());
        origins.insert(asked.pointer.clone(), asked.origin.clone());
    }
    typed(&merged, &origins).map(drop)
}

/// The files, the user's first.
fn documents(inputs: &Inputs) -> Result<Vec<(Layer, Arc<Document>)>, HostError> {
    let user = match find::user_file() {
        Some(file) if find::is_there(&file)? => Some(file),
        Some(_) | None => None,
    };
    let project = match (&inputs.config, &inputs.project) {
        (Some(file), _) => Some(inputs.work_dir.join(file)),
        (None, ProjectFile::Nearest) => find::project_file(&inputs.work_dir)?,
        (None, ProjectFile::Only(file)) => file.clone(),
    };
    let is_named = inputs.config.is_some();
    let project = project.filter(|file| is_named || Some(file) != user.as_ref());
    let mut documents = Vec::new();
    for (layer, file) in [(Layer::Org, user), (Layer::Project, project)] {
        if let Some(file) = file {
            documents.push((layer, Arc::new(Document::read(&file)?)));
        }
    }
    Ok(documents)
}

fn all_overrides(inputs: &Inputs, schema: &LazyCell<Schema>) -> Result<Vec<Override>, HostError> {
    let mut overrides = overrides::from_environment(inputs.variables.iter().cloned(), schema);
    for text in &inputs.sets {
        overrides.push(overrides::from_flag(text, schema)?);
    }
    match overrides.iter().find(|one| is_tool_list(&one.pointer) || is_hook(&one.pointer)) {
        Some(one) => {
            Err(HostError::usage(format!("{} cannot be set by {}", dotted(&one.pointer), one.origin))
                .hint("describe tools and hooks in helve.toml; `helve init` writes one"))
        }
        None => Ok(overrides),
    }
}

/// Variables that look like ours and are nobody's.
fn unused_variables(
    inputs: &Inputs,
    config: &Config,
    tools: &[ToolEntry],
    hooks: &[HookSection],
) -> Vec<Remark> {
    let is_used = |variable: &str| {
        let is_resource = |one: &Resource| matches!(one, Resource::Env(name) if name == variable);
        config.integrations.values().any(|one| one.env == variable)
            || config.resources.values().any(is_resource)
            || tools.iter().any(|entry| entry.value.to_string().contains(variable))
            || serde_json::to_string(&config.mcp).is_ok_and(|text| text.contains(variable))
            || serde_json::to_string(&config.telemetry).is_ok_and(|text| text.contains(variable))
            || hooks
                .iter()
                .any(|one| serde_json::to_string(&one.group).is_ok_and(|text| text.contains(variable)))
    };
    let unknown = inputs.variables.iter().map(|(variable, _)| variable.as_str());
    unknown
        .filter(|variable| overrides::is_stray(variable) && !is_used(variable))
        .map(|variable| Remark {
            found: format!("the environment variable `{variable}` sets nothing"),
            fix: match overrides::nearest_variable(variable) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => {
                    "`helve config keys` lists every key, and two underscores stand between levels".to_owned()
                }
            },
        })
        .collect()
}

/// A time zone that nobody knows, or not on this machine. Calls of other tools go on all the same.
fn unknown_zone(config: &Config, origins: &HashMap<String, Origin>) -> Option<Remark> {
    let name = config.office.time_zone.as_ref().filter(|name| TimeZone::get(name).is_err())?;
    let place =
        origins.get("/office/time_zone").map(|origin| format!("{}  ", at(origin))).unwrap_or_default();
    let name = one_line(name, 100);
    Some(Remark {
        found: format!("{place}there is no time zone `{name}`, and the system's counts"),
        fix: "set `office.time_zone` to one such as `Europe/Berlin` or `America/New_York`".to_owned(),
    })
}

/// Checks each layer by itself, so that every problem has a place. Gives what is wrong with parts of the
/// files, by the pointer of the part, each file in the order of `documents`.
fn check(
    documents: &[(Layer, Arc<Document>)],
    overrides: &[Override],
    schema: &LazyCell<Schema>,
) -> Result<Vec<BTreeMap<String, Vec<Problem>>>, HostError> {
    let judged: Vec<_> = documents.iter().map(|(_, document)| parts::judge(document, schema)).collect();
    let mut is_whole = judged.iter().all(|wrong| wrong.whole.is_empty());
    let mut of_overrides = Vec::new();
    for one in overrides {
        let mut overlay = json!({});
        overrides::put(&mut overlay, &one.pointer, one.value.clone());
        let errors = schema.validate(&overlay).err().unwrap_or_default();
        of_overrides.extend(errors.iter().map(|error| Problem::new(error, one.origin.clone(), schema)));
    }
    is_whole &= of_overrides.is_empty();
    if is_whole {
        return Ok(judged.into_iter().map(|wrong| wrong.parts).collect());
    }
    let of_files = documents.iter().flat_map(|(_, document)| problems_of(document, schema));
    let lines: Vec<_> = of_files.chain(of_overrides).map(|problem| problem.line()).collect();
    Err(HostError::usage(format!("the configuration has {}", count(lines.len(), "problem")))
        .details(lines)
        .hint("`helve config keys` lists every key"))
}

/// What no single value can be blamed for.
fn check_together(config: &Config, origins: &HashMap<String, Origin>) -> Result<(), HostError> {
    let useless =
        config.limits.calls.iter().enumerate().find_map(|(index, rule)| Some((index, rule.problem()?)));
    if let Some((index, problem)) = useless {
        let origin = origins.get("/limits/calls").cloned().unwrap_or(Origin::Default);
        return Err(HostError::usage("a rule on calls makes no sense")
            .detail(format!("{}  `limits.calls[{index}]`: {problem}", at(&origin))));
    }
    let execution = &config.execution;
    if execution.default_timeout_ms > execution.max_timeout_ms {
        let origin = |pointer: &str| origins.get(pointer).cloned().unwrap_or(Origin::Default);
        let line = |key: &str, value: u64| {
            format!("execution.{key} = {value}  ({})", at(&origin(&format!("/execution/{key}"))))
        };
        return Err(HostError::usage("the default timeout is longer than the longest one allowed")
            .detail(line("default_timeout_ms", execution.default_timeout_ms))
            .detail(line("max_timeout_ms", execution.max_timeout_ms)));
    }
    Ok(())
}

fn journal_path(
    config: &Config,
    origin: Option<&Origin>,
    project_file: Option<&Path>,
    inputs: &Inputs,
) -> Result<PathBuf, HostError> {
    if let Some(path) = &config.journal.path {
        let base = match origin {
            Some(Origin::File { path, .. }) => path.parent().unwrap_or(&inputs.work_dir),
            Some(Origin::Env { .. } | Origin::Flag { .. } | Origin::Default) | None => &inputs.work_dir,
        };
        return Ok(base.join(expand_home(path)));
    }
    match project_file {
        Some(file) => Ok(adopted::journal(file).unwrap_or_else(|| find::project_journal(&folder_of(file)))),
        None => find::user_journal().ok_or_else(|| {
            HostError::usage("there is no place for the journal: neither HOME nor XDG_STATE_HOME is set")
                .hint("name a file: `--set journal.path=/var/lib/helve/helve.db`")
        }),
    }
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).to_owned()
}

pub(super) fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) | (Err(_), _) => path.to_owned(),
    }
}

/// Visits everything but objects with fields. A list is one value.
pub(super) fn leaves<'v>(value: &'v Value, pointer: String, visit: &mut impl FnMut(String, &'v Value)) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                leaves(field, format!("{pointer}/{}", escape_pointer(key)), visit);
            }
        }
        other => visit(pointer, other),
    }
}

/// A pointer as people write keys: `tool.http[0].url`.
pub(super) fn dotted(pointer: &str) -> String {
    let mut key = String::new();
    for step in pointer.split('/').skip(1) {
        if step.parse::<usize>().is_ok() {
            key.push_str(&format!("[{step}]"));
            continue;
        }
        if !key.is_empty() {
            key.push('.');
        }
        key.push_str(&step.replace("~1", "/").replace("~0", "~"));
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(dir: &Path, file: &str, sets: &[&str], variables: &[(&str, &str)]) -> Inputs {
        std::fs::write(dir.join("helve.toml"), file).unwrap();
        Inputs {
            work_dir: dir.to_owned(),
            config: Some("helve.toml".into()),
            sets: sets.iter().map(|s| (*s).to_owned()).collect(),
            variables: variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            project: ProjectFile::default(),
        }
    }

    fn refusal(file: &str, sets: &[&str], variables: &[(&str, &str)]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let failure = load(&inputs(dir.path(), file, sets, variables)).err().expect("refused");
        failure.lines().join("\n").replace(&dir.path().display().to_string(), "DIR")
    }

    #[test]
    fn later_layers_win_and_each_value_knows_its_origin() {
        let dir = tempfile::tempdir().unwrap();
        let file =
            "[execution]\nmax_timeout_ms = 60000\ndefault_timeout_ms = 1000\n[registry]\ntools_max = 5\n";
        let sets = ["execution.max_timeout_ms=70000"];
        let variables = [("HELVE_EXECUTION__MAX_TIMEOUT_MS", "65000"), ("HELVE_REGISTRY__TOOLS_MAX", "7")];
        let loaded = load(&inputs(dir.path(), file, &sets, &variables)).unwrap();
        assert_eq!(loaded.config.execution.max_timeout_ms, 70_000);
        assert_eq!(loaded.config.registry.tools_max, 7);
        assert_eq!(loaded.config.execution.default_timeout_ms, 1_000);
        let origin = |pointer: &str| loaded.origin(pointer).to_string();
        assert_eq!(origin("/execution/max_timeout_ms"), "--set execution.max_timeout_ms=70000");
        assert_eq!(origin("/registry/tools_max"), "HELVE_REGISTRY__TOOLS_MAX");
        assert!(origin("/execution/default_timeout_ms").ends_with("helve.toml:3"));
        assert_eq!(origin("/repair/enabled"), "default");
    }

    #[test]
    fn every_problem_is_listed_with_its_place() {
        let file = "[execution]\nmax_timeout = 1\n[registry]\ntools_max = \"many\"\n[joural]\npath = 'x'\n";
        let text = refusal(file, &[], &[]);
        insta::assert_snapshot!(text, @r#"
        DIR/helve.toml:2:1  `execution.max_timeout` is not a key; did you mean `max_timeout_ms`?
        DIR/helve.toml:4:1  `registry.tools_max`: expected integer, received "many"
        DIR/helve.toml:5:2  `joural` is not a key; did you mean `journal`?
        "#);
    }

    #[test]
    fn wrong_flags_and_variables_are_named() {
        let text = refusal("", &["repair.enabled=maybe"], &[("HELVE_REGISTRY__TOOL_MAX", "1")]);
        insta::assert_snapshot!(text, @r#"
        HELVE_REGISTRY__TOOL_MAX  `registry.tool_max` is not a key; did you mean `tools_max`?
        --set repair.enabled=maybe  `repair.enabled`: expected boolean, received "maybe"
        "#);
    }

    #[test]
    fn a_variable_that_sets_nothing_is_remarked() {
        let dir = tempfile::tempdir().unwrap();
        let file = "[integrations.acme]\nenv = 'HELVE_ACME'\n";
        let variables = [
            ("HELVE_LOG", "off"),
            ("HELVE_CALL_ID", "x"),
            ("HELVE_ACME", "x"),
            ("HELVE_EXECUTION_MAX_TIMEOUT_MS", "5"),
            ("HELVE_ZZZ", "x"),
            ("OTHER", "x"),
        ];
        let loaded = load(&inputs(dir.path(), file, &[], &variables)).unwrap();
        let said: Vec<_> = loaded.remarks.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(said.join("\n"), @"
        the environment variable `HELVE_EXECUTION_MAX_TIMEOUT_MS` sets nothing; did you mean `HELVE_EXECUTION__MAX_TIMEOUT_MS`?
        the environment variable `HELVE_ZZZ` sets nothing; `helve config keys` lists every key, and two underscores stand between levels
        ");
    }

    #[test]
    fn rules_on_calls_are_read_and_bad_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = "[[limits.calls]]\ntool = 'web/*'\nby = 'caller'\nrate = '100/1m'\nburst = 20\n\
                    [[limits.calls]]\ntool = '*'\nby = ['session', 'tool']\nconcurrency = 4\n\
                    [breaker]\ncool_down_ms = 5000\n";
        let settings = crate::wire::settings(&load(&inputs(dir.path(), file, &[], &[])).unwrap().config);
        let bursts: Vec<_> = settings.limits.iter().map(|rule| rule.burst.map(|calls| calls.get())).collect();
        assert_eq!(bursts, [Some(20), None]);
        assert_eq!(settings.breaker.cool_down.as_secs(), 5);

        let refused = |rule: &str| refusal(&format!("[[limits.calls]]\ntool = '*'\n{rule}\n"), &[], &[]);
        insta::assert_snapshot!(refused("burst = 3"), @"DIR/helve.toml:1:10  `limits.calls[0]`: `burst` belongs to a `rate`, and there is none");
        insta::assert_snapshot!(refused("by = 'colour'\nconcurrency = 0\nat_once = 1"), @r#"
        DIR/helve.toml:3:1  `limits.calls[0].by`: expected one of "tool", "caller", "session" or array, received "colour"
        DIR/helve.toml:4:1  `limits.calls[0].concurrency`: expected a number of at least 1, received 0
        DIR/helve.toml:5:1  `limits.calls[0].at_once` is not a key; known here: tool, by, rate, burst, concurrency, cost
        "#);
        insta::assert_snapshot!(refused("rate = '1/3d'"), @"DIR/helve.toml:1:10  `limits.calls`: `1/3d` is not a rate: write a count and a time, such as `100/1m`, `5/s` or `1000/1h`; the time is from a millisecond to a day");
    }

    #[test]
    fn a_relative_journal_path_starts_at_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let loaded = load(&inputs(dir.path(), "[journal]\npath = 'calls.db'\n", &[], &[])).unwrap();
        assert_eq!(loaded.journal_path, dir.path().join("calls.db"));
        let loaded = load(&inputs(dir.path(), "", &[], &[])).unwrap();
        assert_eq!(loaded.journal_path, dir.path().join(".helve/helve.db"));
    }
}
