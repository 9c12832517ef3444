//! One readable text of all that a tool says to a model.

use super::clean::clean;
use super::cut::cut_text;
use super::export::ExportOptions;
use crate::{Definition, Example, Tool};

/// The parts of a description, most important first.
pub(super) struct Description {
    parts: Vec<String>,
}

impl Description {
    /// What the tool does, when to use it, and its examples as they are called under `name`.
    pub(super) fn of(tool: &Tool, name: &str) -> Self {
        let definition = tool.definition();
        let mut parts = vec![definition.description.trim().to_owned()];
        if let Some(when) = definition.when_to_use.as_deref().map(str::trim).filter(|when| !when.is_empty()) {
            parts.push(format!("When to use:\n{when}"));
        }
        parts.extend(examples(definition, name));
        Self { parts }
    }

    /// Adds what the provider's schema cannot say. It is second in importance: a call that goes
    /// against it is refused.
    pub(super) fn note(&mut self, note: String) {
        self.parts.insert(1, note);
    }

    pub(super) fn into_text(mut self, options: &ExportOptions) -> String {
        let Some(chars_max) = options.description_chars_max else { return self.join() };
        while self.parts.len() > 1 && self.join().chars().count() > chars_max {
            self.parts.pop();
        }
        // Characters, not bytes: that is what providers count.
        let text = self.join();
        match text.char_indices().nth(chars_max) {
            Some((bytes_max, _)) => cut_text(&text, bytes_max).to_owned(),
            None => text,
        }
    }

    fn join(&self) -> String {
        clean(&self.parts.join("\n\n")).into_owned()
    }
}

fn examples(definition: &Definition, name: &str) -> Option<String> {
    let lines: Vec<_> = definition
        .examples
        .iter()
        .map(|example| format!("- {}", Example::to_line(example, name).trim()))
        .collect();
    (!lines.is_empty()).then(|| format!("Examples:\n{}", lines.join("\n")))
}
