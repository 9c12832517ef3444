//! One everyday rule: `tool`, or `tool(what its arguments look like)`.
//!
//! A rule that allows must not be talked around, and one that forbids must not be slipped past. So
//! they do not read arguments alike: see [`PermissionRule::fits`].

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RuleValue;
use crate::definition::Category;
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
        Ok(Self { tool: tool.to_owned(), content: content.map(str::to_owned), looks: Looks::read(content) })
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
    /// the rule shows. One that asks or denies fits as soon as something does: a path is read in its
    /// shortest form too, one text of several is enough, and without a main argument every text counts.
    pub fn fits(&self, stance: Stance, tool: &Tool, arguments: &Value) -> bool {
        let lenient = stance == Stance::Allow;
        match &self.looks {
            Looks::Any => true,
            Looks::Named(fields) => fields.iter().all(|(field, pattern)| {
                let pointer = format!("/{}", field.replace('.', "/"));
                let found = arguments.pointer(&pointer);
                found.is_some_and(|value| like(value, lenient, tool, &|text| matches(pattern, text)))
            }),
            Looks::Main(pattern) => self.main(lenient, tool, arguments, &|text| matches(pattern, text)),
            Looks::Prefix(prefix) => self.main(lenient, tool, arguments, &|text| {
                text.strip_prefix(prefix.as_str())
                    .is_some_and(|rest| !lenient || rest.is_empty() || rest.starts_with(' '))
            }),
            Looks::Domain(domain) => self.main(lenient, tool, arguments, &|text| {
                host_of(text).is_some_and(|host| {
                    host == *domain
                        || host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
                })
            }),
        }
    }

    fn main(&self, lenient: bool, tool: &Tool, arguments: &Value, fits: &dyn Fn(&str) -> bool) -> bool {
        match main_argument(tool, arguments) {
            Some(value) => like(value, lenient, tool, fits),
            None if lenient => false,
            None => arguments
                .as_object()
                .is_some_and(|all| all.values().any(|value| like(value, false, tool, fits))),
        }
    }
}

impl Looks {
    fn read(content: Option<&str>) -> Self {
        let content = content.map(str::trim).unwrap_or_default();
        if content.is_empty() || content == "*" || content == "**" {
            return Self::Any;
        }
        if let Some(domain) = content.strip_prefix("domain:") {
            return Self::Domain(domain.trim().trim_end_matches('.').to_lowercase());
        }
        if let Some(prefix) = content.strip_suffix(":*") {
            return Self::Prefix(prefix.to_owned());
        }
        let named: Option<Vec<_>> = content.split(',').map(named).collect();
        match named {
            Some(fields) => Self::Named(fields),
            // A leading `./` or `/` of Claude Code's path rules means the project's folder.
            None => Self::Main(content.strip_prefix("./").unwrap_or(content).replace("**", "*")),
        }
    }
}

fn named(text: &str) -> Option<(String, String)> {
    let (field, pattern) = text.trim().split_once('=')?;
    let is_field = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (!field.is_empty() && field.chars().all(is_field)).then(|| (field.to_owned(), pattern.to_owned()))
}

/// The argument that says most of what a call does.
fn main_argument<'v>(tool: &Tool, arguments: &'v Value) -> Option<&'v Value> {
    const USUAL: [&str; 8] = ["path", "file_path", "command", "code", "url", "query", "paths", "pattern"];
    let properties = tool.input().json().get("properties")?;
    if let Some(usual) = USUAL.iter().find(|name| properties.get(**name).is_some()) {
        return arguments.get(*usual);
    }
    let required = tool.input().json().get("required")?.as_array()?;
    let is_text = |name: &&str| properties.get(*name).is_some_and(|schema| schema["type"] == "string");
    let mut texts = required.iter().filter_map(Value::as_str).filter(is_text);
    match (texts.next(), texts.next()) {
        (Some(sole), None) => arguments.get(sole),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

fn like(value: &Value, lenient: bool, tool: &Tool, fits: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) if text.len() > TEXT_BYTES_MAX => !lenient,
        Value::String(text) if lenient => is_plain(text, tool) && fits(text),
        Value::String(text) => fits(text) || shortest(text).is_some_and(|path| fits(&path)),
        Value::Number(number) => fits(&number.to_string()),
        Value::Bool(truth) => fits(if *truth { "true" } else { "false" }),
        Value::Array(items) if lenient => {
            !items.is_empty() && items.iter().all(|item| item.is_string() && like(item, true, tool, fits))
        }
        Value::Array(items) => items.iter().any(|item| like(item, false, tool, fits)),
        Value::Object(fields) => !lenient && fields.values().any(|value| like(value, false, tool, fits)),
        Value::Null => false,
    }
}

/// Whether a text is what it looks like: no way up in a path, nothing after a command.
fn is_plain(text: &str, tool: &Tool) -> bool {
    let leads_away = text.split(['/', '\\']).any(|segment| segment == "..");
    let goes_on = tool.definition().category == Category::Code
        && text.contains([';', '|', '&', '$', '`', '<', '>', '(', ')', '{', '}', '\n', '\r', '\\']);
    !leads_away && !goes_on && !text.chars().any(char::is_control)
}

/// A path without detours, where it has some.
fn shortest(text: &str) -> Option<String> {
    if !text.contains("./") && !text.contains("//") && !text.contains("/.") {
        return None;
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in text.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    let root = if text.starts_with('/') { "/" } else { "" };
    Some(format!("{root}{}", segments.join("/")))
}

/// The host of an address, in lower case.
fn host_of(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("://").unwrap_or(("", text));
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = if host.starts_with('[') { host } else { host.split(':').next()? };
    let host = host.trim_end_matches('.').to_lowercase();
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
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
        for path in [".env", "./.env", "a/../.env", "a//../.env", "././.env"] {
            assert!(fits(Stance::Deny, "t(.env)", &file, json!({ "path": path })), "{path}");
        }
        assert!(!fits(Stance::Deny, "t(.env)", &file, json!({ "path": "a.env" })));
        let two = tool(json!({ "a": {}, "b": {} }), json!([]), Category::Custom);
        assert!(fits(Stance::Deny, "t(*secret*)", &two, json!({ "a": 1, "b": ["x", "my secret"] })));
        assert!(fits(Stance::Deny, "t(*secret*)", &two, json!({ "a": { "deep": "a secret" } })));
        assert!(fits(Stance::Deny, "t(x)", &two, json!({ "a": "y".repeat(TEXT_BYTES_MAX + 1) })));
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
        ] {
            assert!(!at(other), "{other}");
        }
    }

    #[test]
    fn rules_that_cannot_be_read_say_so() {
        for rule in ["", "tool(", "to\u{7}ol", "tö"] {
            assert!(rule.parse::<PermissionRule>().is_err(), "{rule:?}");
        }
        assert!("a".repeat(2_000).parse::<PermissionRule>().is_err());
        let rule: PermissionRule = "mcp__memory__*".parse().unwrap();
        assert!(rule.names(&["memory/add".into(), "mcp__memory__add".into()]));
        assert!(!rule.names(&["memory/add".into()]));
    }
}
