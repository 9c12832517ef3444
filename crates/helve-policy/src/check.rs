//! Finds mistakes in policies before they decide anything: names that nothing has, types that do not
//! fit, policies that can never apply.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::pst::Var;
use cedar_policy::{EntityUid, PolicySet, Schema, ValidationMode, ValidationWarning, Validator};
use helve_core::{Action, Category, Channel, Facet, Label, Risk, Source, Tool};

use crate::arguments::{Shape, shape_of};
use crate::entities::{CALL, RUNTIME, TYPES, namespaces};
use crate::file::{PolicyFile, Weight};
use crate::finding::{Finding, did_you_mean};
use crate::mention::Fact;
use crate::parse::{Parsed, diagnosed};
use crate::policies::Vocabulary;
use crate::schema;
use crate::scope::Bound;

/// Everything wrong with some policies, in the order of the files.
pub(crate) fn check(files: &[PolicyFile], policies: &[Parsed], known: Vocabulary<'_>) -> Vec<Finding> {
    let names = Names::new(known);
    let mut findings: Vec<_> = policies.iter().flat_map(|policy| names.check(policy)).collect();
    let wrong: HashSet<_> = findings
        .iter()
        .filter(|one| one.severity == crate::Severity::Error)
        .filter_map(|one| one.policy.clone())
        .collect();
    let sound: Vec<_> = policies.iter().filter(|policy| !wrong.contains(&*policy.name)).collect();
    findings.extend(types(files, &sound, &names));
    let order = |finding: &Finding| files.iter().position(|file| file.name == finding.file);
    findings.sort_by_key(|finding| (order(finding), finding.line, finding.column));
    findings.dedup();
    findings
}

/// What is wrong between some policies that look at arguments and one tool that was not here when
/// they were loaded.
pub(crate) fn check_against(files: &[PolicyFile], policies: &[&Parsed], tool: &Tool) -> Option<Finding> {
    let tools = std::slice::from_ref(tool);
    let names = Names::new(Vocabulary { tools, awaited: &[] });
    let misnamed = policies.iter().flat_map(|policy| names.unknown_arguments(policy)).next();
    misnamed.or_else(|| {
        let mut text = schema::for_checking([tool]);
        names.add_absent(&mut text, policies);
        validate(files, policies, text).into_iter().find(is_error)
    })
}

fn is_error(finding: &Finding) -> bool {
    finding.severity == crate::Severity::Error
}

/// Everything that policies may name.
struct Names<'a> {
    tools: HashMap<&'a str, &'a Tool>,
    namespaces: BTreeSet<&'a str>,
    awaited: &'a [String],
}

impl<'a> Names<'a> {
    fn new(known: Vocabulary<'a>) -> Self {
        let tools: HashMap<_, _> = known.tools.iter().map(|tool| (tool.name().as_str(), tool)).collect();
        let namespaces = tools.keys().flat_map(|name| namespaces(name)).collect();
        Self { tools, namespaces, awaited: known.awaited }
    }

