//! A tool: a checked definition, compiled schemas, and what runs.

pub mod builder;
pub mod definition;
mod function;
pub mod parameter;

pub mod cost;
pub mod effect;
pub mod precondition;
pub mod preview;
pub mod retry;
mod tagged_table;
mod template_check;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::BoxFuture;
use crate::builder::ToolBuilder;
use crate::context::Context;
use crate::definition::{Definition, DefinitionError, Example, Problem, Risk, limits};
use crate::effect::EffectHandler;
use crate::error::ToolError;
use crate::label::TellsReads;
use crate::memory::MemoryLimits;
use crate::name::{NameError, ToolName};
use crate::precondition::{Check, Condition, Expected};
use crate::preview::Preview;
use crate::run::{RecallHandler, UndoHandler};
use crate::schema::Schema;

/// What runs when a permitted call is executed.
///
/// Arguments have passed the input schema. The future must be cancel-safe: at the deadline it is
/// told through [`Context::cancelled`] and soon after dropped.
pub trait Handler: Send + Sync + 'static {
    /// Runs the tool once.
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>>;

    /// What sort of thing runs.
    fn implementation(&self) -> Implementation {
        Implementation::Function
    }

    /// Whether the first step of the future is sure to be short. It is then taken in the caller's
    /// own task, which saves a trip through the scheduler; see [`ToolBuilder::instant`].
    fn is_instant(&self) -> bool {
        false
    }

    /// Whether every step of the future is sure to be short, and not the first alone. It then runs
    /// in the caller's task to its end.
    fn is_light(&self) -> bool {
        false
    }

    /// Text that changes whenever what runs changes in a way that the definition does not show,
    /// such as the steps of a composition. A part of [`Tool::digest`].
    fn fingerprint(&self) -> String {
        String::new()
    }

    /// The definition as the tool's provider wrote it, in MCP's form: MCP clients get it with
    /// all that is in it, also what Helve does not know.
    fn mcp_definition(&self) -> Option<Arc<RawValue>> {
        None
    }

    /// Whether what was attached to an answer ([`Context::attach`]) says nothing beyond the result. Hooks
    /// are not shown it a second time then.
    fn attached_says_no_more(&self, _attached: &RawValue, _result: &Value) -> bool {
        false
    }

    /// What a call would do, in words or as a diff, for the person who is asked about it. It must
    /// only look, and is given little time. None: the arguments say it all.
    ///
    /// A [fingerprint](Preview::fingerprint) covers what the call would use besides its arguments; the running
    /// handler compares with it by [`Context::still_approved`]. See [`ToolBuilder::preview_with`] for both sides.
    fn preview(
        &self,
        _arguments: &Value,
        _context: Context,
    ) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        None
    }

    /// Whether nobody is asked without a preview, because what the call does depends on more than its arguments. Where
    /// [`preview`](Self::preview) fails or takes too long, the call then ends with its error; otherwise a person is asked all the same.
    fn needs_preview(&self) -> bool {
        false
    }

    /// Whether the parts that had succeeded are to be undone when the call fails. For what calls
    /// other tools through [`Context::call_part`].
    fn undoes_on_error(&self) -> bool {
        false
    }

    /// The tools that it calls as its parts, each once, as it names them.
    fn parts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The sorts of implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Implementation {
    /// A Rust function.
    Function,
    /// A request to an HTTP API.
    Http,
    /// A program in a box.
    Program,
    /// A tool of an MCP server.
    Mcp,
    /// Other tools, put together.
    Composition,
}

impl Implementation {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Http => "http",
            Self::Program => "program",
            Self::Mcp => "mcp",
            Self::Composition => "composition",
        }
    }
}

/// Whether a failed attempt is worth another, by a tool's own judgement: the error, and the number
/// of the attempt that ended in it, from 1. See [`ToolBuilder::retry_if`].
pub type RetryIf = Arc<dyn Fn(&ToolError, u32) -> bool + Send + Sync>;

