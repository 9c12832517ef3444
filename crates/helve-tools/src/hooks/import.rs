//! Hooks from the settings of Claude Code.

mod permissions;

use std::collections::BTreeMap;
use std::path::PathBuf;

use helve::hook::HookEvent;
use helve::json::{JsonLimits, parse};
use serde_json::{Map, Value};

use super::command::is_found;
use super::config::{HookConfig, HookGroup, HookKind};
use super::needs::{Needs, needs};
pub use permissions::Permissions;

/// What Claude Code reads a hook's line with. Written out, since a guard in bash that another shell reads
/// may let everything through: `[[` is a program that is not found, and the line ends well.
const SHELL: &str = "bash";
/// What a variable's name follows in a header of ours.
const OUR_REFERENCE: &str = "${env:";
/// Longest time for a hook, in seconds.
const TIMEOUT_S_MAX: u64 = 86_400;

/// What a settings file has for hooks.
#[derive(Debug, Default, PartialEq)]
pub struct Imported {
    /// The hooks, in the file's order within each event.
    pub groups: Vec<(HookEvent, HookGroup)>,
    /// What could not be taken over, and why.
    pub left_out: Vec<String>,
    /// The permissions next to them, which are not taken over.
    pub permissions: Permissions,
}

/// Reads the hooks of a `settings.json`.
pub fn import(settings: &[u8]) -> Result<Imported, String> {
    let text = settings.strip_prefix(b"\xef\xbb\xbf").unwrap_or(settings);
    let settings = parse(text, JsonLimits::default()).map_err(|error| error.to_string())?;
    let mut imported = Imported { permissions: Permissions::of(&settings), ..Imported::default() };
    if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
        imported.left_out.push("`disableAllHooks`: here hooks are on once they are written".to_owned());
    }
    let Some(hooks) = settings.get("hooks") else { return Ok(imported) };
    let events = hooks.as_object().ok_or("`hooks` is no object")?;
    for (name, groups) in events {
        let groups = groups.as_array().ok_or_else(|| format!("`hooks.{name}` is no list"))?;
        let Ok(event) = name.parse::<HookEvent>() else {
            imported.left_out.push(format!("{name}: no event has such a name"));
            continue;
        };
        for (index, entry) in groups.iter().enumerate() {
            imported.group(&event, entry, &format!("{name}[{index}]"));
        }
    }
    Ok(imported)
}

impl Imported {
    /// Shells that hooks need and that are not where commands look for programs.
    pub fn shells_missing(&self) -> Vec<PathBuf> {
        let hooks = self.groups.iter().flat_map(|(_, group)| &group.hooks);
        let mut missing: Vec<_> = hooks.filter_map(|hook| hook.shell.clone()).collect();
        missing.retain(|shell| !is_found(shell));
        missing.sort();
        missing.dedup();
        missing
    }

    fn group(&mut self, event: &HookEvent, entry: &Value, at: &str) {
        let Some(hooks) = entry.get("hooks").and_then(Value::as_array) else {
            self.left_out.push(format!("{at}: it has no list of `hooks`"));
            return;
        };
        let known = ["matcher", "hooks", "timeout", "onFailure"];
        let unknown = entry.as_object().into_iter().flat_map(Map::keys);
        let unknown = unknown.filter(|name| !known.contains(&name.as_str()));
        self.left_out.extend(unknown.map(|name| left_out(at, name)));
        let matcher = entry.get("matcher").and_then(Value::as_str).filter(|text| !text.is_empty());
        let on_failure = entry.get("onFailure").and_then(|word| serde_json::from_value(word.clone()).ok());
        let mut group = HookGroup {
            matcher: matcher.map(str::to_owned),
            timeout: entry.get("timeout").and_then(seconds),
            on_failure,
            ..HookGroup::default()
        };
        for (index, hook) in hooks.iter().enumerate() {
            let at = format!("{at}.hooks[{index}]");
            match self.hook(event, hook, &at) {
                Ok(config) => group.hooks.push(config),
                Err(why) => self.left_out.push(format!("{at}: {why}")),
            }
        }
        if !group.hooks.is_empty() {
            self.groups.push((event.clone(), group));
        }
    }

