//! Merges the layers, and refuses what is wrong in any of them, all at once and with its place.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::hidden::one_line;
use helve::{Layer, Schema};
use helve_mcp::trust::Verdict;
use helve_sandbox::Unwritable;
use jiff::tz::TimeZone;
use serde_json::json;

use super::asked::{self, AskedSettings};
use super::check::{check, check_together, check_waiting, typed};
use super::document::at;
use super::entry::{ToolEntry, is_tool_list, tool_entries};
use super::hooks::{self, HookSection, hook_sections, is_hook};
use super::inputs::{Inputs, all_overrides, documents};
use super::loaded::Loaded;
use super::overrides::{self, Override};
use super::pointer::leaves;
use super::{Config, Origin, Resource, adopted, find, parts, policy, schema, servers};
use crate::Remark;
use crate::error::HostError;

/// Reads and merges all layers.
pub fn load(inputs: &Inputs) -> Result<Loaded, HostError> {
    // Compiling takes longer than all the rest, and where no value differs from its default there is no need.
    let schema: LazyCell<Schema> = LazyCell::new(schema::compiled);
    let documents = documents(inputs)?;
    let overrides = all_overrides(inputs, &schema)?;
    let wrong = check(&documents, &overrides, &schema)?;

    let mut merged = serde_json::to_value(Config::default()).expect("defaults are plain data");
    let mut origins = HashMap::new();
    let (mut tools, mut refused, mut set_aside) = (Vec::new(), Vec::new(), Vec::new());
    let (mut hooks, mut broken_hooks, mut broken_servers) = (Vec::new(), Vec::new(), BTreeMap::new());
    let (mut settings, mut in_use) = (AskedSettings::none(), AskedSettings::none());
    let project_was_found = inputs.config.is_none();
    for ((layer, document), wrong) in documents.iter().zip(&wrong) {
        let mut left_out = Vec::new();
        if *layer == Layer::Project && project_was_found {
            let sorted = asked::sort(document, wrong, &merged, &origins);
            settings = sorted.settings;
            (left_out, refused) = sorted.refused.into_iter().unzip();
        }
        let verdict = settings.verdict();
        let waits = verdict != Verdict::Trusted;
        in_use = settings.in_force(&verdict);
        servers::replace(document, &mut merged, &mut origins);
        servers::set_aside(document, wrong, &mut broken_servers);
        set_aside.extend(parts::set_aside(wrong));
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
    if let Some(url) = &config.store.url {
        merged["store"]["url"] = json!(super::store::shown(url));
    }
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
        set_aside,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ProjectFile;

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
