//! The policies in force.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use cedar_policy::Authorizer;
use helve_core::ports::Policy;
use helve_core::{PolicyRequest, Stance, Tool, Vote};
use serde::Serialize;

use crate::cache::Cache;
use crate::check;
use crate::file::{PolicyFile, Weight};
use crate::finding::{Finding, Place, Severity};
use crate::nesting;
use crate::parse::{Parsed, parse};
use crate::plan::{ChosenSets, GUARDED_BYTES_MAX, Plan, SETS_BYTES_MAX};

/// The policy that is in force where nobody wrote another.
pub const DEFAULT_POLICY: &str = include_str!("../default.cedar");

/// What policies may name, for their check.
#[derive(Debug, Clone, Copy, Default)]
pub struct Vocabulary<'a> {
    /// The tools that are here.
    pub tools: &'a [Tool],
    /// Namespaces whose tools may come later: the names of MCP servers that are not connected.
    pub awaited: &'a [String],
}

impl<'a> Vocabulary<'a> {
    /// These tools, and no others to come.
    pub fn tools(tools: &'a [Tool]) -> Self {
        Self { tools, awaited: &[] }
    }
}

/// A set of policies that decides.
///
/// One that could not be loaded decides as well: it denies everything, and says why.
///
/// ```
/// use helve_core::{Action, Caller, LabelSet, PolicyRequest, PolicyResource, Stance};
/// use helve_core::ports::Policy as _;
/// use helve_policy::Policies;
///
/// let policies = Policies::default_policy();
/// let mut request = PolicyRequest {
///     caller: &Caller::principal("ada"),
///     action: Action::Administer,
///     resource: PolicyResource::Runtime,
///     arguments: None,
///     labels: LabelSet::NONE,
///     now: jiff::Timestamp::now(),
/// };
/// assert_eq!(policies.rule(&request).stance, Stance::Deny);
/// let admin = Caller::principal("ada").roles(["admin"]);
/// request.caller = &admin;
/// assert_eq!(policies.rule(&request).stance, Stance::Allow);
/// ```
pub struct Policies {
    pub(crate) state: Result<Box<Loaded>, String>,
    warnings: Vec<Finding>,
}

/// Policies that passed all checks.
pub(crate) struct Loaded {
    pub(crate) files: Vec<PolicyFile>,
    pub(crate) policies: Vec<Parsed>,
    pub(crate) by_name: HashMap<Arc<str>, u32>,
    /// Whether there are files that only narrow, and whether these permit anything.
    pub(crate) has_narrowing: bool,
    pub(crate) narrowing_permits: bool,
    /// The tools that the policies were checked against, by digest.
    pub(crate) checked: HashSet<Arc<str>>,
    pub(crate) authorizer: Authorizer,
    pub(crate) cache: Cache<Plan>,
    pub(crate) sets: ChosenSets,
    /// Of those, what is left for some arguments.
    pub(crate) guarded: ChosenSets,
}

/// One policy, for people to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// Its `@id`, or its file and line.
    pub name: String,
    /// `permit` or `forbid`.
    pub effect: &'static str,
    /// The text of its `@reason`, which denials quote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The file that has it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Whether its file can only narrow what others permit.
    pub narrows: bool,
    /// What it says.
    pub text: String,
}

impl Statement {
    pub(crate) fn of(parsed: &Parsed) -> Self {
        Self {
            name: parsed.name.to_string(),
            effect: if parsed.permits() { "permit" } else { "forbid" },
            reason: parsed.reason.clone(),
            file: parsed.file.to_string(),
            line: parsed.line,
            narrows: parsed.weight == Weight::Narrows,
            text: parsed.text(),
        }
    }
}

impl Policies {
    /// Reads and checks policies. Without a file that decides, the default policy does.
    ///
    /// # Errors
    /// Everything that is wrong, with its place, if anything is. [`Policies::broken`] makes a set of
    /// it that denies.
    pub fn load(files: &[PolicyFile], known: Vocabulary<'_>) -> Result<Self, Vec<Finding>> {
        nesting::on_a_large_stack(|| Self::load_here(files, known)).unwrap_or_else(|| {
            let file = files.first().map_or_else(|| "default.cedar".to_owned(), |file| file.name.clone());
            let place = Place { file, line: 1, column: 1 };
            Err(vec![Finding::error(place, "there is no memory or no thread to check the policies with")])
        })
    }

