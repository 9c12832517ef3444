//! Tools' own codes for what went wrong, and the names by which errors are looked for.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::ErrorCode;

/// A tool's own code for what went wrong, such as `FILE_EXISTS`: capital letters, digits and `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct ToolCode(Box<str>);

impl ToolCode {
    /// Longest code.
    pub const CHARS_MAX: usize = 64;

    /// None where it is no such code.
    pub fn new(text: &str) -> Option<Self> {
        let is_inner = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
        let starts = text.as_bytes().first().is_some_and(u8::is_ascii_uppercase);
        (starts && text.len() <= Self::CHARS_MAX && text.bytes().all(is_inner)).then(|| Self(text.into()))
    }

    /// The code.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TryFrom<String> for ToolCode {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(&text)
            .ok_or("a tool's own code is made of capital letters, digits and `_`, as in `FILE_EXISTS`")
    }
}

/// The code by which calls are looked for: a stable one, or a tool's own.
///
/// ```
/// use helve_core::{CodeName, ErrorCode};
/// let timeout: CodeName = "timeout".parse().unwrap();
/// assert!(timeout.fits(Some(ErrorCode::Timeout), None));
/// let own: CodeName = "FILE_EXISTS".parse().unwrap();
/// assert!(own.fits(Some(ErrorCode::ExecutionFailed), Some("FILE_EXISTS")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum CodeName {
    /// A stable code.
    Stable(ErrorCode),
    /// A tool's own code.
    Own(ToolCode),
}

impl CodeName {
    /// The code as it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stable(code) => code.as_str(),
            Self::Own(code) => code.as_str(),
        }
    }

    /// Whether an error with these codes is meant.
    pub fn fits(&self, code: Option<ErrorCode>, own: Option<&str>) -> bool {
        match self {
            Self::Stable(wanted) => code == Some(*wanted),
            Self::Own(wanted) => own == Some(wanted.as_str()),
        }
    }
}

impl FromStr for CodeName {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let stable = ErrorCode::ALL.iter().find(|code| code.as_str() == text);
        let name = stable.copied().map(Self::Stable).or_else(|| ToolCode::new(text).map(Self::Own));
        name.ok_or(UnknownCode)
    }
}

impl TryFrom<String> for CodeName {
    type Error = UnknownCode;

    fn try_from(text: String) -> Result<Self, UnknownCode> {
        text.parse()
    }
}

/// No error has this code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownCode;

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        write!(f, "expected one of `{}`, or a tool's own code such as `FILE_EXISTS`", known.join("`, `"))
    }
}

impl std::error::Error for UnknownCode {}

impl JsonSchema for CodeName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CodeName".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let stable = generator.subschema_for::<ErrorCode>();
        let own = format!("^[A-Z][A-Z0-9_]{{0,{}}}$", ToolCode::CHARS_MAX - 1);
        schemars::json_schema!({
            "description": "A stable code, or a tool's own.",
            "anyOf": [stable, { "type": "string", "pattern": own }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_stable_one_or_a_tools_own() {
        assert_eq!("timeout".parse(), Ok(CodeName::Stable(ErrorCode::Timeout)));
        assert_eq!("FILE_EXISTS".parse(), Ok(CodeName::Own(ToolCode::new("FILE_EXISTS").unwrap())));
        for wrong in ["", "time out", "file_exists", "_A"] {
            assert_eq!(wrong.parse::<CodeName>(), Err(UnknownCode), "{wrong}");
        }
    }

    #[test]
    fn a_tools_own_code_is_not_taken_for_the_stable_one_it_goes_with() {
        let failed = CodeName::Stable(ErrorCode::ExecutionFailed);
        let exists: CodeName = "FILE_EXISTS".parse().unwrap();
        assert!(failed.fits(Some(ErrorCode::ExecutionFailed), Some("FILE_EXISTS")));
        assert!(exists.fits(Some(ErrorCode::ExecutionFailed), Some("FILE_EXISTS")));
        assert!(!exists.fits(Some(ErrorCode::ExecutionFailed), None));
        assert!(!exists.fits(None, Some("WRITE_FAILED")));
    }
}
