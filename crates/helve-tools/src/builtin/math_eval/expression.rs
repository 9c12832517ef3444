//! Precedence climbing over the text, computing on the way.

use super::functions;
use super::number::{Number, Problem};

/// Longest expression. With the bound on nesting it bounds all work.
const EXPRESSION_BYTES_MAX: usize = 4_000;
/// Deepest nesting of parentheses, calls, signs and powers: each takes stack.
const DEPTH_MAX: usize = 100;

/// What is wrong with an expression, and where.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("it is empty; write an expression such as `2 * (3 + 4)`")]
    Empty,
    #[error("it is longer than {EXPRESSION_BYTES_MAX} bytes; split the calculation")]
    TooLong,
    #[error("position {position}: {problem}")]
    At {
        /// In characters, from 1.
        position: usize,
        problem: String,
    },
}

/// The value of an expression.
pub(super) fn evaluate(text: &str) -> Result<Number, Fault> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(Fault::TooLong);
    }
    if text.trim().is_empty() {
        return Err(Fault::Empty);
    }
    let mut parser = Parser { text, at: 0, depth: 0 };
    let value = parser.expression(Binding::Sum)?;
    match parser.peek() {
        None => Ok(value),
        Some(found) => Err(parser.fault(parser.at, unexpected(found))),
    }
}

fn unexpected(found: char) -> String {
    match found {
        ')' => "unexpected `)`; no `(` is open".to_owned(),
        ',' => "unexpected `,`; write numbers without separators".to_owned(),
        '(' | '.' => "expected an operator; write `*` to multiply".to_owned(),
        other if other.is_alphanumeric() => "expected an operator; write `*` to multiply".to_owned(),
        other => format!("unexpected `{}`", other.escape_debug()),
    }
}

/// How strongly an operator binds; later is stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Sum,
    Product,
    Sign,
    Power,
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

impl Operator {
    /// The operator that `text` begins with, and its length.
    fn read(text: &str) -> Option<(Self, usize)> {
        let first = text.chars().next()?;
        let operator = match first {
            '*' if text.starts_with("**") => return Some((Self::Power, 2)),
            '+' => Self::Add,
            '-' | '−' => Self::Subtract,
            '*' | '×' | '·' => Self::Multiply,
            '/' | '÷' => Self::Divide,
            '%' => Self::Remainder,
            '^' => Self::Power,
            _ => return None,
        };
        Some((operator, first.len_utf8()))
    }

    fn binding(self) -> Binding {
        match self {
            Self::Add | Self::Subtract => Binding::Sum,
            Self::Multiply | Self::Divide | Self::Remainder => Binding::Product,
            Self::Power => Binding::Power,
        }
    }

    /// What its right side may hold without parentheses. Powers group to the right, and
    /// `2^-3` is a power of a signed number.
    fn right(self) -> Binding {
        match self {
            Self::Add | Self::Subtract => Binding::Product,
            Self::Multiply | Self::Divide | Self::Remainder => Binding::Sign,
            Self::Power => Binding::Power,
        }
    }

    fn apply(self, left: Number, right: Number) -> Result<Number, Problem> {
        match self {
            Self::Add => left.add(right),
            Self::Subtract => left.subtract(right),
            Self::Multiply => left.multiply(right),
            Self::Divide => left.divide(right),
            Self::Remainder => left.remainder(right),
            Self::Power => left.power(right),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Where the parser stands, as a byte offset.
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// An operand, and all that follows and binds at least as strongly as `weakest`.
    fn expression(&mut self, weakest: Binding) -> Result<Number, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault(self.at, format!("nested deeper than {DEPTH_MAX} levels")));
        }
        let mut left = self.operand()?;
        self.skip_space();
        while let Some((operator, length)) = Operator::read(&self.text[self.at..]) {
            if operator.binding() < weakest {
                break;
            }
            let operator_at = self.at;
            self.at += length;
            let right = self.expression(operator.right())?;
            left = operator
                .apply(left, right)
                .map_err(|problem| self.fault(operator_at, problem.to_string()))?;
            self.skip_space();
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self) -> Result<Number, Fault> {
        let start = match self.peek() {
            Some(found) => found,
            None => {
                return Err(self.fault(self.at, "the expression ends where a number was expected".to_owned()));
            }
        };
        match start {
            '-' | '−' => {
                self.at += start.len_utf8();
                Ok(self.expression(Binding::Power)?.negate())
            }
            '+' => {
                self.at += 1;
                self.expression(Binding::Power)
            }
            '(' => {
                self.at += 1;
                let value = self.expression(Binding::Sum)?;
                self.expect(')')?;
                Ok(value)
            }
            '0'..='9' | '.' => self.number(),
            letter if letter.is_alphabetic() => self.name(),
            other => Err(self.fault(self.at, format!("expected a number, found `{}`", other.escape_debug()))),
        }
    }

