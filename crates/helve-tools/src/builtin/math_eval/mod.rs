//! `math-eval`: the value of an arithmetic expression.
//!
//! Our own parser instead of a crate such as `exmex`: those compute in floating point only (so
//! that `0.1 + 0.2` is not `0.3`), put no bound on nesting, and say little about what is wrong
//! where. A model corrects itself by the position and the word that was expected.

mod expression;
mod functions;
mod number;

use helve::{Context, Tool, ToolBuilder, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::wrong_argument;
use expression::evaluate;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The expression. Operators: `+ - * / % ^` (also `**`) and parentheses; `%` is the remainder, with
    /// the sign of the left side. Constants: `pi`, `tau`, `e`. Functions, angles in radians: `sqrt cbrt
    /// abs sign round floor ceil trunc min max sum avg ln log2 log10 log exp sin cos tan asin acos atan
    /// atan2 hypot deg rad fact`. `round(x, n)` keeps n decimals, `log(x, b)` has base b.
    #[schemars(length(min = 1, max = 4000))]
    expression: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The value, as near as a JSON number can be.
    value: serde_json::Number,
    /// The value in decimal digits.
    text: String,
    /// Whether `text` is exact, or rounded to about 16 digits.
    exact: bool,
    /// The exact value as a fraction, where it is known and has no finite decimal form.
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<String>,
}

pub(super) fn tool() -> ToolBuilder {
    Tool::function(
        "math-eval",
        "Evaluates an arithmetic expression and returns its value. Whole numbers, decimals and fractions \
         are computed exactly as long as they fit in 38 digits; the result says whether it is exact.",
        |input: Input, _: Context| async move { answer(&input) },
    )
    .when_to_use("For every calculation with more than one or two digits. Do not calculate in your head.")
    .example_call("What is 17.5% of 2,480?", json!({ "expression": "2480 * 17.5 / 100" }))
    .example_call(
        "How long is the diagonal of a 3 by 4 rectangle?",
        json!({ "expression": "sqrt(3^2 + 4^2)" }),
    )
    .example_call("Round 2/3 to 4 decimals.", json!({ "expression": "round(2/3, 4)" }))
}

