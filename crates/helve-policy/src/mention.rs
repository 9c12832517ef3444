//! What a policy looks at: which parts of the context, which arguments, which entities.

use cedar_policy::pst::{BinaryOp, Clause, Expr, Literal, Template, Var};

use crate::file::limits;

/// What a policy looks at.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    /// The time of the call.
    pub(crate) now: bool,
    /// The caller's session.
    pub(crate) session: bool,
    /// The arguments of the call.
    pub(crate) arguments: Vec<Mention>,
    /// Words that a fact with a fixed vocabulary is compared with: `risk`, `critical`.
    pub(crate) words: Vec<(Fact, String)>,
    /// Attributes that are asked for with `has`, and do not exist if they are misspelt.
    pub(crate) asked: Vec<(Var, String)>,
    /// Whether a condition is nested deeper than we care to follow.
    pub(crate) too_deep: bool,
}

/// One look at the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The way down from the arguments. Empty: all of them.
    pub(crate) path: Vec<String>,
    /// Whether the value counts, or only that there is one (`has`).
    pub(crate) value: bool,
}

/// A fact that is one of a few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    Risk,
    Category,
    Source,
    Facet,
    Label,
    Channel,
}

impl Mentions {
    pub(crate) fn of(policy: &Template) -> Self {
        let mut mentions = Self::default();
        for clause in policy.clauses() {
            match clause {
                Clause::When(condition) | Clause::Unless(condition) => mentions.walk(condition, 0),
            }
        }
        mentions
    }

    /// Whether the answer may differ from call to call. Labels and channel are few, and known to the
    /// cache; whether a person approved is tried both ways.
    pub(crate) fn differs_by_call(&self) -> bool {
        self.now || self.session || !self.arguments.is_empty()
    }

    fn walk(&mut self, expr: &Expr, depth: usize) {
        if depth > limits::DEPTH_MAX {
            self.too_deep = true;
            self.everything();
            return;
        }
        let mut walk = |inner: &Expr| self.walk(inner, depth + 1);
        match expr {
            Expr::Var(Var::Context) => self.everything(),
            Expr::Literal(_) | Expr::Var(_) | Expr::Slot(_) => {}
            Expr::UnaryOp { expr, .. } => walk(expr),
            Expr::BinaryOp { op, left, right } => {
                walk(left);
                walk(right);
                self.compare(*op, left, right);
            }
            Expr::GetAttr { expr: inner, .. } => match path(expr) {
                Some((Var::Context, path)) => self.look(&path, true),
                Some(_) => {}
                None => walk(inner),
            },
            Expr::HasAttr { expr: inner, attrs } => match path(inner) {
                Some((Var::Context, mut path)) => {
                    path.extend(attrs.iter().map(ToString::to_string));
                    self.look(&path, false);
                }
                Some((var, path)) if path.is_empty() => self.asked.push((var, attrs.first().to_string())),
                Some(_) => {}
                None => walk(inner),
            },
            Expr::Like { expr, .. } => walk(expr),
            Expr::Is { expr, in_expr, .. } => {
                walk(expr);
                in_expr.iter().for_each(|inner| walk(inner));
            }
            Expr::IfThenElse { cond, then_expr, else_expr } => {
                [cond, then_expr, else_expr].into_iter().for_each(|inner| walk(inner));
            }
            Expr::Set(items) => items.iter().for_each(|inner| walk(inner)),
            Expr::Record(fields) => fields.values().for_each(|inner| walk(inner)),
            // What we do not know may look at anything.
            _ => self.everything(),
        }
    }

    fn everything(&mut self) {
        self.now = true;
        self.session = true;
        self.arguments.push(Mention { path: Vec::new(), value: true });
    }

    fn look(&mut self, path: &[String], value: bool) {
        let Some((first, rest)) = path.split_first() else { return self.everything() };
        match first.as_str() {
            "now" => self.now = true,
            "session" => self.session = true,
            "arguments" => self.arguments.push(Mention { path: rest.to_vec(), value }),
            "approved" | "labels" | "channel" => {}
            _ => self.asked.push((Var::Context, first.clone())),
        }
    }

    fn compare(&mut self, op: BinaryOp, left: &Expr, right: &Expr) {
        let sides = match op {
            BinaryOp::Eq | BinaryOp::NotEq => [(left, right), (right, left)],
            BinaryOp::Contains | BinaryOp::ContainsAll | BinaryOp::ContainsAny => {
                [(left, right), (right, left)]
            }
            _ => return,
        };
        for (one, other) in sides {
            let Some(fact) = fact(one) else { continue };
            let words: Vec<_> = match other {
                Expr::Set(items) => items.iter().filter_map(|item| word(item)).collect(),
                other => word(other).into_iter().collect(),
            };
            self.words.extend(words.into_iter().map(|word| (fact, word)));
        }
    }
}

fn word(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(Literal::String(text)) => Some(text.to_string()),
        _ => None,
    }
}

/// The fact that `resource.risk` and the like stand for.
fn fact(expr: &Expr) -> Option<Fact> {
    let (var, path) = path(expr)?;
    let [attribute] = path.as_slice() else { return None };
    match (var, attribute.as_str()) {
        (Var::Resource, "risk") => Some(Fact::Risk),
        (Var::Resource, "category") => Some(Fact::Category),
        (Var::Resource, "source") => Some(Fact::Source),
        (Var::Resource, "facets") => Some(Fact::Facet),
        (Var::Context, "labels") => Some(Fact::Label),
        (Var::Context, "channel") => Some(Fact::Channel),
        _ => None,
    }
}

/// A variable and the attributes behind it: `context.arguments.to`.
pub(crate) fn path(expr: &Expr) -> Option<(Var, Vec<String>)> {
    let mut attributes = Vec::new();
    let mut at = expr;
    loop {
        match at {
            Expr::GetAttr { expr, attr } => {
                attributes.push(attr.to_string());
                at = expr;
            }
            Expr::Var(var) => {
                attributes.reverse();
                return Some((var.clone(), attributes));
            }
            _ => return None,
        }
    }
}
