//! What a state is expected to be: a value, or a predicate such as `> 0`.

use serde_json::Value;

use crate::expression::{Expression, ExpressionError, Scope};
use crate::json::same;

/// What a predicate can begin with. The longer ones first, or `>=` would be read as `>`.
const OPERATORS: [(&str, Operator); 6] = [
    (">=", Operator::Order),
    ("<=", Operator::Order),
    ("==", Operator::Equal),
    ("!=", Operator::Differ),
    (">", Operator::Order),
    ("<", Operator::Order),
];

/// The name of the state's value in a predicate.
const VALUE: &str = "value";

/// What a state is expected to be, ready to be compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// This value. `null` and `false` also stand for no value at all.
    Value(Value),
    /// Something that this expression over `value` is true of.
    Predicate {
        /// What must be true of the state's value.
        expression: Expression,
        /// What it begins with.
        operator: Operator,
        /// What it compares with.
        compares: Compares,
    },
}

/// What a predicate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Asks for the same.
    Equal,
    /// Asks for anything else.
    Differ,
    /// Asks for more or less.
    Order,
}

/// What the right side of a predicate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compares {
    /// A text in quotes.
    Text,
    /// Anything else; where the order counts, a number.
    Number,
}

impl Expected {
    /// Reads what stands in a definition, or says what is wrong with it.
    pub fn read(expected: &Value) -> Result<Self, ExpressionError> {
        let Some(text) = expected.as_str().map(str::trim) else { return Ok(Self::Value(expected.clone())) };
        let Some((sign, operator)) = OPERATORS.into_iter().find(|(sign, _)| text.starts_with(sign)) else {
            return Ok(Self::Value(expected.clone()));
        };
        let rest = text[sign.len()..].trim_start();
        let compares = if rest.starts_with(['"', '\'']) { Compares::Text } else { Compares::Number };
        let expression = Expression::parse(&format!("{VALUE} {text}"))?;
        if let Some(other) = expression.names().find(|name| *name != VALUE) {
            let reason = format!("there is no `{other}`; put text in quotes");
            return Err(ExpressionError::new(text, &reason));
        }
        Ok(Self::Predicate { expression, operator, compares })
    }

    /// Whether the state is as expected.
    pub fn holds(&self, state: Option<&Value>) -> Result<bool, ExpressionError> {
        match self {
            Self::Value(expected) => Ok(match state {
                Some(state) => same(state, expected),
                None => matches!(expected, Value::Null | Value::Bool(false)),
            }),
            Self::Predicate { expression, operator, compares } => {
                let nothing = Value::Null;
                let value = match (operator, state, compares) {
                    // Nothing differs from everything but nothing.
                    (Operator::Differ, state, _) => state.unwrap_or(&nothing),
                    (Operator::Equal, Some(state), _) => state,
                    // The evaluator puts values of any two types in an order; we do not.
                    (Operator::Order, Some(state), Compares::Text) if state.is_string() => state,
                    (Operator::Order, Some(state), Compares::Number) if state.is_number() => state,
                    (Operator::Equal | Operator::Order, _, _) => return Ok(false),
                };
                expression.holds(&Scope::new().with(VALUE, value))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_state_is_compared_with_a_value_or_by_a_predicate() {
        for (expected, state, holds) in [
            (json!(true), Some(json!(true)), true),
            (json!(true), Some(json!("true")), false),
            (json!(1), Some(json!(1.0)), true),
            (json!({ "a": [1] }), Some(json!({ "a": [1] })), true),
            (json!("ready"), Some(json!("ready")), true),
            (json!("> 0"), Some(json!(3)), true),
            (json!("> 0"), Some(json!(0)), false),
            (json!(">= 0.5"), Some(json!(0.5)), true),
            (json!("<10"), Some(json!(9)), true),
            (json!("<= 10 and value > 5"), Some(json!(3)), false),
            (json!("== 'ready'"), Some(json!("ready")), true),
            (json!("!= 'ready'"), Some(json!("ready")), false),
            (json!("> 'a'"), Some(json!("b")), true),
            // Values of another type are in no order.
            (json!("> 0"), Some(json!("many")), false),
            (json!("< 5"), Some(json!(null)), false),
            (json!("> 0"), Some(json!([1])), false),
            (json!("> 'a'"), Some(json!(7)), false),
        ] {
            assert_eq!(
                Expected::read(&expected).unwrap().holds(state.as_ref()),
                Ok(holds),
                "{expected} {state:?}"
            );
        }
    }

    #[test]
    fn nothing_satisfies_only_what_asks_for_nothing() {
        for (expected, holds) in [
            (json!(null), true),
            (json!(false), true),
            (json!(true), false),
            (json!(0), false),
            (json!("< 5"), false),
            (json!("> 0"), false),
            (json!("== 0"), false),
            (json!("!= 'error'"), true),
            (json!("!= none"), false),
        ] {
            assert_eq!(Expected::read(&expected).unwrap().holds(None), Ok(holds), "{expected}");
        }
    }

    #[test]
    fn a_predicate_that_cannot_be_read_is_refused() {
        for text in [">", "> 0 +", "> limit", "== ready", ">= (1"] {
            assert!(Expected::read(&json!(text)).is_err(), "{text}");
        }
    }
}
