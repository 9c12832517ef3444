//! Which operations of a document a configuration wants, and what it names that the document has not.

use helve::Problem;
use serde_json::Value;

use super::METHODS;
use super::config::{Identity, OpenApiConfig, Selector};
use super::document::{items, text};
use super::operation::Operation;
use crate::http::defaults_of;

/// What was chosen.
pub(super) struct Selection<'o, 'd> {
    /// The operations, in the order of the document.
    pub(super) wanted: Vec<&'o Operation<'d>>,
    /// Selectors that pick nothing: a mistyped `exclude` leaves in what nobody wanted.
    pub(super) unmatched: Vec<Problem>,
}

/// Chooses, or says which selector makes no sense.
pub(super) fn select<'o, 'd>(
    config: &OpenApiConfig,
    operations: &'o [Operation<'d>],
) -> Result<Selection<'o, 'd>, String> {
    let mut lists = [List::new("include", &config.include), List::new("exclude", &config.exclude)];
    for list in &lists {
        list.check_methods(operations)?;
    }
    let [include, exclude] = &mut lists;
    let wanted = operations.iter().filter(|operation| {
        let identity = identity(operation);
        // Both are asked, so that each selector has been held against every operation.
        let (included, excluded) = (include.picks(&identity), exclude.picks(&identity));
        let reads = defaults_of(&operation.method).annotations.read_only;
        (included || config.include.is_empty()) && !excluded && (reads || !config.read_only_only)
    });
    let wanted = wanted.collect();
    Ok(Selection { wanted, unmatched: lists.iter().flat_map(List::unmatched).collect() })
}

/// One list of selectors, and which of them have picked something.
struct List<'c> {
    key: &'static str,
    selectors: Vec<(&'c Selector, bool)>,
}

impl<'c> List<'c> {
    fn new(key: &'static str, selectors: &'c [Selector]) -> Self {
        Self { key, selectors: selectors.iter().map(|selector| (selector, false)).collect() }
    }

    /// Whether one of them picks an operation.
    fn picks(&mut self, operation: &Identity<'_>) -> bool {
        let mut any = false;
        for (selector, has_picked) in &mut self.selectors {
            let picks = selector.matches(operation);
            *has_picked |= picks;
            any |= picks;
        }
        any
    }

    fn unmatched(&self) -> impl Iterator<Item = Problem> {
        let idle = self.selectors.iter().enumerate().filter(|(_, (_, has_picked))| !has_picked);
        idle.map(|(index, _)| Problem {
            at: format!("{}/{index}", self.key),
            message: "it matches no operation of the document".to_owned(),
        })
    }

    /// A method is one that everybody knows, or one that the document has by itself.
    fn check_methods(&self, operations: &[Operation<'_>]) -> Result<(), String> {
        for (index, (selector, _)) in self.selectors.iter().enumerate() {
            let Some(method) = &selector.method else { continue };
            let is_usual = METHODS.iter().any(|known| known.eq_ignore_ascii_case(method));
            let is_there = || operations.iter().any(|one| one.method.as_str().eq_ignore_ascii_case(method));
            if !is_usual && !is_there() {
                let key = self.key;
                let known = METHODS.map(str::to_ascii_uppercase).join(", ");
                return Err(format!("`{key}[{index}].method`: `{method}` is no method; there are {known}"));
            }
        }
        Ok(())
    }
}

fn identity<'d>(operation: &'d Operation<'_>) -> Identity<'d> {
    Identity {
        id: text(operation.value, "operationId"),
        path: operation.path,
        method: operation.method.as_str(),
        tags: items(operation.value.get("tags")).filter_map(Value::as_str).collect(),
    }
}
