//! The head of a policy, `(principal …, action …, resource …)`, and whether a request is within it.
//!
//! INVARIANT: a policy whose scope does not fit can neither apply nor fail, so leaving it out changes
//! nothing. Cedar evaluates the scope before all conditions, and a scope cannot fail.

use cedar_policy::{
    ActionConstraint, EntityTypeName, EntityUid, Policy, PrincipalConstraint, ResourceConstraint,
};

/// Which requests a policy is about.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) principal: Bound,
    pub(crate) action: Bound,
    pub(crate) resource: Bound,
}

/// What one part of a scope asks for.
#[derive(Debug)]
pub(crate) enum Bound {
    Any,
    Is(EntityTypeName),
    Equals(EntityUid),
    Within(Vec<EntityUid>),
    IsWithin(EntityTypeName, EntityUid),
}

/// An entity, and everything it is in.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) uid: EntityUid,
    pub(crate) within: Vec<EntityUid>,
}

impl Scope {
    pub(crate) fn of(policy: &Policy) -> Self {
        let principal = match policy.principal_constraint() {
            PrincipalConstraint::Any => Bound::Any,
            PrincipalConstraint::In(group) => Bound::Within(vec![group]),
            PrincipalConstraint::Eq(uid) => Bound::Equals(uid),
            PrincipalConstraint::Is(kind) => Bound::Is(kind),
            PrincipalConstraint::IsIn(kind, group) => Bound::IsWithin(kind, group),
        };
        let action = match policy.action_constraint() {
            ActionConstraint::Any => Bound::Any,
            ActionConstraint::In(groups) => Bound::Within(groups),
            ActionConstraint::Eq(uid) => Bound::Equals(uid),
        };
        let resource = match policy.resource_constraint() {
            ResourceConstraint::Any => Bound::Any,
            ResourceConstraint::In(group) => Bound::Within(vec![group]),
            ResourceConstraint::Eq(uid) => Bound::Equals(uid),
            ResourceConstraint::Is(kind) => Bound::Is(kind),
            ResourceConstraint::IsIn(kind, group) => Bound::IsWithin(kind, group),
        };
        Self { principal, action, resource }
    }

    pub(crate) fn fits(&self, [principal, action, resource]: [&Placed; 3]) -> bool {
        self.action.holds(action) && self.resource.holds(resource) && self.principal.holds(principal)
    }
}

impl Bound {
    fn holds(&self, one: &Placed) -> bool {
        match self {
            Self::Any => true,
            Self::Is(kind) => one.uid.type_name() == kind,
            Self::Equals(uid) => one.uid == *uid,
            Self::Within(groups) => groups.iter().any(|group| one.is_within(group)),
            Self::IsWithin(kind, group) => one.uid.type_name() == kind && one.is_within(group),
        }
    }
}

impl Placed {
    /// Everything is within itself, as Cedar has it.
    fn is_within(&self, group: &EntityUid) -> bool {
        self.uid == *group || self.within.contains(group)
    }
}
