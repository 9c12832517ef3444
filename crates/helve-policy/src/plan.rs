//! From a request to an answer: which policies are about it, and what they say.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use cedar_policy::{Context, Decision, Entities, EntityUid, PolicySet, Request, RestrictedExpression};
use helve_core::{Action, PolicyRequest, PolicyResource, Stance, Vote};
use serde_json::Value;

use crate::arguments::{Field, shape_of, shown};
use crate::check::check_against;
use crate::entities::{self, text, texts};
use crate::file::Weight;
use crate::mention::Mention;
use crate::nesting::on_a_large_stack;
use crate::parse::Parsed;
use crate::policies::Loaded;
use crate::scope::Placed;

/// What is known about requests like one.
pub(crate) enum Plan {
    /// The answer is always the same.
    Settled(Vote),
    /// Some policy looks at what differs from call to call.
    Open(Box<Open>),
}

/// Everything that it takes to answer, but for what differs from call to call.
pub(crate) struct Open {
    pub(crate) principal: EntityUid,
    pub(crate) action: EntityUid,
    pub(crate) resource: EntityUid,
    pub(crate) entities: Entities,
    pub(crate) layers: Vec<Layer>,
    /// What the tool takes, where some policy looks at its arguments.
    shape: BTreeMap<String, Field>,
}

/// Policies that must allow together.
pub(crate) struct Layer {
    pub(crate) chosen: Arc<Chosen>,
    /// Whether what none of them permits is still allowed, because they only take away.
    only_forbids: bool,
}

/// The policies of a layer whose scope fits.
pub(crate) struct Chosen {
    pub(crate) indices: Box<[u32]>,
    pub(crate) set: PolicySet,
}

/// Sets of policies that were chosen before. Many tools share one. Each has the text of its policies once more.
pub(crate) struct ChosenSets {
    bytes_max: usize,
    kept: RwLock<KeptSets>,
}

#[derive(Default)]
struct KeptSets {
    sets: HashMap<Box<[u32]>, Arc<Chosen>>,
    bytes: usize,
}

/// What all kept sets together may take, by the scope of policies.
pub(crate) const SETS_BYTES_MAX: usize = 64 << 20;

/// And by the arguments of calls, which callers choose: ten fields that may be there make a thousand sets.
pub(crate) const GUARDED_BYTES_MAX: usize = 8 << 20;

/// The answer of some layers, with or without a person's yes.
struct Verdict<'a> {
    allowed: bool,
    by: Vec<&'a Parsed>,
    /// What went wrong, and denies.
    error: Option<(String, String)>,
}

impl ChosenSets {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: RwLock::default() }
    }

    /// The set of these policies, kept or made. Where there are too many, all are given up, and
    /// `emptied` is called.
    fn get(
        &self,
        indices: Box<[u32]>,
        bytes: usize,
        make: impl FnOnce(&[u32]) -> Result<PolicySet, String>,
        emptied: impl FnOnce(),
    ) -> Result<Arc<Chosen>, String> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner).sets.get(&indices).cloned();
        if let Some(chosen) = kept {
            return Ok(chosen);
        }
        let chosen = Arc::new(Chosen { set: make(&indices)?, indices: indices.clone() });
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + bytes > self.bytes_max {
            *kept = KeptSets::default();
            emptied();
        }
        // Another call may have made the same meanwhile.
        if kept.sets.insert(indices, Arc::clone(&chosen)).is_none() {
            kept.bytes += bytes;
        }
        Ok(chosen)
    }

    #[cfg(test)]
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.kept.read().unwrap().sets.keys().map(|indices| indices.len()).collect()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.kept.read().unwrap().bytes
    }
}

impl Loaded {
    /// What is known about requests like this one, kept or found out.
    pub(crate) fn plan(&self, request: &PolicyRequest<'_>) -> Arc<Plan> {
        if let Some(plan) = self.cache.find(request) {
            return plan;
        }
        let plan = Arc::new(self.make_plan(request));
        self.cache.keep(request, &plan);
        plan
    }

