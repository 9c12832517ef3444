//! Tools of a project that ask for more than the project's own folder: each runs only as a person has
//! trusted it.
//!
//! INVARIANT: such a tool runs only through a `Guarded` handler, which asks at every call what it asks for
//! by then, where links lead, and whether that is trusted; a program in a box gets nothing else than was
//! looked at, see `Agreed`. The gate ([`gate`]) asks the same earlier, so that nobody is asked to approve
//! what could not run anyway.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use helve::gate::{Action, PolicyRequest, PolicyResource, Stance, Vote, VoteSource};
use helve::json::sha256_hex;
use helve::ports::{Exit, LaunchError, Launcher, Policy, Program, Seen};
use helve::{
    BoxFuture, Context, DefinitionError, ErrorCode, Facet, Handler, Implementation, Preview, Registry, Tool,
    ToolError,
};
use helve_mcp::trust::{Scope, Verdict};
use helve_sandbox::Sandbox;
use helve_tools::program::ProgramToolConfig;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::demands::{self, Demand, Demands, KnownTools};
use super::judges;
use super::tools::typed;
use super::trust;
use crate::config::asked::AskedSettings;
use crate::config::trusted::{Store, look};
use crate::config::{Loaded, Origin, ToolEntry, ToolKind};

/// A tool, or an API, that a project brings.
#[derive(Clone)]
pub struct BroughtTool {
    /// The tool's name, or the API's namespace.
    pub name: String,
    pub kind: ToolKind,
    /// Of a program: with paths that start at the file's folder.
    pub program: Option<ProgramToolConfig>,
    pub scope: Scope,
    pub origin: Origin,
    definition: Value,
    /// Of an API: where its document lies, if it is a file.
    document: Option<PathBuf>,
    demands: Demands,
}

impl BroughtTool {
    /// What it asks for beyond the project's own folder, as things are at this moment.
    pub fn demands(&self) -> Vec<Demand> {
        self.demands.now()
    }

    /// The file that would be started now, if there is one.
    fn starts(&self) -> Option<PathBuf> {
        let found = Sandbox::default().locate(&self.program.as_ref()?.command).ok()?;
        Some(found.canonicalize().unwrap_or(found))
    }

    /// What counts: all of its definition, what it asks for, which file it starts, and what stands in the
    /// document that says where requests go. There is nothing for one that cannot be written down, because
    /// a path in it is not UTF-8: nobody can trust that.
    pub fn pinned(&self) -> Option<Value> {
        self.pinned_with(&self.demands())
    }

    fn pinned_with(&self, demands: &[Demand]) -> Option<Value> {
        let mut pinned = self.definition.clone();
        let fields = pinned.as_object_mut()?;
        if self.program.is_some() {
            fields.insert("starts".to_owned(), serde_json::to_value(self.starts()).ok()?);
        }
        if let Some(document) = &self.document {
            let digest = std::fs::read(document).map(|bytes| sha256_hex(&bytes)).unwrap_or_default();
            fields.insert("document_sha256".to_owned(), json!(digest));
        }
        let asks: Vec<_> = demands.iter().map(|demand| format!("{}: {demand}", demand.word())).collect();
        fields.insert("asks_for".to_owned(), json!(asks));
        Some(pinned)
    }

    /// Whether it may be called, as it is at this moment, and with what.
    pub fn verdict(&self) -> Verdict {
        self.judged().0
    }

    fn judged(&self) -> (Verdict, Vec<Demand>) {
        let demands = self.demands();
        let verdict = match (demands.is_empty(), look(Store::Tools)) {
            (true, _) => Verdict::Trusted,
            (false, Some(trust)) => match self.pinned_with(&demands) {
                Some(pinned) => trust.check_value(&self.scope, &self.name, &pinned),
                None => Verdict::Unknown,
            },
            (false, None) => Verdict::Unknown,
        };
        (verdict, demands)
    }

    /// Why it may not be called, if it may not.
    fn refusal(&self) -> Option<String> {
        let name = &self.name;
        match self.judged() {
            (Verdict::Trusted, _) => None,
            (Verdict::Changed { .. }, demands) => Some(format!(
                "`{name}` came with this project{}, and is not what was trusted; \
                 a person must look at it first: `helve trust` shows what has changed",
                asks_for(&demands)
            )),
            (Verdict::Unknown, demands) => Some(format!(
                "`{name}` came with this project{}, and nobody has trusted it; \
                 a person must look at it first: `helve trust` shows what it would do",
                asks_for(&demands)
            )),
        }
    }

    /// Whether a tool of this name is it, or one of its own.
    fn answers_to(&self, tool: &str) -> bool {
        match self.kind {
            ToolKind::OpenApi => tool.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('/')),
            ToolKind::Http | ToolKind::Program | ToolKind::Composed(_) => tool == self.name,
        }
    }
}

