//! The variables that other programs allow in their files, written as ours.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Kind, ServerFile};
use crate::text::{clean, one_line};

/// Longest text in which variables are looked for.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Writes the variables of a file's texts as ours.
pub(super) struct Variables<'a> {
    found: &'a ServerFile,
    /// What VS Code would ask the person for: by id, what it says.
    inputs: BTreeMap<&'a str, &'a str>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(found: &'a ServerFile, document: &'a Value) -> Self {
        let text = |input: &'a Value, key: &str| input.get(key).and_then(Value::as_str);
        let inputs = document.get("inputs").and_then(Value::as_array).into_iter().flatten();
        let inputs = inputs
            .filter_map(|input| Some((text(input, "id")?, text(input, "description").unwrap_or_default())))
            .collect();
        Self { found, inputs }
    }

    /// The text with our variables in it. `notes` gets what a person has to do for it.
    pub(super) fn translate(&self, text: &str, notes: &mut Vec<String>) -> Result<String, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err("a text in it is longer than 64 KiB".to_owned());
        }
        let mut translated = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            translated.push_str(before);
            let Some((variable, after)) = after.split_once('}') else {
                translated.push_str("${");
                rest = after;
                continue;
            };
            match self.one(variable, notes) {
                Some(value) => translated.push_str(&value),
                None => translated.push_str(&format!("${{{variable}}}")),
            }
            rest = after;
        }
        translated.push_str(rest);
        Ok(translated)
    }

    fn one(&self, variable: &str, notes: &mut Vec<String>) -> Option<String> {
        match self.found.kind {
            Kind::ClaudeDesktop => None,
            Kind::ClaudeCode | Kind::ClaudeCodeUser => {
                let (name, default) = match variable.split_once(":-") {
                    Some((name, default)) => (name, Some(default)),
                    None => (variable, None),
                };
                let reference = is_name(name).then(|| format!("${{env:{name}}}"))?;
                if default.is_some_and(|default| !default.is_empty()) {
                    notes.push(format!(
                        "set the environment variable `{name}`: the file has a default for it, which is not taken over"
                    ));
                }
                Some(reference)
            }
            Kind::VsCode | Kind::Cursor => self.of_editor(variable, notes),
        }
    }

    fn of_editor(&self, variable: &str, notes: &mut Vec<String>) -> Option<String> {
        let project = &self.found.project;
        match variable.split_once(':').map_or((variable, None), |(kind, name)| (kind, Some(name))) {
            ("env", Some(name)) if is_name(name) => Some(format!("${{env:{name}}}")),
            ("input", Some(id)) => {
                let name = variable_name(&[id]);
                let says = self.inputs.get(id).copied().unwrap_or_default();
                let says = one_line(&clean(says).text, 120);
                let says = if says.is_empty() { String::new() } else { format!(" ({says})") };
                let note =
                    format!("set the environment variable `{name}`, for which the editor would ask{says}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
                Some(format!("${{env:{name}}}"))
            }
            ("workspaceFolder" | "workspaceRoot", None) => Some(project.display().to_string()),
            ("workspaceFolderBasename", None) => Some(project.file_name()?.to_string_lossy().into_owned()),
            ("userHome", None) => Some(self.found.home.display().to_string()),
            ("pathSeparator" | "/", None) => Some(std::path::MAIN_SEPARATOR.to_string()),
            _ => {
                notes.push(format!("the variable `${{{}}}` has no meaning here", one_line(variable, 64)));
                None
            }
        }
    }
}

/// A name for an environment variable, made of these parts.
pub(super) fn variable_name(parts: &[&str]) -> String {
    let fold = |part: &str| -> String {
        let upper =
            part.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
        upper.collect::<String>().trim_matches('_').to_owned()
    };
    let parts: Vec<String> = parts.iter().map(|part| fold(part)).filter(|part| !part.is_empty()).collect();
    let mut name = parts.join("_");
    name.truncate(100);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert_str(0, "MCP_");
    }
    name
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