    fn load_here(files: &[PolicyFile], known: Vocabulary<'_>) -> Result<Self, Vec<Finding>> {
        let files = with_default(files);
        let policies = parse(&files)?;
        let findings = check::check(&files, &policies, known);
        if findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Err(findings);
        }
        let checked = known.tools.iter().map(|tool| Arc::clone(tool.digest())).collect();
        Ok(Self { state: Ok(Box::new(Loaded::new(files, policies, checked))), warnings: findings })
    }

    /// Everything that is wrong with some policies, and what may not mean what its author thinks.
    pub fn check(files: &[PolicyFile], known: Vocabulary<'_>) -> Vec<Finding> {
        match Self::load(files, known) {
            Ok(policies) => policies.warnings,
            Err(findings) => findings,
        }
    }

    /// The policy that ships: callers who have said who they are may use every tool, and tools of critical
    /// risk ask.
    pub fn default_policy() -> Self {
        let files = with_default(&[]);
        // It names no tool, so there is nothing to check it against; a test does that.
        match parse(&files) {
            Ok(policies) => Self {
                state: Ok(Box::new(Loaded::new(files, policies, HashSet::new()))),
                warnings: Vec::new(),
            },
            Err(findings) => {
                Self::broken(findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn unchecked(files: &[PolicyFile], tools: &[Tool]) -> Self {
        let files = with_default(files);
        let policies = parse(&files).unwrap();
        let checked = tools.iter().map(|tool| Arc::clone(tool.digest())).collect();
        Self { state: Ok(Box::new(Loaded::new(files, policies, checked))), warnings: Vec::new() }
    }

    /// A set that could not be loaded: it denies everything, for this reason.
    pub fn broken(reason: impl Into<String>) -> Self {
        Self { state: Err(reason.into()), warnings: Vec::new() }
    }

    /// Why the set could not be loaded.
    pub fn is_broken(&self) -> Option<&str> {
        self.state.as_ref().err().map(String::as_str)
    }

    /// What may not mean what its author thinks.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// Every policy, in the order of the files.
    pub fn statements(&self) -> Vec<Statement> {
        self.state.iter().flat_map(|loaded| &loaded.policies).map(Statement::of).collect()
    }
}

/// The files, with the default policy where none of them decides.
fn with_default(files: &[PolicyFile]) -> Vec<PolicyFile> {
    let decided = files.iter().any(|file| file.weight == Weight::Decides);
    let default = (!decided).then(|| PolicyFile::new("default.cedar", DEFAULT_POLICY));
    default.into_iter().chain(files.iter().cloned()).collect()
}

impl Loaded {
    fn new(files: Vec<PolicyFile>, policies: Vec<Parsed>, checked: HashSet<Arc<str>>) -> Self {
        let by_name =
            (0u32..).zip(&policies).map(|(index, parsed)| (Arc::clone(&parsed.name), index)).collect();
        Self {
            has_narrowing: policies.iter().any(|parsed| parsed.weight == Weight::Narrows),
            narrowing_permits: check::permits(&policies, Weight::Narrows),
            files,
            policies,
            by_name,
            checked,
            authorizer: Authorizer::new(),
            cache: Cache::new(),
            sets: ChosenSets::new(SETS_BYTES_MAX),
            guarded: ChosenSets::new(GUARDED_BYTES_MAX),
        }
    }
}

impl Policy for Policies {
    fn rule(&self, request: &PolicyRequest<'_>) -> Vote {
        match &self.state {
            Ok(loaded) => match &*loaded.plan(request) {
                Plan::Settled(vote) => vote.clone(),
                Plan::Open(open) => loaded.answer(open, request),
            },
            Err(reason) => Vote::policy("", Stance::Deny).because(reason.as_str()),
        }
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            Ok(loaded) => {
                f.debug_struct("Policies").field("policies", &loaded.policies.len()).finish_non_exhaustive()
            }
            Err(reason) => f.debug_struct("Policies").field("broken", reason).finish_non_exhaustive(),
        }
    }
}