/// Every way to write what a text of a call's arguments means: see [`ToolBuilder::spellings`].
pub type Spellings = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// A tool that passed all checks.
///
/// ```
/// use helve_core::{Context, Tool, ToolError};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     a: f64,
///     b: f64,
/// }
///
/// async fn add(input: Add, _context: Context) -> Result<f64, ToolError> {
///     Ok(input.a + input.b)
/// }
///
/// let tool = Tool::function("add", "Adds two numbers.", add).build().unwrap();
/// assert_eq!(tool.name().as_str(), "add");
/// ```
#[derive(Clone)]
pub struct Tool(Arc<Inner>);

struct Inner {
    definition: Definition,
    input: Schema,
    output: Option<Schema>,
    handler: Arc<dyn Handler>,
    own: OwnCode,
    /// What its preconditions expect of states, by their index.
    expected: BTreeMap<usize, Expected>,
    provider_name: String,
    digest: OnceLock<Arc<str>>,
}

/// Code that a tool brings along besides its handler. Nearly always empty.
#[derive(Clone, Default)]
pub(crate) struct OwnCode {
    pub(crate) checks: BTreeMap<usize, Arc<dyn Check>>,
    pub(crate) effects: BTreeMap<usize, Arc<dyn EffectHandler>>,
    pub(crate) undo: Option<Arc<dyn UndoHandler>>,
    pub(crate) recall: Option<Arc<dyn RecallHandler>>,
    pub(crate) retry_if: Option<RetryIf>,
    pub(crate) spellings: Option<Spellings>,
    pub(crate) tells_reads: Option<Arc<dyn TellsReads>>,
}

impl Tool {
    /// Starts a tool with explicit schemas or parameters.
    pub fn builder(name: impl Into<String>) -> ToolBuilder {
        ToolBuilder::new(name)
    }

    /// Starts a tool from a typed async function. Both schemas come from its types.
    pub fn function<I, O, F, R>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> ToolBuilder
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + Send + 'static,
        F: Fn(I, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        ToolBuilder::new(name).description(description).function(function)
    }

    /// Checks a definition, compiles its schemas and joins it with what runs.
    pub fn new(definition: Definition, handler: Arc<dyn Handler>) -> Result<Self, DefinitionError> {
        Self::with_own_code(definition, handler, OwnCode::default())
    }

    pub(crate) fn with_own_code(
        definition: Definition,
        handler: Arc<dyn Handler>,
        own: OwnCode,
    ) -> Result<Self, DefinitionError> {
        let mut problems = check_texts(&definition);
        let mut compile = |at: &str, compiled: Result<Schema, Vec<Problem>>| match compiled {
            Ok(schema) => Some(schema),
            Err(found) => {
                problems.extend(
                    found.into_iter().map(|p| Problem { at: format!("{at}{}", p.at), message: p.message }),
                );
                None
            }
        };
        let input = compile("input_schema", Schema::compile_object(definition.input_schema.clone()));
        let output =
            definition.output_schema.clone().and_then(|json| compile("output_schema", Schema::compile(json)));
        if let Some(input) = &input {
            problems.extend(check_examples(&definition, input));
        }
        let (expected, refused) = read_expected(&definition);
        problems.extend(refused);
        problems.extend(template_check::problems(&definition, |effect| own.effects.contains_key(&effect)));
        match input {
            Some(input) if problems.is_empty() => Ok(Self(Arc::new(Inner {
                provider_name: definition.name.provider_name(),
                definition,
                input,
                output,
                handler,
                own,
                expected,
                digest: OnceLock::new(),
            }))),
            _ => Err(DefinitionError { tool: definition.name.to_string(), problems }),
        }
    }

