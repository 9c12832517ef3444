//! Composed tools: built after all others, and each after those that it calls.

use helve::compose::{Composition, Conditional, MapOver, Order, Parallel, Sequence, order};
use helve::{DefinitionError, Problem};
use helve_tools::composed::ComposedToolConfig;
use serde::de::DeserializeOwned;

use super::tools::typed;
use crate::config::{Sort, ToolEntry, ToolKind};

/// The configuration of a composed tool.
pub(super) fn config(
    entry: &ToolEntry,
    sort: Sort,
) -> Result<ComposedToolConfig<Composition>, DefinitionError> {
    fn read<S: DeserializeOwned + Into<Composition>>(
        entry: &ToolEntry,
    ) -> Result<ComposedToolConfig<Composition>, DefinitionError> {
        typed::<ComposedToolConfig<S>>(entry).map(ComposedToolConfig::into_composition)
    }
    match sort {
        Sort::Sequence => read::<Sequence>(entry),
        Sort::Parallel => read::<Parallel>(entry),
        Sort::Conditional => read::<Conditional>(entry),
        Sort::Map => read::<MapOver>(entry),
    }
}

/// The tools that an entry calls, as it names them.
pub fn parts(entry: &ToolEntry) -> Vec<String> {
    // What cannot be read calls nothing; it is refused when it is made.
    let config = match entry.kind {
        ToolKind::Composed(sort) => config(entry, sort).ok(),
        ToolKind::Http | ToolKind::Program | ToolKind::OpenApi => None,
    };
    config.map(|config| config.shape.tools().into_iter().map(str::to_owned).collect()).unwrap_or_default()
}

/// Entries in the order in which they can be made, and those that can never be.
pub struct InOrder<'e> {
    pub entries: Vec<&'e ToolEntry>,
    pub circles: Vec<(&'e ToolEntry, DefinitionError)>,
}

/// Puts plain tools first, and then composed ones, each after those that it calls.
pub fn in_order(entries: &[ToolEntry]) -> InOrder<'_> {
    let (composed, plain): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| matches!(entry.kind, ToolKind::Composed(_)));
    let full_name = |part: String| {
        let meant = composed.iter().rfind(|entry| entry.names().any(|name| name == part));
        meant.map_or(part, |entry| entry.label().to_owned())
    };
    let calls: Vec<_> = composed
        .iter()
        .map(|entry| (entry.label(), parts(entry).into_iter().map(full_name).collect::<Vec<_>>()))
        .collect();
    let Order { sorted, circles } = order(&calls);
    let refuse = |(index, circle): (usize, String)| {
        let entry: &ToolEntry = composed[index];
        let message = format!("it would call itself: {circle}");
        let problems = vec![Problem { at: String::new(), message }];
        (entry, DefinitionError { tool: entry.label().to_owned(), problems })
    };
    InOrder {
        entries: plain.into_iter().chain(sorted.into_iter().map(|index| composed[index])).collect(),
        circles: circles.into_iter().map(refuse).collect(),
    }
}
