//! A program tool as configuration, and from there to a tool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::ports::{Access, Launcher};
use helve::{Annotations, Assumed, Category, DefinitionError, Facet, Problem, Risk, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handler::ProgramHandler;
use super::reach::Reach;
use super::variable::Variable;
use crate::common::{ToolCommon, ToolDefaults};

/// Most that `output_bytes_max` may be.
const OUTPUT_BYTES_LIMIT: usize = 16 << 20;

/// A tool that runs a program.
///
/// The program gets the arguments as one JSON object on stdin and answers with one JSON value on
/// stdout. What it writes to stderr is shown when it fails. It must exit with 0.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramToolConfig {
    /// What it says of itself.
    #[serde(flatten)]
    pub common: ToolCommon,
    /// The program: a path, or a bare name such as `python3` that is looked up in the system's
    /// folders. No shell reads it; arguments go into `args`.
    pub command: PathBuf,
    /// Its command-line arguments, word by word, as they stand. The arguments of a call never
    /// appear here: the program reads them from stdin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment: plain values, or `${env:NAME}` for the value of a variable of Helve's own
    /// environment, which is the way to pass a secret: its value is kept out of results and
    /// errors. Nothing else is inherited; `PATH`, `HELVE_CALL_ID` and, for a call that has one,
    /// `HELVE_IDEMPOTENCY_KEY` are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The folder in which it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<PathBuf>,
    /// How many bytes it may write to stdout, and to stderr; 1 MiB unless said, 16 MiB at most.
    #[serde(default = "default_output_bytes")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub output_bytes_max: usize,
    /// What else it may reach.
    #[serde(flatten)]
    pub reach: Reach,
    /// Memory of all its processes together, in mebibytes; `sandbox.memory_mb` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub memory_mb: Option<u64>,
    /// Processes and threads at a time; `sandbox.pids` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32_768))]
    pub pids: Option<u32>,
}

fn default_output_bytes() -> usize {
    1 << 20
}

impl ProgramToolConfig {
    /// A tool that runs `command`, with defaults for all else.
    pub fn new(common: ToolCommon, command: impl Into<PathBuf>) -> Self {
        Self {
            common,
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            work_dir: None,
            output_bytes_max: default_output_bytes(),
            reach: Reach::default(),
            memory_mb: None,
            pids: None,
        }
    }

    /// Reads relative paths as relative to `folder`, that of the configuration file, and lets the
    /// program start there unless it says where. A bare command name stays one.
    pub fn relative_to(mut self, folder: &Path) -> Self {
        if self.command.components().count() > 1 {
            // Without the `.` of `./run.sh`, which nobody wants to read in the middle of a path.
            self.command = folder.join(self.command).components().collect();
        }
        self.work_dir = Some(self.work_dir.map_or_else(|| folder.to_owned(), |dir| folder.join(dir)));
        self.reach = self.reach.placed(|path| folder.join(path));
        self
    }

    fn access(&self) -> Access {
        Access { memory_bytes: self.memory_mb.map(|mb| mb << 20), pids: self.pids, ..self.reach.access() }
    }
}

/// Makes a tool that runs a program through `launcher`, or says all that is wrong with it.
pub fn program_tool(config: ProgramToolConfig, launcher: Arc<dyn Launcher>) -> Result<Tool, DefinitionError> {
    let access = config.access();
    let ProgramToolConfig { common, command, args, env, work_dir, output_bytes_max, .. } = config;
    let name = common.name.clone();
    let mut problems = check_command(&command, &args);
    let mut variables = Vec::new();
    for (name, value) in &env {
        match Variable::read(name, value) {
            Ok(variable) => variables.push((name.clone(), variable)),
            Err(message) => problems.push(Problem { at: format!("env/{name}"), message }),
        }
    }
    if !(1..=OUTPUT_BYTES_LIMIT).contains(&output_bytes_max) {
        let message = format!("it must be from 1 to {OUTPUT_BYTES_LIMIT}");
        problems.push(Problem { at: "output_bytes_max".to_owned(), message });
    }
    let handler = ProgramHandler { launcher, command, args, variables, work_dir, output_bytes_max, access };
    let defaults =
        ToolDefaults { category: Category::Custom, risk: Risk::Medium, annotations: Annotations::default() };
    let assumed = assumed(&handler.access, handler.work_dir.as_deref());
    match common.into_builder(defaults).assumed(assumed).shared_handler(Arc::new(handler)).build() {
        Ok(tool) if problems.is_empty() => Ok(tool),
        Ok(_) => Err(DefinitionError { tool: name, problems }),
        Err(mut error) => {
            error.problems.extend(problems);
            Err(error)
        }
    }
}

/// What labels assume of a program whose tool does not say its facets: what its box lets it do. What the
/// operator's own program without a box writes is not taken for a stranger's words.
fn assumed(access: &Access, work_dir: Option<&Path>) -> Assumed {
    let has = |paths: &[PathBuf]| !paths.is_empty();
    let reaches = !access.network.is_empty();
    let reads = has(&access.read) || has(&access.write);
    let facets = [
        (Facet::ReadsUntrusted, reaches),
        (Facet::ReadsPrivate, reads || work_dir.is_some() || access.unconfined),
        (Facet::Egress, reaches || access.unconfined),
        (Facet::Mutates, has(&access.write) || access.unconfined),
    ];
    let facets = facets.into_iter().filter(|(_, does)| *does).map(|(facet, _)| facet).collect();
    Assumed { facets, ..Assumed::default() }
}

fn check_command(command: &Path, args: &[String]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut refuse =
        |at: &str, message: &str| problems.push(Problem { at: at.to_owned(), message: message.to_owned() });
    let text = command.to_string_lossy();
    if text.is_empty() {
        refuse("command", "it is empty; give a program");
    } else if text.contains('\0') {
        refuse("command", "it contains a NUL character");
    } else if !text.contains('/') && text.contains(char::is_whitespace) {
        refuse("command", "no shell reads it; put the program here and its arguments into `args`");
    }
    if args.iter().any(|arg| arg.contains('\0')) {
        refuse("args", "one contains a NUL character");
    }
    problems
}