    /// The same tool inside a namespace.
    pub fn within(&self, namespace: &str) -> Result<Self, NameError> {
        let mut definition = self.0.definition.clone();
        definition.name = definition.name.within(namespace)?;
        Ok(Self(Arc::new(Inner {
            provider_name: definition.name.provider_name(),
            definition,
            input: self.0.input.clone(),
            output: self.0.output.clone(),
            handler: Arc::clone(&self.0.handler),
            own: self.0.own.clone(),
            expected: self.0.expected.clone(),
            digest: OnceLock::new(),
        })))
    }

    /// Its full name, namespace included.
    pub fn name(&self) -> &ToolName {
        &self.0.definition.name
    }

    /// The name that every provider accepts; see [`ToolName::provider_name`].
    pub fn provider_name(&self) -> &str {
        &self.0.provider_name
    }

    /// What it says of itself.
    pub fn definition(&self) -> &Definition {
        &self.0.definition
    }

    /// What its arguments must fit.
    pub fn input(&self) -> &Schema {
        &self.0.input
    }

    /// What its results must fit.
    pub fn output(&self) -> Option<&Schema> {
        self.0.output.as_ref()
    }

    /// The code that runs when the tool is called.
    pub fn handler(&self) -> &Arc<dyn Handler> {
        &self.0.handler
    }

    /// Its own judgement whether a failed attempt is worth another, besides the policy's.
    pub fn retry_if(&self) -> Option<&RetryIf> {
        self.0.own.retry_if.as_ref()
    }

    /// Every way to write what a text of its arguments means, where it knows of more than one.
    pub fn spellings(&self, text: &str) -> Option<Vec<String>> {
        self.0.own.spellings.as_ref().map(|spellings| spellings(text))
    }

    /// How it tells calls that read private things from those that do not, where it can.
    pub fn tells_reads(&self) -> Option<&Arc<dyn TellsReads>> {
        self.0.own.tells_reads.as_ref()
    }

    /// A digest of all that the tool says of itself. An approval or a pin is bound to it.
    pub fn digest(&self) -> &Arc<str> {
        self.0.digest.get_or_init(|| {
            let json = serde_json::to_value(&self.0.definition).expect("a definition is plain data");
            let mut text = crate::json::canonical(&json);
            text.push_str(&self.0.handler.fingerprint());
            crate::json::sha256_hex(text.as_bytes()).into()
        })
    }

    /// Code of the tool's own that checks a precondition.
    pub fn check(&self, index: usize) -> Option<&Arc<dyn Check>> {
        self.0.own.checks.get(&index)
    }

    /// What a precondition expects of a state.
    pub fn expected(&self, index: usize) -> Option<&Expected> {
        self.0.expected.get(&index)
    }

    /// Code of the tool's own that applies an effect.
    pub fn effect_handler(&self, index: usize) -> Option<&Arc<dyn EffectHandler>> {
        self.0.own.effects.get(&index)
    }

    /// Code of the tool's own that undoes what it did.
    pub fn undo_handler(&self) -> Option<&Arc<dyn UndoHandler>> {
        self.0.own.undo.as_ref()
    }

    /// Code of the tool's own that finds out whether a call had its effect.
    pub fn recall_handler(&self) -> Option<&Arc<dyn RecallHandler>> {
        self.0.own.recall.as_ref()
    }

    /// Whether it is made of other tools, which it calls.
    pub fn is_composed(&self) -> bool {
        self.0.handler.implementation() == Implementation::Composition
    }

    /// Whether a call makes a source ask a person, where that begins at the risk `ask_from`: about itself, or, of a
    /// composed tool, about the part that is of this risk.
    pub fn needs_approval(&self, ask_from: Risk) -> bool {
        self.0.definition.requires_approval || self.0.definition.risk >= ask_from
    }