    /// Digits with at most one point, `_` between them, and an exponent.
    fn number(&mut self) -> Result<Number, Fault> {
        let start = self.at;
        self.skip_while(|c| c.is_ascii_digit() || matches!(c, '.' | '_'));
        let rest = &self.text[self.at..];
        if rest.starts_with(['e', 'E']) {
            let digits = rest[1..].strip_prefix(['+', '-']).unwrap_or(&rest[1..]);
            // Otherwise the `e` is a constant after a number, and no exponent.
            if digits.starts_with(|c: char| c.is_ascii_digit()) {
                self.at += rest.len() - digits.len();
                self.skip_while(|c| c.is_ascii_digit());
            }
        }
        let literal = self.text[start..self.at].replace('_', "");
        Number::read(&literal).map_err(|problem| self.fault(start, problem.to_string()))
    }

    /// A constant, or a function with its arguments.
    fn name(&mut self) -> Result<Number, Fault> {
        let start = self.at;
        self.skip_while(|c| c.is_alphanumeric() || c == '_');
        let name = &self.text[start..self.at];
        if let Some(value) = functions::constant(name) {
            return Ok(value);
        }
        let called = self.peek() == Some('(');
        let function = match functions::find(name) {
            Some(function) if called => function,
            Some(_) => return Err(self.fault(self.at, format!("expected `(` after `{name}`"))),
            None => return Err(self.fault(start, functions::unknown(name, called))),
        };
        self.at += 1;
        let arguments = self.arguments()?;
        function.call(&arguments).map_err(|problem| self.fault(start, problem))
    }

    fn arguments(&mut self) -> Result<Vec<Number>, Fault> {
        let mut arguments = vec![self.expression(Binding::Sum)?];
        while self.peek() == Some(',') {
            self.at += 1;
            arguments.push(self.expression(Binding::Sum)?);
        }
        self.expect(')')?;
        Ok(arguments)
    }

    fn expect(&mut self, wanted: char) -> Result<(), Fault> {
        match self.peek() {
            Some(found) if found == wanted => {
                self.at += wanted.len_utf8();
                Ok(())
            }
            Some(found) => Err(self.fault(
                self.at,
                format!("expected `{wanted}` or an operator, found `{}`", found.escape_debug()),
            )),
            None => Err(self.fault(self.at, format!("the expression ends where `{wanted}` was expected"))),
        }
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.at..].chars().next()
    }

    fn skip_space(&mut self) {
        self.skip_while(char::is_whitespace);
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !wanted(c)).unwrap_or(rest.len());
    }

    fn fault(&self, at: usize, problem: String) -> Fault {
        Fault::At { position: self.text[..at].chars().count() + 1, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An expression with the value that plain floating point gives it.
    fn tree() -> impl Strategy<Value = (String, f64)> {
        let leaf = prop_oneof![
            (0u32..1_000).prop_map(|n| (n.to_string(), f64::from(n))),
            (0u32..100_000).prop_map(|n| (format!("{}.{:02}", n / 100, n % 100), f64::from(n) / 100.0)),
        ];
        leaf.prop_recursive(6, 40, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| (format!("({}+{})", a.0, b.0), a.1 + b.1)),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| (format!("({} - {})", a.0, b.0), a.1 - b.1)),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| (format!("({}*{})", a.0, b.0), a.1 * b.1)),
                (inner.clone(), 1u32..50).prop_map(|(a, b)| (format!("({} / {b})", a.0), a.1 / f64::from(b))),
                inner.prop_map(|a| (format!("(-{})", a.0), -a.1)),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_agree_with_floating_point((text, expected) in tree()) {
            let value = evaluate(&text).unwrap().to_f64();
            // Subtraction can cancel all digits that floating point had right.
            let scale = text.split(|c: char| !c.is_ascii_digit() && c != '.')
                .filter_map(|number| number.parse::<f64>().ok())
                .fold(1.0, |scale, number| scale * number.max(1.0));
            prop_assert!((value - expected).abs() <= 1e-9 * scale, "{text}: {value} is not {expected}");
        }

        #[test]
        fn random_text_never_panics(text in "\\PC{0,60}") {
            let _ = evaluate(&text);
        }

        #[test]
        fn random_expressions_never_panic(text in "([0-9]{1,40}|[-+*/%^(),. ]|e|pi|(sqrt|fact|round|min|log|atan2)\\(){0,30}") {
            if let Ok(value) = evaluate(&text) {
                prop_assert!(value.to_f64().is_finite());
                let _ = (value.to_text(), value.to_json(), value.to_fraction());
            }
        }
    }
}
