//! Where policies are read from. Unlike other lists, those of two layers do not replace each other:
//! what came with a project must not switch off what its user forbids.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::Layer;
use helve_mcp::trust::Verdict;
use serde_json::Value;

use super::asked::AskedSettings;
use super::document::Document;
use super::inputs::Inputs;
use super::load::expand_home;
use super::overrides::Override;

const POINTER: &str = "/policy/files";

/// A file of policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyPath {
    pub path: PathBuf,
    /// Whether it only takes away from what others permit.
    pub narrows: bool,
    /// Whether it is read only once a person has trusted it: it lies outside of the project that names it,
    /// and what is wrong with a file is shown with words out of it.
    pub waits: bool,
}

/// The files that the layers name, those that decide first.
///
/// The user's own decide, and so do those of a variable or a flag, which stand in for them. Where the
/// user has none, those of a file that was named with `--config` do: the user who named it answers for it.
/// What a project brings along only narrows.
pub(super) fn files(
    documents: &[(Layer, Arc<Document>)],
    overrides: &[Override],
    inputs: &Inputs,
    settings: &AskedSettings,
) -> Vec<PolicyPath> {
    let of_layer = |wanted: Layer| -> Vec<PathBuf> {
        let document = documents.iter().find(|(layer, _)| *layer == wanted).map(|(_, document)| document);
        document
            .map(|one| paths(one.value.pointer(POINTER), one.path.parent().unwrap_or(&inputs.work_dir)))
            .unwrap_or_default()
    };
    let given = overrides.iter().rev().find(|one| one.pointer == POINTER);
    let own = match given {
        Some(one) => paths(Some(&one.value), &inputs.work_dir),
        None => of_layer(Layer::Org),
    };
    let narrows = inputs.config.is_none() || !own.is_empty();
    let waits = settings.has(POINTER) && settings.verdict() != Verdict::Trusted;
    let own = own.into_iter().map(|path| PolicyPath { path, narrows: false, waits: false });
    let project = of_layer(Layer::Project).into_iter().map(|path| PolicyPath { path, narrows, waits });
    own.chain(project).collect()
}

fn paths(value: Option<&Value>, base: &Path) -> Vec<PathBuf> {
    let texts = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    texts.map(|text| base.join(expand_home(Path::new(text)))).collect()
}
