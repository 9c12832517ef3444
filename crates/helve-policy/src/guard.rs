//! What a policy asks of the arguments before anything else, so that it can be left out where they
//! are others.
//!
//! Many policies say `when { context.arguments has to && context.arguments.to == "…" && … }`, and of a
//! thousand such, one call concerns a few. INVARIANT: a policy is left out only where Cedar would find
//! its condition false, without an error on the way there. Cedar evaluates a conjunction from left to
//! right and stops at the first false, so what comes behind that does not matter.

use cedar_policy::pst::{BinaryOp, Clause, Expr, Literal, Template, Var};
use serde_json::Value;

use crate::arguments::whole;
use crate::mention::path;

/// The first conditions of a policy, as far as they are about arguments alone.
#[derive(Debug, Default)]
pub(crate) struct Guard(Vec<Ask>);

/// One condition on an argument.
#[derive(Debug)]
enum Ask {
    /// `context.arguments has field`.
    Has(String),
    /// `context.arguments.field == literal`.
    Is(String, Literal),
}

impl Guard {
    pub(crate) fn of(policy: &Template) -> Self {
        let mut guard = Self::default();
        // Only the first clause: what stands in a second is reached after all of the first.
        if let Some(Clause::When(condition)) = policy.clauses().first() {
            guard.read(condition);
        }
        guard
    }

    /// Takes conditions in the order in which they are evaluated, and tells whether it knows them all.
    fn read(&mut self, condition: &Expr) -> bool {
        match condition {
            Expr::BinaryOp { op: BinaryOp::And, left, right } => self.read(left) && self.read(right),
            Expr::BinaryOp { op: BinaryOp::Eq, left, right } => {
                let sides = [(left, right), (right, left)];
                let found = sides.into_iter().find_map(|(one, other)| match &**other {
                    Expr::Literal(literal) => Some(Ask::Is(argument(one)?, literal.clone())),
                    _ => None,
                });
                found.map(|ask| self.0.push(ask)).is_some()
            }
            Expr::HasAttr { expr, attrs } if attrs.len() == 1 => match path(expr) {
                Some((Var::Context, path)) if path == ["arguments"] => {
                    self.0.push(Ask::Has(attrs.first().to_string()));
                    true
                }
                // True wherever a guard is asked.
                Some((Var::Context, path)) => path.is_empty() && attrs.first() == "arguments",
                Some(_) | None => false,
            },
            _ => false,
        }
    }

    /// Whether the policy surely does not apply to a call with these arguments, all of which that it
    /// looks at were shown to Cedar.
    pub(crate) fn rules_out(&self, arguments: &Value) -> bool {
        for ask in &self.0 {
            let (Ask::Has(field) | Ask::Is(field, _)) = ask;
            // Null is not shown.
            let found = arguments.get(field).filter(|value| !value.is_null());
            match (ask, found) {
                (Ask::Has(_), None) => return true,
                (Ask::Has(_), Some(_)) => {}
                // An error, which Cedar should tell of.
                (Ask::Is(..), None) => return false,
                (Ask::Is(_, literal), Some(value)) if !is(value, literal) => return true,
                (Ask::Is(..), Some(_)) => {}
            }
        }
        false
    }
}

/// Whether Cedar finds a value that is shown equal to a literal. Values of different types are not,
/// and comparing them is no error.
fn is(value: &Value, literal: &Literal) -> bool {
    match (literal, value) {
        (Literal::String(text), Value::String(value)) => text == value,
        (Literal::Bool(is), Value::Bool(value)) => is == value,
        (Literal::Long(number), Value::Number(value)) => whole(value) == Some(*number),
        _ => false,
    }
}

/// The field in `context.arguments.field`.
fn argument(expr: &Expr) -> Option<String> {
    match path(expr)? {
        (Var::Context, path) => match <[String; 2]>::try_from(path) {
            Ok([first, field]) if first == "arguments" => Some(field),
            Ok(_) | Err(_) => None,
        },
        _ => None,
    }
}