    /// What is allowed but unwise. `helve tools lint` shows it.
    pub fn warnings(&self) -> Vec<Problem> {
        let definition = &self.0.definition;
        let mut warnings = Vec::new();
        let mut warn = |at: &str, message: String| warnings.push(Problem { at: at.to_owned(), message });
        // `ns/tool` as `ns__tool` is still readable; a name with a digest is not.
        if self.0.provider_name != definition.name.as_str().replace('/', "__") {
            warn(
                "name",
                format!("model providers refuse `{}`; they see `{}`", definition.name, self.0.provider_name),
            );
        }
        if definition.description.len() < 20 {
            warn(
                "description",
                "a model chooses by the description; say what it does and returns".to_owned(),
            );
        }
        if definition.when_to_use.is_none() {
            warn("when_to_use", "absent; a line on when to choose the tool helps models most".to_owned());
        }
        let fields =
            definition.input_schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (key, field) in fields {
            if field.get("description").is_none() && field.get("$ref").is_none() {
                warn(&format!("input_schema/properties/{key}"), "has no description".to_owned());
            }
        }
        warnings
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", self.name()).finish_non_exhaustive()
    }
}

fn check_texts(definition: &Definition) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut refuse = |at: &str, message: String| problems.push(Problem { at: at.to_owned(), message });
    if definition.description.trim().is_empty() {
        refuse("description", "it is empty; a model chooses a tool by it".to_owned());
    }
    for (at, text) in
        [("description", Some(&definition.description)), ("when_to_use", definition.when_to_use.as_ref())]
    {
        if text.is_some_and(|text| text.len() > limits::TEXT_BYTES_MAX) {
            refuse(at, format!("it is longer than {} bytes", limits::TEXT_BYTES_MAX));
        }
        if text.is_some_and(|text| text.contains('\0')) {
            refuse(at, "it contains a NUL character".to_owned());
        }
    }
    if definition.timeout_ms == Some(0) {
        refuse("timeout_ms", "zero would stop every call; leave it out for the default".to_owned());
    }
    for alias in &definition.aliases {
        let plain = !alias.is_empty() && alias.len() <= 128 && alias.bytes().all(|b| b.is_ascii_graphic());
        if !plain {
            refuse(
                "aliases",
                format!("`{}` is not a name of 1 to 128 visible ASCII characters", alias.escape_debug()),
            );
        }
    }
    for (at, count, max) in [
        ("examples", definition.examples.len(), limits::EXAMPLES_MAX),
        ("aliases", definition.aliases.len(), limits::ITEMS_MAX),
        ("integrations", definition.integrations.len(), limits::ITEMS_MAX),
        ("preconditions", definition.preconditions.len(), limits::ITEMS_MAX),
        ("effects", definition.effects.len(), limits::ITEMS_MAX),
    ] {
        if count > max {
            refuse(at, format!("{count} are too many; at most {max}"));
        }
    }
    problems
}

/// Reads what the preconditions expect of states: a broken predicate must not wait for a call.
fn read_expected(definition: &Definition) -> (BTreeMap<usize, Expected>, Vec<Problem>) {
    let (mut read, mut problems) = (BTreeMap::new(), Vec::new());
    for (index, precondition) in definition.preconditions.iter().enumerate() {
        let Condition::State { state, expected, .. } = &precondition.condition else { continue };
        let mut refuse = |field: &str, message: String| {
            problems.push(Problem { at: format!("preconditions/{index}/{field}"), message });
        };
        if let Err(error) = MemoryLimits::default().check_key(state) {
            refuse("state", error.to_string());
        }
        match Expected::read(expected) {
            Ok(expected) => drop(read.insert(index, expected)),
            Err(error) => refuse("expected", error.to_string()),
        }
    }
    (read, problems)
}

fn check_examples(definition: &Definition, input: &Schema) -> Vec<Problem> {
    let wrong = |(index, example): (usize, &Example)| {
        let Example::Arguments { arguments, .. } = example else { return None };
        let error = input.validate(arguments).err()?.into_iter().next()?;
        Some(Problem {
            at: format!("examples/{index}"),
            message: format!("does not fit the input schema: {}", error.message),
        })
    };
    definition.examples.iter().enumerate().filter_map(wrong).collect()
}
