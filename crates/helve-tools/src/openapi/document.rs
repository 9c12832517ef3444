//! An OpenAPI document as plain JSON, with its references followed on demand.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The largest document.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;

/// Longest chain of references from one to the next.
const REFERENCES_MAX: usize = 32;

/// Why a document cannot be imported at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file could not be read.
    #[error("the document `{name}` cannot be read; check the path")]
    File {
        /// The file's name as configured.
        name: String,
        /// For the log.
        source: std::io::Error,
    },
    /// The document could not be fetched.
    #[error("the document cannot be fetched: {0}")]
    Fetch(#[from] helve_net::NetError),
    /// The server answered something else.
    #[error("the document cannot be fetched: the server answered {0}")]
    Status(u16),
    /// More bytes than allowed.
    #[error("the document is larger than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    /// Neither JSON nor YAML.
    #[error("the document is not valid {format}: {reason}")]
    Syntax {
        /// What it was read as.
        format: &'static str,
        /// What the parser says.
        reason: String,
    },
    /// Not an OpenAPI document of a version that Helve reads.
    #[error("the document is refused: {0}")]
    Unsupported(&'static str),
    /// The configuration is not sound.
    #[error("the configuration of `{namespace}` is refused: {reason}")]
    Config {
        /// The namespace of the document.
        namespace: String,
        /// What is wrong and what to do.
        reason: String,
    },
}

/// A document that was read and is of a version that Helve knows.
pub(super) struct Document(Value);

impl Document {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ImportError> {
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(ImportError::TooLarge);
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let is_json = bytes.trim_ascii_start().starts_with(b"{");
        let value = if is_json { parse_json(bytes)? } else { parse_yaml(bytes)? };
        let version = value.get("openapi").and_then(Value::as_str).unwrap_or_default();
        if value.get("swagger").is_some() {
            return Err(ImportError::Unsupported("Swagger 2.0; convert it to OpenAPI 3 first"));
        }
        if !["3.0", "3.1", "3.2"].iter().any(|known| version.starts_with(known)) {
            return Err(ImportError::Unsupported("it does not say `openapi: 3.0`, 3.1 or 3.2"));
        }
        Ok(Self(value))
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// What a value is once its references are followed.
    pub(super) fn resolve<'d>(&'d self, mut value: &'d Value) -> Result<&'d Value, String> {
        for _ in 0..REFERENCES_MAX {
            match value.get("$ref") {
                Some(Value::String(reference)) => value = self.target(reference)?,
                _ => return Ok(value),
            }
        }
        Err(format!("more than {REFERENCES_MAX} references lead from one to the next"))
    }

    /// What a reference points to.
    pub(super) fn target(&self, reference: &str) -> Result<&Value, String> {
        let shown: String = reference.chars().take(120).collect();
        let pointer = reference
            .strip_prefix('#')
            .ok_or_else(|| format!("`{shown}` points outside the document, and nothing is fetched"))?;
        let pointer = percent_decode_str(pointer).decode_utf8_lossy();
        self.0.pointer(&pointer).ok_or_else(|| format!("`{shown}` points to nothing"))
    }
}

fn parse_json(bytes: &[u8]) -> Result<Value, ImportError> {
    // Bounded in depth by the parser itself.
    serde_json::from_slice(bytes)
        .map_err(|error| ImportError::Syntax { format: "JSON", reason: error.to_string() })
}

/// Reads YAML on its own thread: the parser takes some 20 kB of stack for each level in a
/// debug build, and a caller's stack may be small.
fn parse_yaml(bytes: &[u8]) -> Result<Value, ImportError> {
    const STACK_BYTES: usize = 16 << 20;
    let syntax = |reason: String| ImportError::Syntax { format: "YAML", reason };
    let read = || serde_saphyr::from_slice_with_options::<Value>(bytes, yaml_options());
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, read);
        let thread = thread.map_err(|error| syntax(error.to_string()))?;
        let read = thread.join().map_err(|_| syntax("the parser gave up".to_owned()))?;
        read.map_err(|error| syntax(error.to_string().chars().take(300).collect()))
    })
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_events: 4_000_000,
            max_nodes: 2_000_000,
            max_aliases: 10_000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 500_000 },
        // In YAML 1.2 `no` is a word, and the code of a country.
        strict_booleans: true,
        with_snippet: false,
    }
}

/// The fields of a map, or none.
pub(super) fn fields(value: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// The items of a list, or none.
pub(super) fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// A field's text.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Whether a field is true.
pub(super) fn is_true(value: &Value, key: &str) -> bool {
    value.get(key) == Some(&Value::Bool(true))
}