    fn hook(&mut self, event: &HookEvent, hook: &Value, at: &str) -> Result<HookConfig, String> {
        let fields = hook.as_object().ok_or("it is no object")?;
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let mut config = HookConfig {
            timeout: fields.get("timeout").and_then(seconds),
            in_background: fields.get("async") == Some(&Value::Bool(true)),
            ..HookConfig::default()
        };
        let known: &[&str] = match text("type").as_deref() {
            Some("command") => {
                config.command = text("command");
                config.args = fields.get("args").map(words).transpose()?;
                let shell = || text("shell").unwrap_or_else(|| SHELL.to_owned());
                config.shell = config.args.is_none().then(|| PathBuf::from(shell()));
                let line =
                    [config.command.clone().into_iter().collect(), config.args.clone().unwrap_or_default()];
                let line = line.concat().join(" ");
                // It asks the very hooks that it would become one of.
                if line.contains("helve hook fire") {
                    return Err("it asks Helve's own hooks, which are in force here already".to_owned());
                }
                let Needs { read, write } = needs(event, &line);
                (config.reach.read, config.reach.write) = (read, write);
                &["type", "timeout", "async", "command", "args", "shell"]
            }
            Some("http") => {
                config.kind = HookKind::Http;
                config.url = text("url");
                config.headers = self.headers(fields, at);
                &["type", "timeout", "async", "url", "headers", "allowedEnvVars"]
            }
            Some("mcp_tool") => {
                config.kind = HookKind::McpTool;
                (config.server, config.tool) = (text("server"), text("tool"));
                config.input = fields.get("input").and_then(Value::as_object).cloned();
                &["type", "timeout", "async", "server", "tool", "input"]
            }
            Some(other @ ("prompt" | "agent")) => {
                return Err(format!("`{other}` asks a model, which Helve has not"));
            }
            Some(other) => return Err(format!("there is no type `{other}`")),
            None => return Err("it has no `type`".to_owned()),
        };
        let group = HookGroup { hooks: vec![config.clone()], ..HookGroup::default() };
        if let Some(problem) = group.problems().first() {
            return Err(format!(
                "{}: {}",
                problem.at.rsplit('/').next().unwrap_or_default(),
                problem.message
            ));
        }
        let unknown =
            fields.keys().filter(|name| !known.contains(&name.as_str()) && *name != "statusMessage");
        self.left_out.extend(unknown.map(|name| left_out(at, name)));
        Ok(config)
    }

    /// The headers of a request. One that would carry a variable which the settings do not let out is left out.
    fn headers(&mut self, fields: &Map<String, Value>, at: &str) -> BTreeMap<String, String> {
        let allowed = fields.get("allowedEnvVars").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let may_send = |name: &str| allowed.iter().any(|allowed| allowed == name);
        let mut headers = BTreeMap::new();
        for (name, value) in fields.get("headers").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().ok_or_else(|| "it is no text".to_owned());
            match value.and_then(|value| referring(value, &may_send)) {
                Ok(value) => drop(headers.insert(name.clone(), value)),
                Err(why) => self.left_out.push(format!("{at}.headers.{name}: {why}")),
            }
        }
        headers
    }
}

fn left_out(at: &str, field: &str) -> String {
    match field {
        "if" => format!("{at}.if: the hook runs for every call that its matcher fits"),
        field => format!("{at}.{field}"),
    }
}

fn seconds(value: &Value) -> Option<u64> {
    let seconds = value.as_f64().filter(|seconds| *seconds > 0.0)?.ceil();
    Some(if seconds >= TIMEOUT_S_MAX as f64 { TIMEOUT_S_MAX } else { (seconds as u64).max(1) })
}

fn words(list: &Value) -> Result<Vec<String>, String> {
    let words = list.as_array().map(|words| words.iter().map(|word| word.as_str().map(str::to_owned)));
    words.and_then(Iterator::collect).ok_or_else(|| "`args` is no list of texts".to_owned())
}

