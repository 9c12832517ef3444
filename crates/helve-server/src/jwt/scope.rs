//! Scopes: what a token lets its holder do, of all that they might.

use helve::{Access, ToolName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Issuer, JwtConfig, JwtError};

/// Most scopes of a token that are looked at.
const SCOPES_MAX: usize = 256;

/// What a scope lets its holder do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// The tools that it lets them use: `tool`, `toolkit/*`, or `*` for all of them.
    pub tools: Vec<String>,
    /// The roles that it gives them.
    pub roles: Vec<String>,
}

/// The scopes that a token has: words in `scope`, or in `scp`, which may be a list.
pub(super) fn said(claims: &Value) -> Vec<String> {
    let mut scopes = words(&claims["scope"]);
    scopes.extend(words(&claims["scp"]));
    scopes.truncate(SCOPES_MAX);
    scopes
}

fn words(claim: &Value) -> Vec<String> {
    match claim {
        Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
        Value::Array(list) => list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Whether what the configuration says of scopes can be used.
pub(super) fn check(config: &JwtConfig) -> Result<(), JwtError> {
    for (name, scope) in &config.scopes {
        if !is_scope(name) {
            return Err(JwtError::Scope(name.clone(), "scopes"));
        }
        // A client asks for scopes as it likes; who decides is the issuer's word about a person.
        if config.approver_role.as_ref().is_some_and(|approver| scope.roles.contains(approver)) {
            return Err(JwtError::Approver(name.clone()));
        }
    }
    if let Some(unknown) = config.first_scopes.iter().find(|name| !config.scopes.contains_key(*name)) {
        return Err(JwtError::Scope(unknown.clone(), "first_scopes"));
    }
    match &config.approver_scope {
        Some(name) if !is_scope(name) || config.scopes.contains_key(name) => {
            Err(JwtError::Scope(name.clone(), "approver_scope"))
        }
        None if config.approver_role.is_some() && !config.scopes.is_empty() => {
            Err(JwtError::Missing("approver_scope"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether a text is one scope, as OAuth writes them.
fn is_scope(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

impl Issuer {
    /// The scopes that a token with these would need for a tool of one of these names. None where it has
    /// them, or where none would help.
    pub(crate) fn needed<'a>(&'a self, has: &'a [String], names: &[ToolName]) -> Option<Vec<&'a str>> {
        let lets = |scope: &Scope| {
            let access = Access::Only(scope.tools.clone());
            names.iter().any(|name| access.allows(name))
        };
        let scopes = &self.config.scopes;
        if has.iter().filter_map(|name| scopes.get(name)).any(lets) {
            return None;
        }
        // The narrowest that would do.
        let fitting = scopes.iter().filter(|(_, scope)| lets(scope));
        let is_wide = |scope: &Scope| scope.tools.iter().any(|tool| tool == "*");
        let (needed, _) = fitting.min_by_key(|(_, scope)| (is_wide(scope), scope.tools.len()))?;
        Some(has.iter().map(String::as_str).chain([needed.as_str()]).collect())
    }
}
