//! What the configuration is read from: files, variables and flags.

use std::cell::LazyCell;
use std::path::PathBuf;
use std::sync::Arc;

use helve::{Layer, Schema};

use super::document::Document;
use super::entry::is_tool_list;
use super::find;
use super::hooks::is_hook;
use super::overrides::{self, Override};
use super::pointer::dotted;
use crate::error::HostError;

/// What the layers are read from.
#[derive(Clone)]
pub struct Inputs {
    pub work_dir: PathBuf,
    /// `--config`: read this instead of the project's file.
    pub config: Option<PathBuf>,
    /// `--set`, in order.
    pub sets: Vec<String>,
    pub variables: Vec<(String, String)>,
    pub project: ProjectFile,
}

impl Inputs {
    /// The nearest project's file, and the variables of this process.
    pub fn of_process(work_dir: PathBuf) -> Self {
        // A variable that is not text cannot be one of ours.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { work_dir, config: None, sets: Vec::new(), variables, project: ProjectFile::default() }
    }
}

/// Which file is the project's, where `--config` names none.
#[derive(Clone, Default)]
pub enum ProjectFile {
    /// The nearest one.
    #[default]
    Nearest,
    /// This one, whatever else is found.
    Only(Option<PathBuf>),
}

/// The files, the user's first.
pub(super) fn documents(inputs: &Inputs) -> Result<Vec<(Layer, Arc<Document>)>, HostError> {
    let user = match find::user_file() {
        Some(file) if find::is_there(&file)? => Some(file),
        Some(_) | None => None,
    };
    let project = match (&inputs.config, &inputs.project) {
        (Some(file), _) => Some(inputs.work_dir.join(file)),
        (None, ProjectFile::Nearest) => find::project_file(&inputs.work_dir)?,
        (None, ProjectFile::Only(file)) => file.clone(),
    };
    let is_named = inputs.config.is_some();
    let project = project.filter(|file| is_named || Some(file) != user.as_ref());
    let mut documents = Vec::new();
    for (layer, file) in [(Layer::Org, user), (Layer::Project, project)] {
        if let Some(file) = file {
            documents.push((layer, Arc::new(Document::read(&file)?)));
        }
    }
    Ok(documents)
}

pub(super) fn all_overrides(inputs: &Inputs, schema: &LazyCell<Schema>) -> Result<Vec<Override>, HostError> {
    let mut overrides = overrides::from_environment(inputs.variables.iter().cloned(), schema);
    for text in &inputs.sets {
        overrides.push(overrides::from_flag(text, schema)?);
    }
    match overrides.iter().find(|one| is_tool_list(&one.pointer) || is_hook(&one.pointer)) {
        Some(one) => {
            Err(HostError::usage(format!("{} cannot be set by {}", dotted(&one.pointer), one.origin))
                .hint("describe tools and hooks in helve.toml; `helve init` writes one"))
        }
        None => Ok(overrides),
    }
}
