//! Why something is decided as it is.

use cedar_policy::{Decision, PolicySet};
use helve_core::ports::Policy as _;
use helve_core::{PolicyRequest, Stance, Vote};
use serde::Serialize;

use crate::plan::{Approved, Open, Plan};
use crate::policies::{Loaded, Policies, Statement};

/// Why something is decided as it is.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    /// What is decided. It is `voice` in JSON, which programs read.
    #[serde(rename = "voice")]
    pub vote: Vote,
    /// Every policy that applies, in the order of the files.
    pub applied: Vec<Applied>,
    /// Policies that failed, and how.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// How many policies there are.
    pub policies: usize,
    /// How many of them are about such a request.
    pub considered: usize,
    /// Whether the answer is the same for every request like it, and so kept.
    pub kept: bool,
}

/// A policy that applies.
#[derive(Debug, Clone, Serialize)]
pub struct Applied {
    /// The policy, as people read it.
    #[serde(flatten)]
    pub statement: Statement,
    /// Whether the decision is its own.
    pub decided: bool,
    /// Whether it would no longer apply after a person's yes.
    pub asks: bool,
}

impl Policies {
    /// Why a request is decided as it is.
    ///
    /// ```
    /// use helve_core::{Action, Caller, LabelSet, PolicyRequest, PolicyResource};
    /// use helve_policy::Policies;
    ///
    /// let request = PolicyRequest {
    ///     caller: &Caller::principal("ada").roles(["auditor"]),
    ///     action: Action::Inspect,
    ///     resource: PolicyResource::Runtime,
    ///     arguments: None,
    ///     labels: LabelSet::NONE,
    ///     now: jiff::Timestamp::now(),
    /// };
    /// let explanation = Policies::default_policy().explain(&request);
    /// assert_eq!(explanation.applied[0].statement.name, "inspectors");
    /// assert!(explanation.applied[0].decided);
    /// ```
    pub fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        let vote = self.rule(request);
        let mut explanation = Explanation {
            vote,
            applied: Vec::new(),
            errors: Vec::new(),
            policies: 0,
            considered: 0,
            kept: false,
        };
        let Ok(loaded) = &self.state else { return explanation };
        explanation.policies = loaded.policies.len();
        explanation.kept = matches!(&*loaded.plan(request), Plan::Settled(_));
        match loaded.open(request) {
            Ok(open) => loaded.explain(&open, request, &mut explanation),
            Err(error) => explanation.errors.push(error),
        }
        explanation
    }
}

impl Loaded {
    fn explain(&self, open: &Open, request: &PolicyRequest<'_>, explanation: &mut Explanation) {
        let indices: Vec<_> =
            open.layers.iter().flat_map(|layer| layer.chosen.indices.iter().copied()).collect();
        explanation.considered = indices.len();
        let mentions: Vec<_> = indices.iter().flat_map(|index| &self.at(*index).mentions.arguments).collect();
        let arguments = match open.arguments(request, &mentions) {
            Ok(arguments) => arguments,
            Err(error) => return explanation.errors.push(error),
        };
        for index in indices {
            let parsed = self.at(index);
            let applies = |approved: Approved| -> Result<bool, String> {
                let request = open.request(request, arguments.clone(), approved)?;
                let set =
                    PolicySet::from_policies([parsed.policy.clone()]).map_err(|error| error.to_string())?;
                let response = self.authorizer.is_authorized(&request, &set, &open.entities);
                if let Some(error) = response.diagnostics().errors().next() {
                    return Err(error.to_string());
                }
                Ok(response.decision() == Decision::Allow || response.diagnostics().reason().next().is_some())
            };
            let (applies_now, after) = match (applies(Approved::No), applies(Approved::Yes)) {
                (Ok(now), Ok(after)) => (now, after),
                (Err(error), _) | (_, Err(error)) => {
                    explanation.errors.push(error);
                    continue;
                }
            };
            if applies_now {
                let decides = match explanation.vote.stance {
                    Stance::Allow => parsed.permits(),
                    Stance::Ask => !parsed.permits() && !after,
                    Stance::Deny => !parsed.permits() && after,
                };
                explanation.applied.push(Applied {
                    statement: Statement::of(parsed),
                    decided: decides && explanation.errors.is_empty(),
                    asks: !after,
                });
            }
        }
        if !explanation.errors.is_empty() {
            explanation.applied.iter_mut().for_each(|applied| applied.decided = false);
        }
    }
}
