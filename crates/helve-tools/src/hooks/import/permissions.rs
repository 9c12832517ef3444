//! The `permissions` of the same settings. They are no hooks and are not taken over, but whoever imports a
//! guard believes the rest to be guarded too; so they are named, with the rules that come closest.

use helve::permission::PermissionRule;
use serde_json::Value;

/// Most rules of one list that are looked at.
const RULES_MAX: usize = 200;
/// The longest rule that is put in Helve's words: a longer one could not be shown whole, and cut it guards
/// something else.
const RULE_CHARS_MAX: usize = 200;
/// Most patterns that one of theirs becomes because of its `/**/`.
const READINGS_MAX: usize = 4;
/// Places outside the project, which a rule here has no word for.
const ELSEWHERE: [&str; 2] = ["~", "//"];

/// What a settings file has for permissions.
#[derive(Debug, Default, PartialEq, serde::Serialize)]
pub struct Permissions {
    /// Rules that forbid, in Helve's words.
    pub deny: Vec<String>,
    /// Rules that ask, in Helve's words.
    pub ask: Vec<String>,
    /// Rules that forbid or ask and that Helve has no words for, as they stand.
    pub unlike: Vec<String>,
    /// How many allow. Each is for a person to want.
    pub allow: usize,
}

impl Permissions {
    pub(super) fn of(settings: &Value) -> Self {
        let listed = |name: &str| {
            let rules = settings["permissions"][name].as_array().into_iter().flatten();
            rules.filter_map(Value::as_str).take(RULES_MAX).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut found = Self { allow: listed("allow").len(), ..Self::default() };
        for (rules, into) in [(listed("deny"), &mut found.deny), (listed("ask"), &mut found.ask)] {
            for rule in rules {
                match alike(&rule) {
                    Some(alike) => into.extend(alike),
                    None => found.unlike.push(rule),
                }
            }
        }
        found
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The rules that come closest to one of Claude Code's.
fn alike(rule: &str) -> Option<Vec<String>> {
    let (tool, content) = match rule.trim().split_once('(') {
        Some((tool, rest)) => (tool, Some(rest.strip_suffix(')')?.trim())),
        None => (rule.trim(), None),
    };
    let content = content.filter(|content| !content.is_empty() && *content != "*");
    let tools: &[&str] = match tool {
        "Bash" => &["Bash"],
        "Read" => &["Read"],
        // Theirs is about every tool that changes files.
        "Edit" | "MultiEdit" => &["Edit", "Write"],
        "Write" => &["Write"],
        "Grep" => &["Grep"],
        "Glob" | "LS" => &["Glob"],
        "WebFetch" => &["WebFetch"],
        "WebSearch" => &["WebSearch"],
        server if server.starts_with("mcp__") && content.is_none() => {
            let all = server.matches("__").count() == 1;
            let rule = if all { format!("{server}__*") } else { server.to_owned() };
            return readable(rule).map(|rule| vec![rule]);
        }
        _ => return None,
    };
    let patterns = match (tools[0], content) {
        (_, None) => vec![None],
        ("Read" | "Edit" | "Write" | "Grep" | "Glob", Some(path)) => {
            paths(path)?.into_iter().map(Some).collect()
        }
        (_, Some(content)) => vec![Some(content.to_owned())],
    };
    let rules = tools.iter().flat_map(|tool| {
        patterns.iter().map(move |pattern| match pattern {
            Some(pattern) => format!("{tool}({pattern})"),
            None => (*tool).to_owned(),
        })
    });
    rules.map(readable).collect()
}

/// A path's pattern as rules here read it, where `*` is any text, slashes included. Theirs are those of
/// `.gitignore`: without a slash but at the end, at any depth; the name of a folder is all that is in it.
fn paths(path: &str) -> Option<Vec<String>> {
    if ELSEWHERE.iter().any(|prefix| path.starts_with(prefix)) || path.starts_with('!') {
        return None;
    }
    let (path, is_folder) = match path.strip_suffix('/') {
        Some(folder) => (folder, true),
        None => (path, false),
    };
    let within = path.strip_prefix("./").or_else(|| path.strip_prefix('/')).unwrap_or(path);
    let below = within.strip_prefix("**/");
    let anywhere = below.is_some() || !path.contains('/');
    let mut names = with_and_without(below.unwrap_or(within))?;
    if anywhere {
        let deeper: Vec<_> = names.iter().filter(|name| !name.starts_with('*')).collect();
        let deeper: Vec<_> = deeper.into_iter().map(|name| format!("*/{name}")).collect();
        names.extend(deeper);
    }
    let inside = |name: &String| (!name.ends_with('*')).then(|| format!("{name}/*"));
    let inside: Vec<_> = names.iter().filter_map(inside).collect();
    if is_folder {
        names.retain(|name| name.ends_with('*'));
    }
    names.extend(inside);
    Some(names)
}

/// A pattern for each way to read its `/**/`, which also stand for no folder at all. Nothing where those are too
/// many.
fn with_and_without(pattern: &str) -> Option<Vec<String>> {
    let mut parts = pattern.split("/**/").map(|part| part.replace("**", "*"));
    let mut patterns = vec![parts.next()?];
    for part in parts {
        let longer = |between: &str| {
            patterns.iter().map(|before| format!("{before}{between}{part}")).collect::<Vec<_>>()
        };
        patterns = [longer("/"), longer("/*/")].concat();
        if patterns.len() > READINGS_MAX {
            return None;
        }
    }
    Some(patterns)
}

fn readable(rule: String) -> Option<String> {
    (rule.chars().count() <= RULE_CHARS_MAX && rule.parse::<PermissionRule>().is_ok()).then_some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_in_the_words_of_this_side() {
        for (theirs, ours) in [
            ("Read(./.env)", &["Read(.env)", "Read(.env/*)"][..]),
            ("Read(.env)", &["Read(.env)", "Read(*/.env)", "Read(.env/*)", "Read(*/.env/*)"]),
            ("Read(secrets/)", &["Read(secrets/*)", "Read(*/secrets/*)"]),
            ("Read(/a/secrets/)", &["Read(a/secrets/*)"]),
            ("Read(**/secrets/**)", &["Read(secrets/*)", "Read(*/secrets/*)"]),
            ("Read(/config/*.json)", &["Read(config/*.json)", "Read(config/*.json/*)"]),
            ("Edit(docs/**)", &["Edit(docs/*)", "Write(docs/*)"]),
            ("Read(src/**/a*)", &["Read(src/a*)", "Read(src/*/a*)"]),
            ("Bash(curl:*)", &["Bash(curl:*)"]),
            ("Bash", &["Bash"]),
            ("WebFetch(domain:example.com)", &["WebFetch(domain:example.com)"]),
            ("mcp__memory", &["mcp__memory__*"]),
            ("mcp__memory__add", &["mcp__memory__add"]),
        ] {
            assert_eq!(alike(theirs).unwrap(), ours, "{theirs}");
        }
        let long = format!("Read({}*)", "x".repeat(RULE_CHARS_MAX));
        assert_eq!(alike(&long), None);
        for unlike in [
            "Read(a/**/b/**/c/**/d)",
            "Read(~/.ssh/**)",
            "Read(//etc/passwd)",
            "Agent(Explore)",
            "Read(",
            "mcp__a(b)",
        ] {
            assert_eq!(alike(unlike), None, "{unlike}");
        }
    }
}
