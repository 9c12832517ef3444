//! A program tool as configuration, and from there to a tool.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve::ports::{Access, Launcher};
use helve::{Annotations, Category, DefinitionError, Problem, Risk, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handler::{ProgramHandler, Variable};
use crate::common::{ToolCommon, ToolDefaults};
use crate::http::{literal, template::Template};

/// Most that `output_bytes_max` may be.
const OUTPUT_BYTES_LIMIT: usize = 16 << 20;
/// Names that Helve itself sets begin with this.
const OWN_PREFIX: &str = "HELVE_";
/// Names such as `TOKEN_FILE` say where a secret is and do not hold it.
const PLACE_SUFFIXES: [&str; 4] = ["_FILE", "_PATH", "_DIR", "_URL"];

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
    /// Files and folders that it may read beside the system's programs and libraries and its
    /// `work_dir`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Files and folders that it may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Hosts that it may reach, as `HOST:PORT`. It has no network but a proxy that leads there, named in
    /// `HTTPS_PROXY` and its like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Memory of all its processes together, in mebibytes; `sandbox.memory_mb` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub memory_mb: Option<u64>,
    /// Processes and threads at a time; `sandbox.pids` unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32_768))]
    pub pids: Option<u32>,
    /// Whether it runs in a box. `false` lets it do all that Helve itself may do.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub confined: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn is_true(value: &bool) -> bool {
    *value
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
            read: Vec::new(),
            write: Vec::new(),
            network: Vec::new(),
            memory_mb: None,
            pids: None,
            confined: true,
        }
    }

    /// Reads relative paths as relative to `folder`, that of the configuration file, and lets the
    /// program start there unless it says where. A bare command name stays one.
    pub fn relative_to(mut self, folder: &Path) -> Self {
        if self.command.components().count() > 1 {
            self.command = folder.join(self.command);
        }
        self.work_dir = Some(self.work_dir.map_or_else(|| folder.to_owned(), |dir| folder.join(dir)));
        for path in self.read.iter_mut().chain(&mut self.write) {
            *path = folder.join(&path);
        }
        self
    }

    fn access(&self) -> Access {
        Access {
            read: self.read.clone(),
            write: self.write.clone(),
            network: self.network.clone(),
            memory_bytes: self.memory_mb.map(|mb| mb << 20),
            pids: self.pids,
            unconfined: !self.confined,
        }
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
        match read_variable(name, value) {
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
    match common.into_builder(defaults).shared_handler(Arc::new(handler)).build() {
        Ok(tool) if problems.is_empty() => Ok(tool),
        Ok(_) => Err(DefinitionError { tool: name, problems }),
        Err(mut error) => {
            error.problems.extend(problems);
            Err(error)
        }
    }
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

fn read_variable(name: &str, value: &str) -> Result<Variable, String> {
    if !is_variable_name(name) {
        return Err("a name has letters, digits and `_`, and no digit first".to_owned());
    }
    if name.starts_with(OWN_PREFIX) {
        return Err("names that begin with `HELVE_` are set by Helve".to_owned());
    }
    if value.contains('\0') {
        return Err("the value contains a NUL character".to_owned());
    }
    if !value.contains("${") {
        let is_place = PLACE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        let refusal = literal::refusal(if is_place { "" } else { name }, &Template::text(value));
        return refusal.map_or_else(|| Ok(Variable::Literal(value.to_owned())), Err);
    }
    let reference = value.strip_prefix("${env:").and_then(|rest| rest.strip_suffix('}'));
    match reference.filter(|source| is_variable_name(source)) {
        Some(source) => Ok(Variable::FromEnvironment(source.to_owned())),
        None => Err("a reference is the whole value and reads `${env:NAME}`".to_owned()),
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
