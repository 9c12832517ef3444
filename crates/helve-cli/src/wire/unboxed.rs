//! A project's programs that run without a box: each only as a person has trusted it.
//!
//! INVARIANT: a program that a project brought and that is not confined starts only through a
//! [`Guarded`] handler, which asks what is trusted at every call. The gate ([`gate`]) asks the same
//! earlier, so that nobody is asked to approve what could not run anyway.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use helve::gate::{Action, PolicyRequest, PolicyResource, Speaker, Stance, Voice};
use helve::ports::Policy;
use helve::{
    BoxFuture, Context, DefinitionError, ErrorCode, Handler, Implementation, Registry, Tool, ToolError,
};
use helve_mcp::trust::{Scope, Verdict};
use helve_sandbox::Sandbox;
use helve_tools::program::ProgramToolConfig;
use serde_json::Value;

use super::judges;
use super::tools::typed;
use super::trust::{self, Store};
use crate::config::{Loaded, Origin, ToolEntry, ToolKind};

/// A program tool of a project that is not confined.
#[derive(Clone)]
pub(crate) struct Unboxed {
    /// The tool's name.
    pub(crate) name: String,
    /// With paths that start at the file's folder.
    pub(crate) config: ProgramToolConfig,
    pub(crate) scope: Scope,
    pub(crate) origin: Origin,
}

impl Unboxed {
    /// The file that would be started now, if there is one.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        let found = Sandbox::default().locate(&self.config.command).ok()?;
        Some(found.canonicalize().unwrap_or(found))
    }

    /// What counts: all of its definition, and which file it starts. There is nothing for one that
    /// cannot be written down, because a path in it is not UTF-8: nobody can trust that.
    pub(crate) fn pinned(&self) -> Option<Value> {
        let mut pinned = serde_json::to_value(&self.config).ok()?;
        let program = serde_json::to_value(self.program()).ok()?;
        pinned.as_object_mut()?.insert("starts".to_owned(), program);
        Some(pinned)
    }

    /// Whether it may be called, as it is at this moment.
    pub(crate) fn verdict(&self) -> Verdict {
        match (self.pinned(), trust::look(Store::Tools)) {
            (Some(pinned), Some(trust)) => trust.check_value(&self.scope, &self.name, &pinned),
            (None, _) | (_, None) => Verdict::Unknown,
        }
    }

    /// Why it may not be called, if it may not.
    fn refusal(&self) -> Option<String> {
        let name = &self.name;
        match self.verdict() {
            Verdict::Trusted => None,
            Verdict::Changed { .. } => Some(format!(
                "`{name}` came with this project, runs without a box, and is not what was trusted; \
                 a person must look at it first: `helve trust` shows what has changed"
            )),
            Verdict::Unknown => Some(format!(
                "`{name}` came with this project and runs without a box, and nobody has trusted it; \
                 a person must look at it first: `helve trust` shows what it would run"
            )),
        }
    }
}

/// The project's programs that are not confined, trusted or not.
pub(crate) fn all(loaded: &Loaded) -> Vec<Unboxed> {
    loaded.tools.iter().filter_map(|entry| of_entry(entry, loaded)).collect()
}

/// What this entry is of these, if it is.
pub(super) fn of_entry(entry: &ToolEntry, loaded: &Loaded) -> Option<Unboxed> {
    if entry.kind != ToolKind::Program || !loaded.is_foreign(entry.layer) {
        return None;
    }
    // What cannot be read is refused when it is made.
    let config = typed::<ProgramToolConfig>(entry).ok()?.relative_to(&entry.base_dir());
    (!config.reach.confined).then(|| Unboxed {
        name: entry.label().to_owned(),
        config,
        scope: trust::scope(loaded),
        origin: entry.origin(),
    })
}

/// The files that programs without a box are made of, whoever brought them.
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

/// The same tool, which runs only while it is trusted.
pub(super) fn guarded(tool: &Tool, unboxed: Unboxed) -> Result<Tool, DefinitionError> {
    let handler = Guarded { inner: Arc::clone(tool.handler()), unboxed: Arc::new(unboxed) };
    Tool::new(tool.definition().clone(), Arc::new(handler))
}

struct Guarded {
    inner: Arc<dyn Handler>,
    unboxed: Arc<Unboxed>,
}

impl Handler for Guarded {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let refusal = match self.unboxed.verdict() {
            Verdict::Trusted => None,
            // The gate knows the definition as it is now, and let it pass: what is old is this one.
            Verdict::Changed { .. } => Some(format!(
                "`{}` has changed since Helve was started, and what was trusted is not what would run; \
                 restart `helve up`, or whatever else serves it, and it runs as it is trusted now",
                self.unboxed.name
            )),
            Verdict::Unknown => self.unboxed.refusal(),
        };
        match refusal {
            None => self.inner.call(arguments, context),
            Some(why) => {
                let denied = ToolError::new(ErrorCode::PermissionDenied, why)
                    .suggest("do not repeat it; tell the user");
                Box::pin(std::future::ready(Err(denied)))
            }
        }
    }

    fn implementation(&self) -> Implementation {
        self.inner.implementation()
    }

    fn fingerprint(&self) -> String {
        self.inner.fingerprint()
    }
}

/// Who decides: the policies, and before them what waits to be trusted.
pub(crate) fn gate(loaded: &Loaded, registry: &Registry) -> Arc<dyn Policy> {
    let policies = super::policy::policies(loaded, registry);
    let unboxed: BTreeMap<_, _> = all(loaded).into_iter().map(|one| (one.name.clone(), one)).collect();
    match unboxed.is_empty() {
        true => Arc::new(policies),
        false => Arc::new(TrustFirst { unboxed, policies }),
    }
}

struct TrustFirst<P> {
    unboxed: BTreeMap<String, Unboxed>,
    policies: P,
}

impl<P: Policy> Policy for TrustFirst<P> {
    fn rule(&self, request: &PolicyRequest<'_>) -> Voice {
        let called = match (request.action, request.resource) {
            (Action::Call, PolicyResource::Tool(tool)) => self.unboxed.get(tool.name().as_str()),
            _ => None,
        };
        match called.and_then(Unboxed::refusal) {
            Some(why) => Voice::new(Speaker::Trust, Stance::Deny).because(why),
            None => self.policies.rule(request),
        }
    }
}

/// The project's programs without a box that are not trusted as they are, by name, with what is known
/// of each.
pub(crate) fn waiting(loaded: &Loaded) -> BTreeMap<String, &'static str> {
    let verdicts = all(loaded).into_iter().map(|one| (one.verdict(), one.name));
    let waiting = verdicts.filter(|(verdict, _)| *verdict != Verdict::Trusted);
    waiting.map(|(verdict, name)| (name, trust::word(&verdict))).collect()
}