/// The worst of what a tool asks for, in words that go on a sentence.
fn asks_for(demands: &[Demand]) -> String {
    let words = |demand: &Demand| match demand {
        Demand::NoBox => "runs without a box".to_owned(),
        Demand::Read(lead) => format!("reads `{lead}`"),
        Demand::Write(lead) => format!("writes to `{lead}`"),
        Demand::Start(lead) => format!("starts `{lead}`"),
        Demand::Network(hosts) => format!("reaches {}", hosts.join(", ")),
        Demand::Secret(reference) => format!("gets the secret {reference}"),
        Demand::Address(address) => format!("reaches {address}"),
        Demand::Fetch(url) => format!("fetches {url}"),
        Demand::AnyServer => "lets its document say who gets the secrets".to_owned(),
        Demand::Replace(whom) => format!("takes the place of {whom}"),
        Demand::Call(whom) => format!("calls {whom}"),
        Demand::Combine(reads, sends) => format!("sends what `{reads}` reads here by `{sends}`"),
        Demand::Remember => "changes what your own journal remembers".to_owned(),
        Demand::More(what, number) => format!("wants {what} = {number}"),
    };
    demands.iter().map(|demand| format!(", {}", words(demand))).collect()
}

/// The project's tools that ask for something, trusted or not.
pub fn all(loaded: &Loaded) -> Vec<BroughtTool> {
    let brought = listed(loaded).into_iter().filter(|one| !one.demands().is_empty());
    brought.collect()
}

/// The project's tools that ask for something, or could by the next call.
fn listed(loaded: &Loaded) -> Vec<BroughtTool> {
    // One that is broken runs nothing, and is trusted once it is mended.
    let foreign = |entry: &&ToolEntry| loaded.is_foreign(entry.layer) && entry.problems.is_empty();
    let mut entries = loaded.tools.iter().filter(foreign).peekable();
    if entries.peek().is_none() {
        return Vec::new();
    }
    let known = KnownTools::of(loaded);
    entries.filter_map(|entry| of_entry(entry, loaded, &known)).collect()
}

/// What this entry is of these, if it is.
pub(super) fn of_entry(entry: &ToolEntry, loaded: &Loaded, known: &KnownTools) -> Option<BroughtTool> {
    if !loaded.is_foreign(entry.layer) {
        return None;
    }
    let demands = demands::of_entry(entry, loaded, known);
    // What cannot be read is refused when it is made.
    let program = match entry.kind {
        ToolKind::Program => Some(typed::<ProgramToolConfig>(entry).ok()?.relative_to(&entry.base_dir())),
        ToolKind::Http | ToolKind::OpenApi | ToolKind::Composed(_) => None,
    };
    let document = entry.value.get("document").and_then(Value::as_str);
    let document = document.filter(|_| entry.kind == ToolKind::OpenApi && entry.remote_document().is_none());
    let asks = demands.can_change() || !demands.now().is_empty();
    asks.then(|| BroughtTool {
        name: entry.label().to_owned(),
        kind: entry.kind,
        definition: program.as_ref().map_or_else(|| entry.value.clone(), |program| json!(program)),
        document: document.map(|document| entry.base_dir().join(document)),
        program,
        scope: trust::scope(loaded),
        origin: entry.origin(),
        demands,
    })
}

/// The files that programs without a box are made of, whatever brought them.
pub(super) fn scripts(loaded: &Loaded) -> Vec<PathBuf> {
    let programs = loaded.tools.iter().filter(|entry| entry.kind == ToolKind::Program);
    let configs = programs
        .filter_map(|entry| Some(typed::<ProgramToolConfig>(entry).ok()?.relative_to(&entry.base_dir())));
    let unboxed = configs.filter(|config| !config.reach.confined);
    let scripts = |config: ProgramToolConfig| {
        let folder = config.work_dir.unwrap_or_default();
        judges::scripts_of(&config.command, &config.args, &folder)
    };
    unboxed.flat_map(scripts).collect()
}

/// The same tool, which runs only while what it asks for is trusted.
pub(super) fn guarded(tool: &Tool, brought: Arc<BroughtTool>) -> Result<Tool, DefinitionError> {
    let handler = Guarded { inner: Arc::clone(tool.handler()), brought };
    Tool::new(tool.definition().clone(), Arc::new(handler))
}

/// A project's tool, as labels must take it whatever the project says of it: a request sends something out
/// and brings back what strangers wrote; a program reads what lies in the project.
pub(super) fn labelled(tool: &Tool, kind: ToolKind) -> Result<Tool, DefinitionError> {
    let mut definition = tool.definition().clone();
    match (kind, &mut definition.facets) {
        (ToolKind::Http | ToolKind::OpenApi, facets) => {
            facets.get_or_insert_default().extend([Facet::ReadsUntrusted, Facet::Egress]);
        }
        (ToolKind::Program, Some(facets)) => drop(facets.insert(Facet::ReadsPrivate)),
        // It is assumed of a program whose facets nobody says.
        (ToolKind::Program, None) | (ToolKind::Composed(_), _) => {}
    }
    Tool::new(definition, Arc::clone(tool.handler()))
}

