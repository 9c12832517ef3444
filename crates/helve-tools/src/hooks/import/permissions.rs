//! The `permissions` of the same settings. They are no hooks and are not taken over, but whoever imports a
//! guard believes the rest to be guarded too; so they are named, with the rules that come closest.

use helve::permission::PermissionRule;
use serde_json::Value;

/// Most rules of one list that are looked at.
const RULES_MAX: usize = 200;
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

/// A path's pattern as rules here read it. Theirs are those of `.gitignore`: without a slash, at any depth.
fn paths(path: &str) -> Option<Vec<String>> {
    if ELSEWHERE.iter().any(|prefix| path.starts_with(prefix)) || path.starts_with('!') {
        return None;
    }
    let within = path.strip_prefix("./").or_else(|| path.strip_prefix('/')).unwrap_or(path);
    let below = within.strip_prefix("**/");
    let anywhere = below.is_some() || !path.contains('/');
    let name = below.unwrap_or(within).replace("**", "*");
    Some(match anywhere && !name.starts_with('*') {
        true => vec![name.clone(), format!("*/{name}")],
        false => vec![name],
    })
}

fn readable(rule: String) -> Option<String> {
    rule.parse::<PermissionRule>().is_ok().then_some(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_in_the_words_of_this_side() {
        for (theirs, ours) in [
            ("Read(./.env)", &["Read(.env)"][..]),
            ("Read(.env)", &["Read(.env)", "Read(*/.env)"]),
            ("Read(**/secrets/**)", &["Read(secrets/*)", "Read(*/secrets/*)"]),
            ("Read(/config/*.json)", &["Read(config/*.json)"]),
            ("Edit(docs/**)", &["Edit(docs/*)", "Write(docs/*)"]),
            ("Bash(curl:*)", &["Bash(curl:*)"]),
            ("Bash", &["Bash"]),
            ("WebFetch(domain:example.com)", &["WebFetch(domain:example.com)"]),
            ("mcp__memory", &["mcp__memory__*"]),
            ("mcp__memory__add", &["mcp__memory__add"]),
        ] {
            assert_eq!(alike(theirs).unwrap(), ours, "{theirs}");
        }
        for unlike in ["Read(~/.ssh/**)", "Read(//etc/passwd)", "Agent(Explore)", "Read(", "mcp__a(b)"] {
            assert_eq!(alike(unlike), None, "{unlike}");
        }
    }
}