    fn make_plan(&self, request: &PolicyRequest<'_>) -> Plan {
        let open = match self.open(request) {
            Ok(open) => open,
            Err(reason) => return Plan::Settled(denied(reason)),
        };
        if let Some(reason) = self.misfit(&open, request) {
            return Plan::Settled(denied(reason));
        }
        let differs = self.chosen(&open).any(|parsed| parsed.mentions.differs_by_call());
        if differs { Plan::Open(Box::new(open)) } else { Plan::Settled(self.answer(&open, request)) }
    }

    /// Everything that it takes to answer, with the policies whose scope fits.
    pub(crate) fn open(&self, request: &PolicyRequest<'_>) -> Result<Open, String> {
        self.open_with(request, |parsed, placed| parsed.scope.fits(placed))
    }

    /// The same, with the policies that `fits` picks.
    pub(crate) fn open_with(
        &self,
        request: &PolicyRequest<'_>,
        fits: impl Fn(&Parsed, [&Placed; 3]) -> bool,
    ) -> Result<Open, String> {
        let principal = entities::principal(request.caller);
        let action = entities::action(request.action, request.resource);
        let resource = entities::resource(request.resource);
        let placed = [&principal, &action, &resource];
        let entities = entities::all(request.caller, request.resource, placed)?;
        let entities = Entities::from_entities(entities, None).map_err(|error| error.to_string())?;
        let mut layers = Vec::with_capacity(2);
        for weight in [Weight::Decides, Weight::Narrows] {
            if weight == Weight::Narrows && !self.has_narrowing {
                continue;
            }
            let indices = (0u32..)
                .zip(&self.policies)
                .filter(|(_, parsed)| parsed.weight == weight && fits(parsed, placed));
            let indices: Box<[u32]> = indices.map(|(index, _)| index).collect();
            let bytes = self.bytes(&indices);
            // Plans hold on to their sets.
            let chosen = self.sets.get(indices, bytes, |indices| self.set(indices), || self.cache.clear())?;
            let only_forbids = weight == Weight::Narrows && !self.narrowing_permits;
            layers.push(Layer { chosen, only_forbids });
        }
        let looked_at = |layer: &Layer| {
            layer.chosen.indices.iter().any(|index| !self.at(*index).mentions.arguments.is_empty())
        };
        let shape = match (request.action, request.resource) {
            (Action::Call, PolicyResource::Tool(tool)) if layers.iter().any(looked_at) => shape_of(tool),
            _ => BTreeMap::new(),
        };
        Ok(Open {
            principal: principal.uid,
            action: action.uid,
            resource: resource.uid,
            entities,
            layers,
            shape,
        })
    }

    fn set(&self, indices: &[u32]) -> Result<PolicySet, String> {
        let policies = indices.iter().map(|index| self.at(*index).policy.clone());
        PolicySet::from_policies(policies).map_err(|error| error.to_string())
    }

    /// What a set of policies takes, about.
    fn bytes(&self, indices: &[u32]) -> usize {
        indices.iter().map(|index| self.at(*index).bytes).sum()
    }

    /// The policies of a layer that may apply to some arguments, which Cedar is shown. To make a set takes longer
    /// than to ask about some that do not apply: it has to leave out half at least.
    fn guarded(&self, layer: &Layer, arguments: &Value) -> Result<Arc<Chosen>, String> {
        let all = &layer.chosen.indices;
        let left: Box<[u32]> =
            all.iter().copied().filter(|index| !self.at(*index).guard.rules_out(arguments)).collect();
        if left.len() * 2 > all.len() {
            return Ok(Arc::clone(&layer.chosen));
        }
        let bytes = self.bytes(&left);
        if bytes > GUARDED_BYTES_MAX {
            return Ok(Arc::clone(&layer.chosen));
        }
        self.guarded.get(left, bytes, |indices| self.set(indices), || {})
    }