    /// Whether a name is below a namespace whose tools may come later. A server without a namespace
    /// may have tools of any name.
    fn is_awaited(&self, name: &str) -> bool {
        self.awaited.iter().any(|one| {
            let rest = name.strip_prefix(one.as_str());
            one.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn check(&self, policy: &Parsed) -> Vec<Finding> {
        let mut findings = Vec::new();
        for uid in policy.policy.entity_literals() {
            findings.extend(self.check_name(&uid, policy));
        }
        findings.extend(
            policy.mentions.words.iter().filter_map(|(fact, word)| unknown_word(*fact, word, policy)),
        );
        findings.extend(
            policy.mentions.asked.iter().filter_map(|(var, name)| unknown_attribute(var, name, policy)),
        );
        findings.extend(self.unknown_arguments(policy));
        findings.extend(only_group(policy));
        findings.extend(policy.policy.annotations().filter_map(|(key, _)| misspelt_annotation(key, policy)));
        findings
    }

    fn check_name(&self, uid: &EntityUid, policy: &Parsed) -> Option<Finding> {
        let (kind, id) = (uid.type_name(), uid.id().unescaped());
        let unknown = |what: &str, help: Option<String>| {
            Some(
                Finding::error(policy.place_of(&schema::quoted(id)), format!("there is no {what} `{id}`"))
                    .of(&policy.name)
                    .help(help),
            )
        };
        let not_yet = |tool: &str| {
            let message = format!("the tool `{tool}` is not here now");
            Some(
                Finding::warning(policy.place(), message)
                    .of(&policy.name)
                    .help(Some("the policy is checked against it once its server is connected".to_owned())),
            )
        };
        let near_tool = |name: &str| did_you_mean(name, self.tools.keys().copied());
        if *kind == TYPES.tool {
            match () {
                () if self.tools.contains_key(id) => None,
                () if self.is_awaited(id) => not_yet(id),
                () => unknown("tool", near_tool(id)),
            }
        } else if *kind == TYPES.namespace {
            let near = || {
                did_you_mean(
                    id,
                    self.namespaces.iter().copied().chain(self.awaited.iter().map(String::as_str)),
                )
            };
            let fine = self.namespaces.contains(id) || self.is_awaited(id);
            if fine { None } else { unknown("namespace", near()) }
        } else if *kind == TYPES.action {
            match id.strip_prefix(CALL) {
                Some(tool) if self.tools.contains_key(tool) => None,
                Some(tool) if self.is_awaited(tool) => not_yet(tool),
                Some(tool) => {
                    let near = near_tool(tool).map(|said| said.replace("mean `", &format!("mean `{CALL}")));
                    unknown("action", near)
                }
                None if Action::ALL.iter().any(|action| action.as_str() == id) => None,
                None => {
                    let near = did_you_mean(id, Action::ALL.iter().map(|action| action.as_str()));
                    let all = || Action::ALL.map(Action::as_str).join(", ");
                    unknown(
                        "action",
                        near.or_else(|| Some(format!("there are {}, and `call TOOL` for each tool", all()))),
                    )
                }
            }
        } else if *kind == TYPES.runtime && id != RUNTIME {
            unknown("runtime", Some(format!("did you mean `{RUNTIME}`?")))
        } else {
            None
        }
    }

    /// Adds the actions that policies name and whose tools are not here, so that Cedar knows them. It
    /// checks no call of them: what they take is not known.
    fn add_absent(&self, text: &mut String, policies: &[&Parsed]) {
        let named: BTreeSet<_> = policies.iter().flat_map(|policy| named_actions(policy)).collect();
        let absent = named.iter().filter(|name| !self.tools.contains_key(name.as_str()));
        absent.for_each(|name| schema::add_absent(text, name));
    }

    /// Arguments that the tools a policy names do not have. Cedar's own check lets a `has` pass.
    fn unknown_arguments(&self, policy: &Parsed) -> Vec<Finding> {
        let named = named_tools(policy);
        let tools: Vec<_> = named.iter().filter_map(|name| self.tools.get(name.as_str()).copied()).collect();
        let mut findings = Vec::new();
        // One that is not here may have what the others have not.
        if tools.len() < named.len() {
            return findings;
        }
        for mention in policy.mentions.arguments.iter().filter(|mention| !mention.path.is_empty()) {
            let looks: Vec<_> = tools.iter().map(|tool| look(tool, &mention.path)).collect();
            // With several tools, one of them having it is enough: that is what `has` is for.
            if looks.iter().any(|look| matches!(look, Look::Seen)) {
                continue;
            }
            let path = mention.path.join(".");
            if let (Some(look), Some(tool)) = (looks.into_iter().next(), tools.first()) {
                let (message, help) = match look {
                    Look::Seen => continue,
                    Look::Hidden => (
                        format!("policies cannot see the argument `{path}` of `{}`", tool.name()),
                        Some("Cedar has no type for fractions, unions and values of any type".to_owned()),
                    ),
                    Look::Unknown(near) => (format!("`{}` has no argument `{path}`", tool.name()), near),
                };
                let place = policy.place_of(mention.path.last().map_or("", String::as_str));
                findings.push(Finding::error(place, message).of(&policy.name).help(help));
            }
        }
        findings
    }
}

/// The tools whose calls a policy names.
fn named_tools(policy: &Parsed) -> Vec<String> {
    let uids: &[EntityUid] = match &policy.scope.action {
        Bound::Equals(uid) => std::slice::from_ref(uid),
        Bound::Within(uids) => uids,
        Bound::Any | Bound::Is(_) | Bound::IsWithin(..) => &[],
    };
    uids.iter().filter_map(|uid| uid.id().unescaped().strip_prefix(CALL)).map(str::to_owned).collect()
}

/// What a look at an argument of a tool finds.
enum Look {
    Seen,
    Hidden,
    Unknown(Option<String>),
}

fn look(tool: &Tool, path: &[String]) -> Look {
    let mut fields = shape_of(tool);
    for (index, step) in path.iter().enumerate() {
        let Some(field) = fields.remove(step) else {
            return Look::Unknown(did_you_mean(step, fields.keys().map(String::as_str)));
        };
        match field.shape {
            Shape::Hidden => return Look::Hidden,
            Shape::Record(inner) => fields = inner,
            // That it goes on behind a text or a number is for Cedar's own check to say.
            Shape::Text | Shape::Long | Shape::Bool | Shape::Set(_) => return Look::Seen,
        }
        if index + 1 == path.len() {
            return Look::Seen;
        }
    }
    Look::Seen
}

/// `action == Action::"call"` never holds: a call is `call TOOL`, which is *in* it.
fn only_group(policy: &Parsed) -> Option<Finding> {
    let Bound::Equals(uid) = &policy.scope.action else { return None };
    let call = *uid.type_name() == TYPES.action && uid.id().unescaped() == Action::Call.as_str();
    call.then(|| {
        Finding::error(
            policy.place_of("action =="),
            "`action == Action::\"call\"` never holds: each tool has an action of its own",
        )
        .of(&policy.name)
        .help(Some("write `action in Action::\"call\"`, or `action == Action::\"call TOOL\"`".to_owned()))
    })
}

fn unknown_word(fact: Fact, word: &str, policy: &Parsed) -> Option<Finding> {
    let (what, words): (_, Vec<&str>) = match fact {
        Fact::Risk => ("risk", Risk::ALL.map(Risk::as_str).to_vec()),
        Fact::Category => ("category", Category::ALL.map(Category::as_str).to_vec()),
        Fact::Source => ("source", Source::ALL.map(Source::as_str).to_vec()),
        Fact::Facet => ("facet", Facet::ALL.map(Facet::as_str).to_vec()),
        Fact::Label => ("label", Label::ALL.map(Label::as_str).to_vec()),
        Fact::Channel => (
            "channel",
            [Channel::Rust, Channel::Cli, Channel::Stdio, Channel::Http].map(Channel::as_str).to_vec(),
        ),
    };
    if words.contains(&word) {
        return None;
    }
    let near = did_you_mean(word, words.iter().copied());
    let help = near.unwrap_or_else(|| format!("there are {}", words.join(", ")));
    Some(
        Finding::error(policy.place_of(&schema::quoted(word)), format!("there is no {what} `{word}`"))
            .of(&policy.name)
            .help(Some(help)),
    )
}

fn unknown_attribute(var: &Var, name: &str, policy: &Parsed) -> Option<Finding> {
    let (what, known): (_, &[&str]) = match var {
        Var::Principal => ("principal", &["roles", "anonymous", "agent"]),
        Var::Resource => (
            "resource",
            &[
                "risk",
                "risk_level",
                "category",
                "source",
                "namespace",
                "read_only",
                "destructive",
                "idempotent",
                "open_world",
                "facets",
                "server",
                "name",
            ],
        ),
        Var::Context => ("context", &["approved", "labels", "channel", "now", "session", "arguments"]),
        _ => return None,
    };
    (!known.contains(&name)).then(|| {
        Finding::error(policy.place_of(name), format!("`{what}` never has `{name}`"))
            .of(&policy.name)
            .help(did_you_mean(name, known.iter().copied()))
    })
}

fn misspelt_annotation(key: &str, policy: &Parsed) -> Option<Finding> {
    const KNOWN: [&str; 2] = ["id", "reason"];
    let near = (!KNOWN.contains(&key)).then(|| did_you_mean(key, KNOWN)).flatten()?;
    Some(
        Finding::warning(policy.place(), format!("`@{key}` means nothing here"))
            .of(&policy.name)
            .help(Some(near)),
    )
}

/// What Cedar's own check finds, each policy against the tools that it can tell apart: those that it
/// names, and those with an argument that it looks at. To it, all others are alike.
fn types(files: &[PolicyFile], policies: &[&Parsed], names: &Names<'_>) -> Vec<Finding> {
    let (looking, plain): (Vec<&Parsed>, Vec<&Parsed>) =
        policies.iter().copied().partition(|policy| !policy.mentions.arguments.is_empty());
    // A policy on the arguments of tools of which none is here cannot be checked yet. Where some are, it is
    // checked against these: nobody does that again when they are called.
    let is_here = |name: &String| names.tools.contains_key(name.as_str());
    let looking: Vec<&Parsed> = looking
        .into_iter()
        .filter(|policy| {
            let named = named_tools(policy);
            named.is_empty() || named.iter().any(is_here)
        })
        .collect();

    let mut text = schema::for_checking([]);
    let named: BTreeSet<_> = plain.iter().flat_map(|policy| named_actions(policy)).collect();
    named.iter().for_each(|name| schema::add_unknown(&mut text, name));
    let mut findings = validate(files, &plain, text);

    let keys: HashSet<&str> = looking
        .iter()
        .flat_map(|policy| &policy.mentions.arguments)
        .filter_map(|mention| mention.path.first().map(String::as_str))
        .collect();
    let all =
        looking.iter().any(|policy| policy.mentions.arguments.iter().any(|mention| mention.path.is_empty()));
    let named: HashSet<_> = looking.iter().flat_map(|policy| named_actions(policy)).collect();
    let mut tools: Vec<_> = names
        .tools
        .values()
        .copied()
        .filter(|tool| {
            all || named.contains(tool.name().as_str())
                || shape_of(tool).keys().any(|key| keys.contains(key.as_str()))
        })
        .collect();
    tools.sort_by_key(|tool| tool.name().as_str());
    if !looking.is_empty() {
        let mut text = schema::for_checking(tools);
        names.add_absent(&mut text, &looking);
        findings.extend(validate(files, &looking, text));
    }
    findings
}

/// The tools whose calls stand anywhere in a policy.
fn named_actions(policy: &Parsed) -> Vec<String> {
    let literals = policy.policy.entity_literals();
    let actions = literals.iter().filter(|uid| *uid.type_name() == TYPES.action);
    actions.filter_map(|uid| uid.id().unescaped().strip_prefix(CALL)).map(str::to_owned).collect()
}

fn validate(files: &[PolicyFile], policies: &[&Parsed], schema: String) -> Vec<Finding> {
    let schema = match Schema::from_cedarschema_str(&schema) {
        Ok((schema, _)) => schema,
        Err(error) => {
            let place = policies.first().map(|policy| policy.place());
            return place
                .map(|place| Finding::error(place, format!("the schema of the tools: {error}")))
                .into_iter()
                .collect();
        }
    };
    let by_name: HashMap<_, _> = policies.iter().map(|policy| (&*policy.name, *policy)).collect();
    let set = match PolicySet::from_policies(policies.iter().map(|policy| policy.policy.clone())) {
        Ok(set) => set,
        Err(error) => {
            let place = policies.first().map(|policy| policy.place());
            return place.map(|place| Finding::error(place, error.to_string())).into_iter().collect();
        }
    };
    let result = Validator::new(schema).validate(&set, ValidationMode::Strict);
    let mut findings = Vec::new();
    let mut add = |policy: &str, error: &dyn miette::Diagnostic, severity: crate::Severity| {
        if let Some(parsed) = by_name.get(policy) {
            let mut finding = diagnosed(&files[parsed.file_index], error).of(policy);
            finding.severity = severity;
            if finding.message.contains(&format!("{CALL}{}", schema::ANY_TOOL)) {
                let help =
                    "not every tool has it: ask `context.arguments has …` first, or name the tool's action";
                finding.help = Some(help.to_owned());
            }
            finding.message = plain_words(&finding.message, policy);
            finding.help = finding.help.map(|help| plain_words(&help, policy));
            findings.push(finding);
        }
    };
    for error in result.validation_errors() {
        let policy: &str = error.policy_id().as_ref();
        add(policy, error, crate::Severity::Error);
    }
    for warning in result.validation_warnings() {
        let policy: &str = warning.policy_id().as_ref();
        let looks_at_arguments =
            by_name.get(policy).is_some_and(|parsed| !parsed.mentions.arguments.is_empty());
        let severity = match warning {
            // No tool has such an argument today; one may tomorrow.
            ValidationWarning::ImpossiblePolicy(_) if looks_at_arguments => crate::Severity::Warning,
            ValidationWarning::ImpossiblePolicy(_)
            | ValidationWarning::InvalidActionApplication(_)
            | ValidationWarning::BidiCharsInString(_)
            | ValidationWarning::BidiCharsInIdentifier(_) => crate::Severity::Error,
            _ => crate::Severity::Warning,
        };
        add(policy, warning, severity);
    }
    findings
}

/// Cedar begins each message with the policy, which stands next to it anyway.
fn plain_words(message: &str, policy: &str) -> String {
    let prefix = format!("for policy `{policy}`, ");
    message
        .strip_prefix(&prefix)
        .unwrap_or(message)
        .replace(&format!("Action::\"{CALL}{}\"", schema::ANY_TOOL), "a call of any tool")
}

/// Whether files that can only narrow hold any `permit`.
pub(crate) fn permits(policies: &[Parsed], weight: Weight) -> bool {
    policies.iter().any(|policy| policy.weight == weight && policy.permits())
}
