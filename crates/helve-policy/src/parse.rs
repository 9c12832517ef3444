//! From text to policies, each with its name, its place, and what it looks at.

use std::collections::HashSet;
use std::sync::Arc;

use cedar_policy::{Effect, Policy, PolicyId, PolicySet};
use miette::Diagnostic;

use crate::file::{PolicyFile, Weight, limits};
use crate::finding::{Finding, Place, did_you_mean};
use crate::guard::Guard;
use crate::mention::Mentions;
use crate::nesting;
use crate::scope::Scope;

/// One policy, and all that is known of it before any request.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// Its `@id`, or its file and line.
    pub(crate) name: Arc<str>,
    /// The text of its `@reason`, which denials quote.
    pub(crate) reason: Option<String>,
    pub(crate) weight: Weight,
    pub(crate) file: Arc<str>,
    /// Which of the files.
    pub(crate) file_index: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) policy: Policy,
    pub(crate) scope: Scope,
    pub(crate) mentions: Mentions,
    pub(crate) guard: Guard,
    /// What it takes in a set of policies, about: each has its text again.
    pub(crate) bytes: usize,
}

/// What a policy takes in a set besides its text, in bytes.
const POLICY_BYTES: usize = 1 << 10;

impl Parsed {
    pub(crate) fn permits(&self) -> bool {
        self.policy.effect() == Effect::Permit
    }

    pub(crate) fn place(&self) -> Place {
        Place { file: self.file.to_string(), line: self.line, column: self.column }
    }

    /// Where a word of it stands, or the policy itself.
    pub(crate) fn place_of(&self, word: &str) -> Place {
        let text = self.text();
        let Some(at) = text.find(word) else { return self.place() };
        let within = Place::of(&self.file, &text, at);
        let column = if within.line == 1 { within.column + self.column - 1 } else { within.column };
        Place { line: within.line + self.line - 1, column, ..within }
    }

    pub(crate) fn text(&self) -> String {
        self.policy.to_cedar().unwrap_or_default()
    }
}

/// Every policy of the files, in their order.
pub(crate) fn parse(files: &[PolicyFile]) -> Result<Vec<Parsed>, Vec<Finding>> {
    let (mut parsed, mut findings, mut names) = (Vec::new(), Vec::new(), HashSet::new());
    let start = |file: &PolicyFile| Place { file: file.name.clone(), line: 1, column: 1 };
    if let Some(file) = files.last()
        && files.iter().map(|file| file.text.len()).sum::<usize>() > limits::BYTES_MAX
    {
        let message = format!("the policies are longer than {} bytes", limits::BYTES_MAX);
        return Err(vec![Finding::error(start(file), message)]);
    }
    for (index, file) in files.iter().enumerate() {
        if let Err(finding) = nesting::check(file) {
            findings.push(finding);
            continue;
        }
        match file.text.parse::<PolicySet>() {
            Ok(set) => {
                findings.extend(set.templates().map(|template| {
                    Finding::error(start(file), format!("`{}` has a slot", template.to_cedar().trim()))
                        .help(Some("templates are not used here; write the principal or resource".to_owned()))
                }));
                let mut policies: Vec<_> = set.policies().map(|policy| (offset(policy), policy)).collect();
                policies.sort_by_key(|(offset, _)| *offset);
                for (offset, policy) in policies {
                    match one(file, index, offset, policy, &mut names) {
                        Ok(one) => parsed.push(one),
                        Err(finding) => findings.push(finding),
                    }
                }
            }
            Err(errors) => findings.extend(errors.iter().map(|error| unreadable(file, error))),
        }
        if parsed.len() > limits::POLICIES_MAX {
            let message = format!("there are more than {} policies", limits::POLICIES_MAX);
            return Err(vec![Finding::error(start(file), message)]);
        }
    }
    if findings.is_empty() { Ok(parsed) } else { Err(findings) }
}

fn one(
    file: &PolicyFile,
    file_index: usize,
    offset: usize,
    policy: &Policy,
    names: &mut HashSet<Arc<str>>,
) -> Result<Parsed, Finding> {
    let place = Place::of(&file.name, &file.text, offset);
    let named = policy.annotation("id").map(str::trim).filter(|id| !id.is_empty());
    let mut name: Arc<str> = match named {
        Some(id) => id.into(),
        None => format!("{}:{}", file.name, place.line).into(),
    };
    if named.is_none() && names.contains(&name) {
        name = format!("{name}:{}", place.column).into();
    }
    // A project may have begun with a copy of the policy that ships.
    if named.is_some() && names.contains(&name) && file.weight == Weight::Narrows {
        name = format!("{name} ({})", file.name).into();
    }
    if !names.insert(Arc::clone(&name)) {
        return Err(Finding::error(place, format!("there are two policies named `{name}`"))
            .of(&name)
            .help(Some("give each its own `@id`".to_owned())));
    }
    if name.len() > 200 || name.chars().any(char::is_control) {
        return Err(Finding::error(place, "its `@id` is no name: at most 200 characters on one line"));
    }
    let body = policy.to_pst().map_err(|error| Finding::error(place.clone(), error.to_string()).of(&name))?;
    let mentions = Mentions::of(body.body());
    if mentions.too_deep {
        let message = format!("its conditions are nested deeper than {} levels", limits::DEPTH_MAX);
        return Err(Finding::error(place, message).of(&name));
    }
    let reason = policy.annotation("reason").map(str::trim).filter(|reason| !reason.is_empty());
    Ok(Parsed {
        reason: reason.map(str::to_owned),
        weight: file.weight,
        file: file.name.as_str().into(),
        file_index,
        line: place.line,
        column: place.column,
        policy: policy.new_id(PolicyId::new(&*name)),
        scope: Scope::of(policy),
        mentions,
        guard: Guard::of(body.body()),
        bytes: POLICY_BYTES + policy.to_cedar().map_or(0, |text| text.len()),
        name,
    })
}

fn offset(policy: &Policy) -> usize {
    policy.as_ref().loc().map_or(0, |loc| loc.span.offset())
}

/// A mistake that Cedar found, at its place in the file.
fn unreadable(file: &PolicyFile, error: &dyn Diagnostic) -> Finding {
    let mut finding = diagnosed(file, error);
    if finding.help.is_none() {
        finding.help = misspelt(error).map(|meant| format!("did you mean `{meant}`?"));
    }
    finding
}

fn misspelt(error: &dyn Diagnostic) -> Option<&'static str> {
    let said = error.to_string();
    let word = said.split('`').nth(1)?;
    ["permit", "forbid", "when", "unless", "principal", "action", "resource", "context"]
        .into_iter()
        .find(|known| did_you_mean(word, [*known]).is_some() && word != *known)
}

pub(crate) fn diagnosed(file: &PolicyFile, error: &dyn Diagnostic) -> Finding {
    let offset = error.labels().and_then(|mut labels| labels.next()).map_or(0, |label| label.offset());
    let help = error.help().map(|help| help.to_string());
    Finding::error(Place::of(&file.name, &file.text, offset), error.to_string()).help(help)
}
