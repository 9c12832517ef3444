//! A variable of a program's environment, as configuration has it. The same for tools and hooks.

use crate::http::{literal, template::Template};

/// Names that Helve itself sets begin with this.
const OWN_PREFIX: &str = "HELVE_";
/// Names such as `TOKEN_FILE` say where a secret is and do not hold it.
const PLACE_SUFFIXES: [&str; 4] = ["_FILE", "_PATH", "_DIR", "_URL"];

/// The value of a variable.
#[derive(Debug, Clone)]
pub(crate) enum Variable {
    /// As it stands in the configuration.
    Literal(String),
    /// The value of this variable of Helve's own environment. Taken to be a secret.
    FromEnvironment(String),
}

impl Variable {
    /// A variable by its name and what stands there. A secret must not.
    pub(crate) fn read(name: &str, value: &str) -> Result<Self, String> {
        if !is_name(name) {
            return Err("a name has letters, digits and `_`, and no digit first".to_owned());
        }
        if name.starts_with(OWN_PREFIX) {
            return Err("names that begin with `HELVE_` are set by Helve".to_owned());
        }
        if value.contains('\0') {
            return Err("the value contains a NUL character".to_owned());
        }
        if !value.contains("${") {
            let is_place = PLACE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
            let refusal = literal::refusal(if is_place { "" } else { name }, &Template::text(value));
            return refusal.map_or_else(|| Ok(Self::Literal(value.to_owned())), Err);
        }
        let reference = value.strip_prefix("${env:").and_then(|rest| rest.strip_suffix('}'));
        match reference.filter(|source| is_name(source)) {
            Some(source) => Ok(Self::FromEnvironment(source.to_owned())),
            None => Err("a reference is the whole value and reads `${env:NAME}`".to_owned()),
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
