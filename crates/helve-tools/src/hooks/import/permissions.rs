//! The `permissions` of the same settings. They are no hooks and are not imported, but a person who imports a
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

/// What stands for something else in a pattern of `.gitignore`, or in a rule here.
const MEANS_MORE: [char; 5] = ['[', ']', '\\', '=', ':'];

/// What a settings file has for permissions.
#[derive(Debug, Default, PartialEq, serde::Serialize)]
pub struct Permissions {
    /// Rules that forbid, in Helve's words.
    pub deny: Vec<String>,
    /// Rules that ask, in Helve's words.
    pub ask: Vec<String>,
    /// Rules that forbid or ask and that Helve has no words for, as they stand.
    pub unlike: Vec<String>,
    /// How many more forbid or ask, at which nobody has looked.
    pub beyond: usize,
    /// How many allow. Each is for a person to want.
    pub allow: usize,
}

impl Permissions {
    pub(super) fn of(settings: &Value) -> Self {
        let listed = |name: &str| settings["permissions"][name].as_array().map_or(&[][..], Vec::as_slice);
        let mut found = Self { allow: listed("allow").len(), ..Self::default() };
        for (rules, into) in [(listed("deny"), &mut found.deny), (listed("ask"), &mut found.ask)] {
            for rule in rules.iter().take(RULES_MAX) {
                match rule.as_str().and_then(alike) {
                    Some(alike) => into.extend(alike),
                    None => found.unlike.push(rule.as_str().map_or_else(|| rule.to_string(), str::to_owned)),
                }
            }
            found.beyond += rules.len().saturating_sub(RULES_MAX);
        }
        found
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What to know of the rules that come closest: where they guard less than they seem to.
    pub fn remarks(&self) -> Vec<&'static str> {
        let has = |start: &str| self.deny.iter().chain(&self.ask).any(|rule| rule.starts_with(start));
        let commands = "a rule about commands is no fence: `/usr/bin/curl`, `sh -c` and other languages pass it; \
            `helve rules ask Bash` shows you every call, and the sandbox says what code may reach";
        let folders = "a search or a list of a folder above still shows what is in a denied folder; what must \
            not be seen belongs outside of `files.roots`";
        [("Bash(", commands), ("Grep(", folders)]
            .into_iter()
            .filter_map(|(start, remark)| has(start).then_some(remark))
            .collect()
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
        // Theirs is about every tool that reads files.
        "Read" => &["Read", "Grep", "Glob"],
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
        // Here it would be about an argument of that name.
        (_, Some(content)) if content.contains('=') && !content.ends_with(":*") => return None,
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
    if ELSEWHERE.iter().any(|prefix| path.starts_with(prefix))
        || path.starts_with('!')
        || path.contains(MEANS_MORE)
    {
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
            ("Write(./.env)", &["Write(.env)", "Write(.env/*)"][..]),
            ("Write(.env)", &["Write(.env)", "Write(*/.env)", "Write(.env/*)", "Write(*/.env/*)"]),
            ("Write(secrets/)", &["Write(secrets/*)", "Write(*/secrets/*)"]),
            ("Write(/a/secrets/)", &["Write(a/secrets/*)"]),
            ("Write(**/secrets/**)", &["Write(secrets/*)", "Write(*/secrets/*)"]),
            ("Write(/config/*.json)", &["Write(config/*.json)", "Write(config/*.json/*)"]),
            ("Edit(docs/**)", &["Edit(docs/*)", "Write(docs/*)"]),
            ("Write(src/**/a*)", &["Write(src/a*)", "Write(src/*/a*)"]),
            ("Read(docs/**)", &["Read(docs/*)", "Grep(docs/*)", "Glob(docs/*)"]),
            ("Read", &["Read", "Grep", "Glob"]),
            ("Bash(A=1 make:*)", &["Bash(A=1 make:*)"]),
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
            "Read(*.p[ek]m)",
            r"Read(a\*b)",
            "Read(key=*.pem)",
            "Read(a:*)",
            "Bash(A=1 make *)",
            "WebFetch(domain:*.example.com)",
        ] {
            assert_eq!(alike(unlike), None, "{unlike}");
        }
    }

    #[test]
    fn none_is_lost() {
        let many: Vec<_> = (0..RULES_MAX + 7).map(|index| format!("Write(a{index}/**)")).collect();
        let settings =
            serde_json::json!({ "permissions": { "deny": many, "ask": ["Bash(curl:*)", 5], "allow": many } });
        let found = Permissions::of(&settings);
        assert_eq!((found.beyond, found.allow, found.unlike), (7, RULES_MAX + 7, vec!["5".to_owned()]));
    }

    #[test]
    fn what_they_do_not_guard_is_said() {
        let of = |rule: &str| {
            Permissions::of(&serde_json::json!({ "permissions": { "deny": [rule] } })).remarks().join("\n")
        };
        assert!(of("Bash(curl:*)").contains("no fence"));
        assert!(of("Read(secrets/**)").contains("files.roots"));
        assert_eq!(of("Bash") + &of("Write(a/**)"), "");
    }
}