    pub(crate) fn at(&self, index: u32) -> &Parsed {
        &self.policies[index as usize]
    }

    fn chosen<'a>(&'a self, open: &'a Open) -> impl Iterator<Item = &'a Parsed> {
        open.layers.iter().flat_map(|layer| &layer.chosen.indices).map(|index| self.at(*index))
    }

    /// Why the policies that look at the arguments of a tool do not fit it. Tools that were here when
    /// the policies were loaded were checked then; others came later, or changed.
    fn misfit(&self, open: &Open, request: &PolicyRequest<'_>) -> Option<String> {
        let (Action::Call, PolicyResource::Tool(tool)) = (request.action, request.resource) else {
            return None;
        };
        if self.checked.contains(tool.digest()) {
            return None;
        }
        let looking: Vec<_> =
            self.chosen(open).filter(|parsed| !parsed.mentions.arguments.is_empty()).collect();
        if looking.is_empty() {
            return None;
        }
        let finding = match on_a_large_stack(|| check_against(&self.files, &looking, tool)) {
            Some(finding) => finding?,
            None => return Some("the policies could not be checked against the tool".to_owned()),
        };
        let name = tool.name();
        Some(format!(
            "a policy does not fit the tool `{name}` as it is now, and so nothing may call it: {finding}"
        ))
    }

    /// What the policies say to one request.
    pub(crate) fn answer(&self, open: &Open, request: &PolicyRequest<'_>) -> Vote {
        let mentions: Vec<_> = self.chosen(open).flat_map(|parsed| &parsed.mentions.arguments).collect();
        let arguments = match open.arguments(request, &mentions) {
            Ok(arguments) => arguments,
            Err(reason) => return denied(reason),
        };
        let sets: Result<Vec<_>, _> = match (&arguments, request.arguments) {
            (Some(_), Some(given)) => open.layers.iter().map(|layer| self.guarded(layer, given)).collect(),
            (None, _) | (_, None) => Ok(open.layers.iter().map(|layer| Arc::clone(&layer.chosen)).collect()),
        };
        let sets = match sets {
            Ok(sets) => sets,
            Err(reason) => return denied(reason),
        };
        let unapproved = self.judge(open, &sets, request, arguments.clone(), Approved::No);
        if let Some((policy, error)) = unapproved.error {
            return broken(&policy, &error);
        }
        if unapproved.allowed {
            return vote(&unapproved.by, Stance::Allow);
        }
        let approved = self.judge(open, &sets, request, arguments, Approved::Yes);
        if let Some((policy, error)) = approved.error {
            return broken(&policy, &error);
        }
        match (approved.allowed, request.action) {
            (true, Action::List | Action::Call) => {
                let by = if unapproved.by.is_empty() { approved.by } else { unapproved.by };
                vote(&by, Stance::Ask)
            }
            (true, _) => vote(&unapproved.by, Stance::Deny)
                .because("it would take an approval, and that cannot be asked for here"),
            (false, _) if approved.by.is_empty() => denied("no policy permits it".to_owned()),
            (false, _) => vote(&approved.by, Stance::Deny),
        }
    }

