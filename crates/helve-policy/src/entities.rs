//! Callers, tools and the rest as Cedar's entities.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use cedar_policy::{Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression};
use helve_core::{Action, Caller, Facet, PolicyResource, PrincipalKind, Risk, Tool};

use crate::scope::Placed;

/// The types of our entities.
pub(crate) struct Types {
    pub(crate) user: EntityTypeName,
    pub(crate) agent: EntityTypeName,
    pub(crate) service: EntityTypeName,
    pub(crate) role: EntityTypeName,
    pub(crate) tool: EntityTypeName,
    pub(crate) namespace: EntityTypeName,
    pub(crate) served: EntityTypeName,
    pub(crate) runtime: EntityTypeName,
    pub(crate) action: EntityTypeName,
}

pub(crate) static TYPES: LazyLock<Types> = LazyLock::new(|| {
    let name = |text: &str| text.parse().expect("a plain word is the name of a type");
    Types {
        user: name("User"),
        agent: name("Agent"),
        service: name("Service"),
        role: name("Role"),
        tool: name("Tool"),
        namespace: name("Namespace"),
        served: name("Served"),
        runtime: name("Runtime"),
        action: name("Action"),
    }
});

/// What comes before a tool's name in the action of calling it.
pub(crate) const CALL: &str = "call ";

/// The name of the runtime as a resource.
pub(crate) const RUNTIME: &str = "helve";

pub(crate) fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

/// The caller, and the roles they are in. A caller without a name is `User::""`.
pub(crate) fn principal(caller: &Caller) -> Placed {
    let kind = match caller.kind {
        PrincipalKind::User => &TYPES.user,
        PrincipalKind::Agent => &TYPES.agent,
        PrincipalKind::Service => &TYPES.service,
    };
    let uid = match &caller.principal {
        Some(name) => uid(kind, name),
        None => uid(&TYPES.user, ""),
    };
    let roles: HashSet<_> = caller.roles.iter().map(|role| self::uid(&TYPES.role, role)).collect();
    Placed { uid, within: roles.into_iter().collect() }
}

/// What they want to do, and `call` for every call.
pub(crate) fn action(action: Action, resource: PolicyResource<'_>) -> Placed {
    match (action, resource) {
        (Action::Call, PolicyResource::Tool(tool)) => Placed {
            uid: uid(&TYPES.action, &format!("{CALL}{}", tool.name())),
            within: vec![uid(&TYPES.action, Action::Call.as_str())],
        },
        (action, _) => Placed { uid: uid(&TYPES.action, action.as_str()), within: Vec::new() },
    }
}

/// What it is about, and for a tool every namespace that it is in, the nearest first.
pub(crate) fn resource(resource: PolicyResource<'_>) -> Placed {
    match resource {
        PolicyResource::Tool(tool) => Placed {
            uid: uid(&TYPES.tool, tool.name().as_str()),
            within: namespaces(tool.name().as_str()).map(|one| uid(&TYPES.namespace, one)).collect(),
        },
        PolicyResource::Served { server, name } => {
            Placed { uid: uid(&TYPES.served, &format!("{server}/{name}")), within: Vec::new() }
        }
        PolicyResource::Runtime => Placed { uid: uid(&TYPES.runtime, RUNTIME), within: Vec::new() },
    }
}

/// `a/b` and `a` of `a/b/c`.
pub(crate) fn namespaces(tool: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(tool.rsplit_once('/').map(|(above, _)| above), |one| {
        one.rsplit_once('/').map(|(above, _)| above)
    })
}

/// All entities that a request is about, with what is known of them.
pub(crate) fn all(
    caller: &Caller,
    asked_about: PolicyResource<'_>,
    [principal, action, resource]: [&Placed; 3],
) -> Result<Vec<Entity>, String> {
    let with = |placed: &Placed, facts: Facts| {
        let parents = placed.within.iter().cloned().collect();
        Entity::new(placed.uid.clone(), facts, parents).map_err(|error| error.to_string())
    };
    let mut all = vec![
        with(principal, caller_facts(caller))?,
        with(action, Facts::new())?,
        with(resource, resource_facts(asked_about))?,
    ];
    let groups = [principal, action, resource].into_iter().flat_map(|placed| &placed.within);
    // A tool is put into every namespace above it directly, so these need no parents of their own
    // for its sake. They have them for policies that ask whether one is in another.
    let mut seen: HashSet<_> = all.iter().map(Entity::uid).collect();
    for group in groups {
        if seen.insert(group.clone()) {
            let above = if *group.type_name() == TYPES.namespace {
                namespaces(group.id().unescaped()).map(|one| uid(&TYPES.namespace, one)).collect()
            } else {
                HashSet::new()
            };
            all.push(Entity::new_no_attrs(group.clone(), above));
        }
    }
    Ok(all)
}

type Facts = HashMap<String, RestrictedExpression>;

fn caller_facts(caller: &Caller) -> Facts {
    let mut facts = Facts::from([
        ("roles".to_owned(), texts(caller.roles.iter().map(String::as_str))),
        ("anonymous".to_owned(), RestrictedExpression::new_bool(caller.principal.is_none())),
    ]);
    if let Some(agent) = &caller.agent {
        facts.insert("agent".to_owned(), text(agent));
    }
    facts
}

fn resource_facts(resource: PolicyResource<'_>) -> Facts {
    match resource {
        PolicyResource::Tool(tool) => tool_facts(tool),
        PolicyResource::Served { server, name } => {
            Facts::from([("server".to_owned(), text(server)), ("name".to_owned(), text(name))])
        }
        PolicyResource::Runtime => Facts::new(),
    }
}

fn tool_facts(tool: &Tool) -> Facts {
    let definition = tool.definition();
    let annotations = &definition.annotations;
    let level = Risk::ALL.iter().position(|risk| *risk == definition.risk).unwrap_or(Risk::ALL.len());
    let namespace = namespaces(tool.name().as_str()).next().unwrap_or_default();
    let facets = Facet::ALL.into_iter().filter(|facet| definition.has_facet(*facet));
    let bool = RestrictedExpression::new_bool;
    [
        ("risk", text(definition.risk.as_str())),
        ("risk_level", RestrictedExpression::new_long(i64::try_from(level).unwrap_or(i64::MAX))),
        ("category", text(definition.category.as_str())),
        ("source", text(definition.source.as_str())),
        ("namespace", text(namespace)),
        ("read_only", bool(annotations.read_only)),
        ("destructive", bool(annotations.destructive)),
        ("idempotent", bool(annotations.idempotent)),
        ("open_world", bool(annotations.open_world)),
        ("facets", texts(facets.map(|facet| facet.as_str()))),
    ]
    .into_iter()
    .map(|(name, fact)| (name.to_owned(), fact))
    .collect()
}

pub(crate) fn text(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

pub(crate) fn texts<'a>(all: impl Iterator<Item = &'a str>) -> RestrictedExpression {
    RestrictedExpression::new_set(all.map(text))
}