struct Guarded {
    inner: Arc<dyn Handler>,
    brought: Arc<BroughtTool>,
}

impl Guarded {
    /// Why it does not run.
    fn refusal(&self) -> Option<ToolError> {
        let refusal = match self.brought.verdict() {
            Verdict::Trusted => None,
            // The gate knows the definition as it is now, and let it pass: what is old is this one.
            Verdict::Changed { .. } => Some(format!(
                "`{}` has changed, and what was trusted is not what would run; whatever serves it takes that up in \
                 a moment, or `helve doctor` says why not",
                self.brought.name
            )),
            Verdict::Unknown => self.brought.refusal(),
        };
        refusal.map(|why| {
            ToolError::new(ErrorCode::PermissionDenied, why).suggest("do not repeat it; tell the user")
        })
    }
}

impl Handler for Guarded {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        match self.refusal() {
            None => self.inner.call(arguments, context),
            Some(denied) => Box::pin(std::future::ready(Err(denied))),
        }
    }

    /// Only of what is trusted: the address of a request may name a secret.
    fn preview(
        &self,
        arguments: &Value,
        context: Context,
    ) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        match self.refusal() {
            None => self.inner.preview(arguments, context),
            Some(denied) => Some(Box::pin(std::future::ready(Err(denied)))),
        }
    }

    fn needs_preview(&self) -> bool {
        self.inner.needs_preview()
    }

    fn implementation(&self) -> Implementation {
        self.inner.implementation()
    }

    fn fingerprint(&self) -> String {
        self.inner.fingerprint()
    }

    fn undoes_on_error(&self) -> bool {
        self.inner.undoes_on_error()
    }

    fn parts(&self) -> Vec<String> {
        self.inner.parts()
    }
}

/// Starts a project's program with what was looked at, and nothing else: where a link leads elsewhere by
/// the time the box is built, there is no box.
pub(super) struct Agreed {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) brought: Arc<BroughtTool>,
}

impl Launcher for Agreed {
    fn launch_seen(
        &self,
        mut program: Program,
        cancellation: CancellationToken,
        seen: Seen,
    ) -> BoxFuture<'_, Result<Exit, LaunchError>> {
        let (verdict, demands) = self.brought.judged();
        let granted = if verdict == Verdict::Trusted { demands } else { Vec::new() };
        program.access.within = Some(self.brought.demands.within(&granted));
        self.sandbox.launch_seen(program, cancellation, seen)
    }
}

/// Who decides: the policies, and before them what waits to be trusted.
pub fn gate(loaded: &Loaded, registry: &Registry) -> Arc<dyn Policy> {
    let policies = super::policy::policies(loaded, registry);
    let (tools, settings) = (listed(loaded), Arc::clone(&loaded.in_use));
    match tools.is_empty() && settings.is_empty() {
        true => Arc::new(policies),
        false => Arc::new(TrustFirst { tools, settings, policies }),
    }
}

struct TrustFirst<P> {
    tools: Vec<BroughtTool>,
    /// Settings of the project that all tools were made with.
    settings: Arc<AskedSettings>,
    policies: P,
}

impl<P> TrustFirst<P> {
    fn refusal(&self, request: &PolicyRequest<'_>) -> Option<String> {
        let (Action::Call, PolicyResource::Tool(tool)) = (request.action, request.resource) else {
            return None;
        };
        if self.settings.verdict() != Verdict::Trusted {
            return Some(SETTINGS_GONE.to_owned());
        }
        let name = tool.name().as_str();
        self.tools.iter().find(|one| one.answers_to(name)).and_then(BroughtTool::refusal)
    }
}

const SETTINGS_GONE: &str = "this Helve was started with settings of the project that are not trusted any more, or \
    lead elsewhere by now; `helve trust` shows them; then restart `helve up`, or whatever else serves it";

impl<P: Policy> Policy for TrustFirst<P> {
    fn rule(&self, request: &PolicyRequest<'_>) -> Vote {
        match self.refusal(request) {
            Some(why) => Vote::new(VoteSource::Trust, Stance::Deny).because(why),
            None => self.policies.rule(request),
        }
    }
}

/// The project's tools and APIs that wait, by name, with what is known of each.
pub fn waiting(loaded: &Loaded) -> BTreeMap<String, &'static str> {
    let verdicts = all(loaded).into_iter().map(|one| (one.verdict(), one.name));
    let waiting = verdicts.filter(|(verdict, _)| *verdict != Verdict::Trusted);
    waiting.map(|(verdict, name)| (name, trust::word(&verdict))).collect()
}
