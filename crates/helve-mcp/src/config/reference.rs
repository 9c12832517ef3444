//! Values of the configuration: plain text, or a reference to a secret that lies elsewhere.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value: plain text for what is no secret, or a reference to one.
///
/// Text may hold `${env:NAME}`, as everywhere in `helve.toml`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a text, or one of `{ env = \"NAME\" }`, `{ file = \"PATH\" }`, `{ keyring = \"SERVICE/USER\" }`"
)]
pub enum Setting {
    /// As it stands.
    Text(String),
    /// Where to look.
    Reference(Reference),
}

impl Setting {
    /// The value of a variable of Helve's environment.
    pub fn from_env(name: impl Into<String>) -> Self {
        Self::Reference(Reference { source: Source::Env(name.into()), prefix: String::new() })
    }

    /// What a file holds.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self::Reference(Reference { source: Source::File(path.into()), prefix: String::new() })
    }

    /// The same with a text before it.
    #[must_use]
    pub fn with_prefix(self, text: &str) -> Self {
        match self {
            Self::Text(old) => Self::Text(format!("{text}{old}")),
            Self::Reference(reference) => {
                Self::Reference(Reference { prefix: format!("{text}{}", reference.prefix), ..reference })
            }
        }
    }

    /// Whether it stands for a secret, or may: all that is not written out.
    /// The file that holds it, where one does.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Reference(Reference { source: Source::File(path), .. }) => Some(path),
            Self::Reference(_) | Self::Text(_) => None,
        }
    }

    pub(crate) fn is_secret(&self) -> bool {
        match self {
            Self::Text(text) => text.contains("${env:"),
            Self::Reference(_) => true,
        }
    }

    pub(crate) fn relative_to(&mut self, folder: &Path) {
        if let Self::Reference(Reference { source: Source::File(path), .. }) = self {
            *path = folder.join(&path);
        }
    }
}

impl From<&str> for Setting {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

// A secret may stand where a reference belongs, and logs are no place to find out.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Reference(reference) => fmt::Debug::fmt(reference, f),
        }
    }
}

/// Where a secret lies, and what stands before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Reference {
    /// Where it lies.
    pub source: Source,
    /// What stands before it, such as `Bearer `.
    pub prefix: String,
}

/// Where a secret lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In a variable of Helve's environment.
    Env(String),
    /// In a file; an end of line at its end does not count.
    File(PathBuf),
    /// In the system's keyring.
    Keyring {
        /// For what it is kept.
        service: String,
        /// The user whose keyring was asked.
        user: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the environment variable `{name}`"),
            Self::File(path) => write!(f, "the file `{}`", path.display()),
            Self::Keyring { service, user } => write!(f, "`{service}/{user}` in the keyring"),
        }
    }
}

/// A reference to a secret that lies elsewhere: exactly one of `env`, `file` and `keyring`.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Reference")]
#[serde(deny_unknown_fields)]
struct Raw {
    /// A variable of Helve's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    env: Option<String>,
    /// A file that holds it. A relative path starts at the folder of the file that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    /// An entry of the system's keyring, as `SERVICE/USER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyring: Option<String>,
    /// What stands before it, such as `Bearer `.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    prefix: String,
}

impl TryFrom<Raw> for Reference {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let source = match (raw.env, raw.file, raw.keyring) {
            (Some(name), None, None) => Source::Env(name),
            (None, Some(path), None) => Source::File(path),
            (None, None, Some(entry)) => match entry.rsplit_once('/') {
                Some((service, user)) if !service.is_empty() && !user.is_empty() => {
                    Source::Keyring { service: service.to_owned(), user: user.to_owned() }
                }
                _ => return Err("`keyring` reads `SERVICE/USER`".to_owned()),
            },
            _ => return Err("a reference has exactly one of `env`, `file` and `keyring`".to_owned()),
        };
        Ok(Self { source, prefix: raw.prefix })
    }
}

impl From<Reference> for Raw {
    fn from(Reference { source, prefix }: Reference) -> Self {
        let raw = Self { prefix, ..Self::default() };
        match source {
            Source::Env(name) => Self { env: Some(name), ..raw },
            Source::File(path) => Self { file: Some(path), ..raw },
            Source::Keyring { service, user } => Self { keyring: Some(format!("{service}/{user}")), ..raw },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_says_one_place() {
        let read = |text: &str| serde_json::from_str::<Setting>(text);
        assert_eq!(read(r#"{"env": "A"}"#).unwrap(), Setting::from_env("A"));
        let Setting::Reference(reference) = read(r#"{"keyring": "a/b/me", "prefix": "Bearer "}"#).unwrap()
        else {
            panic!()
        };
        assert_eq!(reference.source.to_string(), "`a/b/me` in the keyring");
        for bad in
            ["{}", r#"{"env":"A","file":"B"}"#, r#"{"keyring":"a"}"#, r#"{"keyring":"/a"}"#, "1", "null"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_does_not_show_text() {
        assert!(!format!("{:?}", Setting::from("sk-secret")).contains("secret"));
    }
}
