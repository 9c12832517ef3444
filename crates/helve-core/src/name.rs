//! Names of tools and the layers they come from.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Longest full name. The same bound MCP puts on a name.
pub const NAME_CHARS_MAX: usize = 128;

/// The full name of a tool: `tool`, `ns/tool` or `org/ns/tool`.
///
/// Each segment follows MCP's rule, `[A-Za-z0-9._-]`, so a name never needs escaping in a URL
/// path, a policy or a terminal, and look-alike letters cannot stand in for others.
///
/// ```
/// use helve_core::ToolName;
/// let name = ToolName::new("acme/mail/send").unwrap();
/// assert_eq!(name.simple(), "send");
/// assert_eq!(name.namespace(), Some("acme/mail"));
/// assert!(ToolName::new("mail send").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ToolName(Arc<str>);

impl schemars::JsonSchema for ToolName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ToolName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX })
    }
}

impl ToolName {
    /// Checks `text` and makes it a name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        check(text).map_err(|reason| NameError { name: shorten(text), reason })?;
        Ok(Self(Arc::from(text)))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole name, shared.
    pub fn to_shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The last segment: the name within its namespace.
    pub fn simple(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// What stands before the last segment.
    pub fn namespace(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(namespace, _)| namespace)
    }

    /// This name inside `namespace`.
    pub fn within(&self, namespace: &str) -> Result<Self, NameError> {
        Self::new(format!("{namespace}/{}", self.0))
    }

    /// The name that Anthropic, OpenAI and Gemini all accept, `[A-Za-z_][A-Za-z0-9_-]{0,63}`.
    ///
    /// It depends on nothing but the name, so it stays the same while other tools come and go. A
    /// plain name maps to itself and `ns/tool` to `ns__tool`. Any other mapping would lose
    /// something, so it carries a digest of the full name. A registry keeps the way back and
    /// refuses the tool whose provider name is taken.
    ///
    /// ```
    /// use helve_core::ToolName;
    /// let provider_name = |name| ToolName::new(name).unwrap().provider_name();
    /// assert_eq!(provider_name("time-now"), "time-now");
    /// assert_eq!(provider_name("mail/send"), "mail__send");
    /// assert!(provider_name("mail.send").starts_with("mail_send_"));
    /// ```
    pub fn provider_name(&self) -> String {
        const CHARS_MAX: usize = 64;
        const DIGEST_CHARS: usize = 8;
        let joined = self.0.replace('/', "__");
        let reversible = self.0.split('/').all(|segment| {
            !segment.contains("__")
                && !segment.contains('.')
                && !segment.starts_with('_')
                && !segment.ends_with('_')
        });
        let starts_well = joined.starts_with(|c: char| c.is_ascii_alphabetic());
        if reversible && starts_well && joined.len() <= CHARS_MAX {
            return joined;
        }
        let mut safe = joined.replace('.', "_");
        if !safe.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            safe.insert(0, '_');
        }
        safe.truncate(CHARS_MAX - DIGEST_CHARS - 1);
        format!("{safe}_{}", &crate::json::sha256_hex(self.0.as_bytes())[..DIGEST_CHARS])
    }

    /// The name that MCP accepts, `[A-Za-z0-9._-]{1,128}`.
    pub fn mcp_name(&self) -> String {
        if self.0.contains('/') { self.provider_name() } else { self.0.to_string() }
    }
}

fn check(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.len() > NAME_CHARS_MAX {
        return Err("it is longer than 128 characters");
    }
    let mut segments = 0;
    for segment in text.split('/') {
        segments += 1;
        if segment.is_empty() {
            return Err("it has an empty part between slashes");
        }
        if segment == "." || segment == ".." {
            return Err("`.` and `..` are not names");
        }
        if !segment.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
            return Err("only A-Z, a-z, 0-9, `.`, `_` and `-` may stand in it");
        }
    }
    if segments > 3 { Err("it has more than three parts: `org/ns/tool`") } else { Ok(()) }
}

/// A refused name is shown in errors; cut it so that a hostile one cannot flood them.
fn shorten(text: &str) -> String {
    let short: String = text.chars().take(64).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> String {
        name.0.to_string()
    }
}

impl TryFrom<String> for ToolName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(text)
    }
}

/// A name that breaks the rules.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{name}` is not a tool name: {reason}")]
pub struct NameError {
    name: String,
    reason: &'static str,
}

/// Where a registered tool comes from. A later layer overrides an earlier one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Ships with Helve.
    BuiltIn,
    /// Shared by an organisation.
    Org,
    /// This project's own.
    Project,
}

impl Layer {
    /// The word for this layer in text and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Org => "org",
            Self::Project => "project",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_names_are_refused() {
        let long = "x".repeat(129);
        for bad in
            ["", "/", "a//b", "a/b/c/d", "..", "a/../b", "mаil", "a\0b", "a b", "a:b", "\u{202e}x", &long]
        {
            assert!(ToolName::new(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(ToolName::new("x".repeat(1 << 20)).unwrap_err().to_string().len() < 300);
    }

    proptest! {
        #[test]
        fn provider_names_are_legal_and_distinct(
            a in "[A-Za-z0-9._-]{1,40}(/[A-Za-z0-9._-]{1,40}){0,2}",
            b in "[A-Za-z0-9._-]{1,40}(/[A-Za-z0-9._-]{1,40}){0,2}",
        ) {
            let (Ok(a), Ok(b)) = (ToolName::new(a), ToolName::new(b)) else { return Ok(()) };
            let safe = a.provider_name();
            prop_assert!(safe.len() <= 64);
            prop_assert!(safe.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
            prop_assert!(safe.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            prop_assert_eq!(a == b, safe == b.provider_name());
        }
    }

    #[test]
    fn names_that_look_the_same_to_a_provider_stay_apart() {
        let names = ["a/b", "a__b", "a.b", "a_b", "a/b/c", "a__b/c", "a_/b", "a/_b", "1a", "_1a"];
        let safe: std::collections::HashSet<_> =
            names.iter().map(|n| ToolName::new(n).unwrap().provider_name()).collect();
        assert_eq!(safe.len(), names.len());
    }
}