    fn judge<'a>(
        &'a self,
        open: &Open,
        sets: &[Arc<Chosen>],
        request: &PolicyRequest<'_>,
        arguments: Option<RestrictedExpression>,
        approved: Approved,
    ) -> Verdict<'a> {
        let failed =
            |error: String| Verdict { allowed: false, by: Vec::new(), error: Some((String::new(), error)) };
        let cedar_request = match open.request(request, arguments, approved) {
            Ok(cedar_request) => cedar_request,
            Err(error) => return failed(error),
        };
        let (mut allowed, mut permits, mut forbids) = (true, Vec::new(), Vec::new());
        for (layer, chosen) in open.layers.iter().zip(sets) {
            let response = self.authorizer.is_authorized(&cedar_request, &chosen.set, &open.entities);
            let diagnostics = response.diagnostics();
            if let Some(cedar_policy::AuthorizationError::PolicyEvaluationError(error)) =
                diagnostics.errors().next()
            {
                let policy: &str = error.policy_id().as_ref();
                return Verdict {
                    allowed: false,
                    by: Vec::new(),
                    error: Some((policy.to_owned(), error.inner().to_string())),
                };
            }
            let reasons = diagnostics.reason().filter_map(|id| self.named(id.as_ref()));
            match response.decision() {
                Decision::Allow => permits.extend(reasons),
                Decision::Deny => {
                    let before = forbids.len();
                    forbids.extend(reasons);
                    allowed &= layer.only_forbids && forbids.len() == before;
                }
            }
        }
        let mut by = if allowed { permits } else { forbids };
        by.sort_by_key(|parsed| (parsed.file_index, parsed.line, parsed.column));
        Verdict { allowed, by, error: None }
    }

    fn named(&self, name: &str) -> Option<&Parsed> {
        self.by_name.get(name).map(|index| self.at(*index))
    }
}

/// Whether a person said yes to this very call.
#[derive(Clone, Copy)]
pub(crate) enum Approved {
    Yes,
    No,
}

impl Open {
    /// The arguments that policies look at. None: nobody looks.
    pub(crate) fn arguments(
        &self,
        request: &PolicyRequest<'_>,
        mentions: &[&Mention],
    ) -> Result<Option<RestrictedExpression>, String> {
        match (request.action, request.arguments) {
            (Action::Call, _) if mentions.is_empty() => Ok(None),
            (Action::Call, Some(arguments)) => shown(&self.shape, arguments, mentions).map(Some),
            (Action::Call, None) => Err("policies look at the arguments, and there are none yet".to_owned()),
            (_, _) => Ok(None),
        }
    }

    pub(crate) fn request(
        &self,
        request: &PolicyRequest<'_>,
        arguments: Option<RestrictedExpression>,
        approved: Approved,
    ) -> Result<Request, String> {
        let caller = request.caller;
        let is_approved = matches!(approved, Approved::Yes);
        let fixed = [
            ("approved", RestrictedExpression::new_bool(is_approved)),
            ("labels", texts(request.labels.iter().map(helve_core::Label::as_str))),
            ("channel", text(caller.channel.as_str())),
            ("now", RestrictedExpression::new_long(request.now.as_second())),
        ];
        let session = caller.session.as_deref().map(|session| ("session", text(session)));
        let arguments = arguments.map(|arguments| ("arguments", arguments));
        let pairs =
            fixed.into_iter().chain(session).chain(arguments).map(|(key, value)| (key.to_owned(), value));
        let context = Context::from_pairs(pairs).map_err(|error| error.to_string())?;
        Request::new(self.principal.clone(), self.action.clone(), self.resource.clone(), context, None)
            .map_err(|error| error.to_string())
    }
}

fn denied(reason: String) -> Vote {
    Vote::policy("", Stance::Deny).because(reason)
}

/// A policy that fails must not let anything through: not even what it was there to permit, because
/// nobody knows what it would have forbidden.
fn broken(policy: &str, error: &str) -> Vote {
    Vote::policy(policy, Stance::Deny)
        .because(format!("the policy failed, and a policy that fails denies: {error}"))
}

fn vote(by: &[&Parsed], stance: Stance) -> Vote {
    let names: Vec<_> = by.iter().map(|parsed| &*parsed.name).collect();
    let vote = Vote::policy(&names.join(", "), stance);
    let reasons: Vec<_> = match stance {
        Stance::Allow => Vec::new(),
        Stance::Ask | Stance::Deny => by.iter().filter_map(|parsed| parsed.reason.as_deref()).collect(),
    };
    if reasons.is_empty() { vote } else { vote.because(reasons.join("; ")) }
}