/// `$NAME` and `${NAME}` become `${env:NAME}`, for the variables that may be sent. Fails with words of what may not.
fn referring(value: &str, may_send: &dyn Fn(&str) -> bool) -> Result<String, String> {
    if value.contains(OUR_REFERENCE) {
        return Err(format!("`{OUR_REFERENCE}` would stand for a variable here, and does not there"));
    }
    let mut written = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('$') {
        let braced = after.strip_prefix('{');
        let name_from = braced.unwrap_or(after);
        let length = name_from.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let (name, after_name) = name_from.split_at(length);
        let end = if braced.is_some() { after_name.strip_prefix('}') } else { Some(after_name) };
        written.push_str(before);
        match end {
            Some(_) if !name.is_empty() && !may_send(name) => {
                return Err(format!("`{name}` is not in `allowedEnvVars`"));
            }
            Some(end) if !name.is_empty() => {
                written.push_str(&format!("{OUR_REFERENCE}{name}}}"));
                rest = end;
            }
            _ => {
                written.push('$');
                rest = after;
            }
        }
    }
    written.push_str(rest);
    Ok(written)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_become_hooks_and_what_does_not_is_said() {
        let settings = json!({
            "permissions": { "allow": ["Bash(ls)"] },
            "hooks": {
                "PreToolUse": [
                    { "matcher": "Bash", "hooks": [
                        { "type": "command", "command": "~/.claude/hooks/check.sh", "timeout": 5, "if": "Bash(git *)",
                          "statusMessage": "checking" },
                        { "type": "prompt", "prompt": "Is this fine?" },
                        { "type": "http", "url": "https://example.com/", "headers": { "Authorization": "Bearer $TOKEN" },
                          "allowedEnvVars": ["TOKEN"] },
                    ] },
                    { "matcher": "Write" },
                ],
                "Stop": [{ "hooks": [{ "type": "command", "command": "say done", "async": true, "once": true }] }],
                "TeammateIdle": [{ "hooks": [{ "type": "mcp_tool", "server": "memory", "tool": "note", "input": { "a": "${cwd}" } }] }],
            },
        });
        let imported = import(settings.to_string().as_bytes()).unwrap();
        let events: Vec<_> = imported.groups.iter().map(|(event, _)| event.as_str()).collect();
        assert_eq!(events, ["PreToolUse", "Stop", "TeammateIdle"]);
        let bash = &imported.groups[0].1;
        assert_eq!((bash.matcher.as_deref(), bash.hooks.len()), (Some("Bash"), 2));
        assert_eq!(
            (bash.hooks[0].timeout, &bash.hooks[0].reach.read),
            (Some(5), &vec![PathBuf::from("~/.claude/hooks")])
        );
        assert_eq!(bash.hooks[0].shell, Some(PathBuf::from("bash")));
        assert_eq!(imported.permissions, Permissions { allow: 1, ..Permissions::default() });
        assert_eq!(bash.hooks[1].headers["Authorization"], "Bearer ${env:TOKEN}");
        assert!(imported.groups[1].1.hooks[0].in_background);
        assert_eq!(imported.groups[2].1.hooks[0].tool_name(), "memory/note");
        assert_eq!(imported.left_out.len(), 4, "{:?}", imported.left_out);
        for (line, expected) in imported.left_out.iter().zip([".if", "asks a model", "no list", ".once"]) {
            assert!(line.contains(expected), "{line}");
        }
    }

    #[test]
    fn a_hook_that_asks_helve_is_not_asked_by_helve() {
        let command = json!({ "type": "command", "command": "helve hook fire PreToolUse --input -" });
        let settings = json!({ "hooks": { "PreToolUse": [{ "matcher": "*", "hooks": [command] }] } });
        let imported = import(settings.to_string().as_bytes()).unwrap();
        assert!(imported.groups.is_empty());
        assert!(imported.left_out[0].contains("Helve's own hooks"), "{:?}", imported.left_out);
    }

    #[test]
    fn broken_settings_are_refused() {
        for bad in ["", "[", r#"{"hooks": []}"#, r#"{"hooks": {"Stop": {}}}"#, r#"{"a": 1, "a": 2}"#] {
            assert!(import(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(import(b"{}"), Ok(Imported::default()));
    }

    #[test]
    fn references_in_headers_are_rewritten() {
        for (before, after) in [
            ("Bearer $TOKEN", "Bearer ${env:TOKEN}"),
            ("${A}-${B}", "${env:A}-${env:B}"),
            ("costs $5", "costs ${env:5}"),
            ("$ and ${", "$ and ${"),
        ] {
            assert_eq!(referring(before, &|_| true).as_deref(), Ok(after));
        }
    }

    /// There a variable is filled in only where `allowedEnvVars` names it.
    #[test]
    fn no_variable_is_sent_that_the_settings_do_not_let_out() {
        let headers = json!({ "X-A": "$KEY", "X-B": "Bearer ${TOKEN}", "X-C": "${TOKEN}${KEY}", "X-D": "plain",
            "X-E": "${env:KEY}", "X-F": 5 });
        for (allowed, kept) in [
            (json!(["TOKEN"]), &["X-B", "X-D"][..]),
            (json!(["TOKEN", "KEY"]), &["X-A", "X-B", "X-C", "X-D"]),
            (json!([]), &["X-D"]),
            (json!(null), &["X-D"]),
            (json!("KEY"), &["X-D"]),
        ] {
            let hook = json!({ "type": "http", "url": "https://example.com/", "headers": headers,
                "allowedEnvVars": allowed });
            let settings = json!({ "hooks": { "Stop": [{ "hooks": [hook] }] } });
            let imported = import(settings.to_string().as_bytes()).unwrap();
            let written = &imported.groups[0].1.hooks[0].headers;
            assert_eq!(written.keys().collect::<Vec<_>>(), kept, "{allowed}");
            assert_eq!(imported.left_out.len(), 6 - kept.len(), "{:?}", imported.left_out);
            assert!(imported.left_out.iter().all(|line| line.contains(".headers.X-")));
        }
    }

    #[test]
    fn arguments_are_taken_whole_or_not_at_all() {
        let hook = json!({ "type": "command", "command": "bash", "args": ["-c", 5] });
        let settings = json!({ "hooks": { "Stop": [{ "hooks": [hook] }] } });
        let imported = import(settings.to_string().as_bytes()).unwrap();
        assert!(imported.groups.is_empty() && imported.left_out[0].contains("`args`"), "{imported:?}");
    }
}
