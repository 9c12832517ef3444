//! Hooks as they stand in the files: lists that add up, so that no file takes away the checks of
//! another.

use std::rc::Rc;

use helve::Layer;
use helve_tools::hooks::HookGroup;
use serde_json::Value;

use super::Origin;
use super::document::{Document, at};
use crate::failure::Failure;

/// Most groups of hooks, all files together.
const GROUPS_MAX: usize = 512;

/// One group of hooks from a file.
pub(crate) struct HookSection {
    pub(crate) event: String,
    pub(crate) group: HookGroup,
    pub(crate) layer: Layer,
    document: Rc<Document>,
    pointer: String,
}

impl HookSection {
    /// Where it stands.
    pub(crate) fn origin(&self) -> Origin {
        self.document.origin(&self.pointer)
    }

    /// Where a part of it stands, as in `hooks/0/command`.
    pub(crate) fn origin_of(&self, part: &str) -> Origin {
        self.document.origin(&format!("{}/{part}", self.pointer))
    }
}

/// The hooks of one file. Their shape was checked before.
pub(super) fn hook_sections(layer: Layer, document: &Rc<Document>) -> Result<Vec<HookSection>, Failure> {
    let mut sections = Vec::new();
    let events = document.value.get("hooks").and_then(Value::as_object);
    for (event, groups) in events.into_iter().flatten() {
        for (index, group) in groups.as_array().into_iter().flatten().enumerate() {
            let pointer = format!("/hooks/{}/{index}", helve::json::escape_pointer(event));
            let group = serde_json::from_value(group.clone()).map_err(|error| {
                Failure::usage("the configuration has a hook that is refused")
                    .detail(format!("{}  {error}", at(&document.origin(&pointer))))
            })?;
            let document = Rc::clone(document);
            sections.push(HookSection { event: event.clone(), group, layer, document, pointer });
        }
    }
    if sections.len() > GROUPS_MAX {
        return Err(Failure::usage(format!("there are more than {GROUPS_MAX} groups of hooks")));
    }
    Ok(sections)
}

/// Whether a pointer leads to hooks, or into them.
pub(super) fn is_hook(pointer: &str) -> bool {
    pointer == "/hooks" || pointer.starts_with("/hooks/")
}
