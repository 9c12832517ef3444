//! Hooks as they stand in the files: lists that add up, so that no file takes away the checks of
//! another.

use std::collections::BTreeMap;
use std::sync::Arc;

use helve::Layer;
use helve::hook::HookEvent;
use helve_tools::hooks::HookGroup;
use serde_json::Value;

use super::Origin;
use super::document::{Document, at};
use super::parts::Problem;
use crate::Remark;
use crate::error::HostError;
use crate::suggest;

/// Most groups of hooks, all files together.
const GROUPS_MAX: usize = 512;

/// One group of hooks from a file.
pub struct HookSection {
    pub event: String,
    pub group: HookGroup,
    pub layer: Layer,
    document: Arc<Document>,
    pointer: String,
}

impl HookSection {
    /// Where it stands.
    pub fn origin(&self) -> Origin {
        self.document.origin(&self.pointer)
    }

    /// Where a part of it stands, as in `hooks/0/command`.
    pub fn origin_of(&self, part: &str) -> Origin {
        self.document.origin(&format!("{}/{part}", self.pointer))
    }
}

/// A group of hooks that cannot be used. What it would look at is denied.
#[derive(Debug, Clone)]
pub(crate) struct BrokenHook {
    pub event: String,
    /// What it would look at, where that can be read.
    pub matcher: Option<String>,
    pub origin: Origin,
    pub problems: Vec<Problem>,
}

/// The hooks of one file, and those that cannot be used. `wrong` is what is wrong with the shape of parts of
/// the file, by their pointers.
pub(super) fn hook_sections(
    layer: Layer,
    document: &Arc<Document>,
    wrong: &BTreeMap<String, Vec<Problem>>,
) -> Result<(Vec<HookSection>, Vec<BrokenHook>), HostError> {
    let (mut sections, mut broken) = (Vec::new(), Vec::new());
    let events = document.value.get("hooks").and_then(Value::as_object);
    for (event, groups) in events.into_iter().flatten() {
        for (index, group) in groups.as_array().into_iter().flatten().enumerate() {
            let pointer = format!("/hooks/{}/{index}", helve::json::escape_pointer(event));
            let origin = document.origin(&pointer);
            let problems = match (wrong.get(&pointer), serde_json::from_value(group.clone())) {
                (None, Ok(group)) => {
                    let document = Arc::clone(document);
                    sections.push(HookSection { event: event.clone(), group, layer, document, pointer });
                    continue;
                }
                (Some(problems), _) => problems.clone(),
                (None, Err(error)) => {
                    vec![Problem { origin: origin.clone(), message: error.to_string() }]
                }
            };
            let matcher = group.get("matcher").and_then(Value::as_str).map(str::to_owned);
            broken.push(BrokenHook { event: event.clone(), matcher, origin, problems });
        }
    }
    if sections.len() + broken.len() > GROUPS_MAX {
        return Err(HostError::usage(format!("there are more than {GROUPS_MAX} groups of hooks")));
    }
    Ok((sections, broken))
}

/// The event that was probably meant, where this is none that Helve knows. An agent may have events of
/// its own; but a check that never sees anything is worse than a word too many.
pub fn meant(event: &HookEvent) -> Option<&'static str> {
    const KNOWN: &[HookEvent] = &HookEvent::KNOWN;
    match event {
        HookEvent::Other(name) => suggest::nearest(name, KNOWN.iter().map(HookEvent::as_str)),
        _ => None,
    }
}

/// What should be known about hooks: that nothing fires them.
pub(super) fn remarks(sections: &[HookSection]) -> Vec<Remark> {
    let mistyped = sections.iter().filter_map(|section| {
        let meant = meant(&section.event.parse().ok()?)?;
        Some(Remark {
            found: format!(
                "Helve knows no event `{}`, so its hooks never run ({})",
                section.event,
                at(&section.origin())
            ),
            fix: format!("did you mean `{meant}`?"),
        })
    });
    mistyped.collect()
}

/// Whether a pointer leads to hooks, or into them.
pub(super) fn is_hook(pointer: &str) -> bool {
    pointer == "/hooks" || pointer.starts_with("/hooks/")
}