fn answer(input: &Input) -> Result<Output, ToolError> {
    let text = input.expression.as_str();
    let number = evaluate(text).map_err(|fault| {
        wrong_argument("expression", "an arithmetic expression", text, &fault.to_string())
    })?;
    let (text, exact) = number.to_text();
    Ok(Output { value: number.to_json(), text, exact, fraction: number.to_fraction() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn eval(expression: &str) -> Result<Output, String> {
        answer(&Input { expression: expression.to_owned() }).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn expressions_have_the_values_of_the_textbook() {
        for (expression, text, exact) in [
            ("1 + 2 * 3", "7", true),
            ("(1 + 2) * 3", "9", true),
            ("10 - 4 - 3", "3", true),
            ("2 ^ 3 ^ 2", "512", true),
            ("2**10", "1024", true),
            ("-2 ^ 2", "-4", true),
            ("(-2) ^ 2", "4", true),
            ("2 ^ -2", "0.25", true),
            ("--3", "3", true),
            ("7 % 3 + -7 % 3", "0", true),
            ("5.5 % 2", "1.5", true),
            ("0.1 + 0.2", "0.3", true),
            ("1/3 * 3", "1", true),
            ("1.10 * 3", "3.3", true),
            ("6 / 4", "1.5", true),
            ("1_000_000 × 2 ÷ 4 − 1", "499999", true),
            ("2 ^ 100", "1267650600228229401496703205376", true),
            ("2 ^ 200", "1.6069380442589903e60", false),
            ("9999999999999999 + 1", "10000000000000000", true),
            ("1e3 + 2.5E-1", "1000.25", true),
            (".5 + 5.", "5.5", true),
            ("2 / 3", "0.6666666666666666", false),
            ("sqrt(16) + sqrt(9/4)", "5.5", true),
            ("sqrt(2)", "1.4142135623730951", false),
            ("round(2.5) + round(-2.5)", "0", true),
            ("round(2/3, 4)", "0.6667", true),
            ("round(1234.5, -2)", "1200", true),
            ("floor(-1.5) + ceil(-1.5) + trunc(-1.5)", "-4", true),
            ("min(3, 1, 2) + max(3, 1, 2)", "4", true),
            ("sum(1, 2, 3) / avg(1, 2, 3)", "3", true),
            ("log(8, 2) + log10(1000) + log2(8) + ln(e)", "10", false),
            ("sin(pi / 2) + cos(0) + Abs(-1) + sign(-5)", "2", false),
            ("deg(pi) - 180", "0", false),
            ("fact(30)", "265252859812191058636308480000000", true),
            ("hypot(3, 4) + cbrt(27)", "8", false),
        ] {
            let output = eval(expression).unwrap();
            assert_eq!((output.text.as_str(), output.exact), (text, exact), "{expression}");
        }
    }

    #[test]
    fn the_json_value_is_whole_where_it_can_be() {
        assert_eq!(
            serde_json::to_string(&eval("9007199254740993").unwrap().value).unwrap(),
            "9007199254740993"
        );
        assert_eq!(serde_json::to_string(&eval("1/4").unwrap().value).unwrap(), "0.25");
        assert_eq!(eval("2/6").unwrap().fraction.as_deref(), Some("1/3"));
        assert_eq!(eval("pi").unwrap().fraction, None);
    }

    #[test]
    fn faults_say_where_and_what_was_expected() {
        for (expression, expected) in [
            ("", "it is empty"),
            ("1 +", "position 4: the expression ends where a number was expected"),
            ("2 * (3 + 4", "position 11: the expression ends where `)` was expected"),
            ("2 )", "position 3: unexpected `)`"),
            ("1,000", "position 2: unexpected `,`; write numbers without separators"),
            ("2 pi", "position 3: expected an operator; write `*` to multiply"),
            ("2(3)", "position 2: expected an operator; write `*` to multiply"),
            ("1 / 0", "position 3: division by zero"),
            ("5 % (1 - 1)", "position 3: division by zero"),
            ("0 ^ -1", "position 3: division by zero"),
            ("sqrt(-1)", "position 1: not a real number"),
            ("(-8) ^ 0.5", "position 6: not a real number"),
            ("ln(0)", "position 1: too large"),
            ("sqroot(4)", "position 1: there is no function `sqroot`; did you mean `sqrt`?"),
            ("x + 1", "position 1: there is no constant `x`; known are `pi`, `tau` and `e`"),
            ("sqrt 4", "position 6: expected `(` after `sqrt`"),
            ("atan2(1)", "position 1: `atan2` takes 2 values, not 1"),
            ("min()", "position 5: expected a number, found `)`"),
            ("fact(1.5)", "position 1: a whole number of at least 0 is needed"),
            ("round(1, 99)", "position 1: the number of decimals must be a whole number from -15 to 15"),
            ("é1", "position 1: there is no constant `é1`"),
            ("1 $ 2", "position 3: unexpected `$`"),
            ("1 = 1", "position 3: unexpected `=`"),
            ("1e999", "position 1: too large"),
            ("1e99999999999", "position 1: too large"),
        ] {
            let error = eval(expression).map(|output| output.text).unwrap_err();
            assert!(error.contains(expected), "{expression}: {error}");
        }
    }

    #[test]
    fn hostile_expressions_end_quickly_in_a_clear_fault() {
        let deep = format!("{}1{}", "(".repeat(1_900), ")".repeat(1_900));
        let calls = format!("{}1", "abs(".repeat(900));
        let cases = [
            ("9^9^9^9".to_owned(), "too large"),
            ("fact(fact(9))".to_owned(), "too large"),
            ("1+".repeat(500_000), "longer than 4000"),
            (deep, "nested deeper than 100"),
            (calls, "nested deeper than 100"),
            ("-".repeat(3_999) + "1", "nested deeper than 100"),
            ("2^".repeat(1_500) + "1", "nested deeper than 100"),
            ("9".repeat(3_999), "too large"),
        ];
        for (expression, expected) in cases {
            let started = Instant::now();
            let error = eval(&expression).map(|output| output.text).unwrap_err();
            assert!(error.contains(expected), "{expression:.20}: {error}");
            assert!(error.len() < 300 && started.elapsed() < Duration::from_secs(2), "{expression:.20}");
        }
    }
}
