//! The names that an expression may use.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use super::number::{Number, Problem};

/// Most values of a function that takes any number of them.
const ANY: RangeInclusive<usize> = 1..=usize::MAX;
/// Largest whole number whose factorial fits in 128 bits; beyond, floating point goes on to 170.
const FACTORIAL_EXACT_MAX: i128 = 33;
const DECIMALS_MAX: i128 = 15;

pub(super) struct Function {
    name: &'static str,
    values: RangeInclusive<usize>,
    body: Body,
}

#[derive(Clone, Copy)]
enum Body {
    /// One floating-point number to another.
    Float(fn(f64) -> f64),
    /// Two floating-point numbers to one.
    Float2(fn(f64, f64) -> f64),
    /// Exact where the arguments are.
    Exact(fn(&[Number]) -> Result<Number, String>),
}

const fn float(name: &'static str, body: fn(f64) -> f64) -> Function {
    Function { name, values: 1..=1, body: Body::Float(body) }
}

const fn float2(name: &'static str, body: fn(f64, f64) -> f64) -> Function {
    Function { name, values: 2..=2, body: Body::Float2(body) }
}

const fn exact(
    name: &'static str,
    values: RangeInclusive<usize>,
    body: fn(&[Number]) -> Result<Number, String>,
) -> Function {
    Function { name, values, body: Body::Exact(body) }
}

static FUNCTIONS: &[Function] = &[
    exact("sqrt", 1..=1, |x| x[0].square_root().map_err(text)),
    float("cbrt", f64::cbrt),
    exact("abs", 1..=1, |x| Ok(if is_negative(x[0]) { x[0].negate() } else { x[0] })),
    exact("sign", 1..=1, |x| Ok(Number::whole(x[0].compare(Number::whole(0)) as i128))),
    exact("round", 1..=2, round),
    exact("floor", 1..=1, |x| x[0].floor().map_err(text)),
    exact("ceil", 1..=1, |x| x[0].negate().floor().map(Number::negate).map_err(text)),
    exact("trunc", 1..=1, |x| x[0].truncate().map_err(text)),
    exact("min", ANY, |x| Ok(pick(x, Ordering::Less))),
    exact("max", ANY, |x| Ok(pick(x, Ordering::Greater))),
    exact("sum", ANY, sum),
    exact("avg", ANY, |x| sum(x)?.divide(Number::whole(x.len() as i128)).map_err(text)),
    float("ln", f64::ln),
    float("log2", f64::log2),
    float("log10", f64::log10),
    float2("log", f64::log),
    float("exp", f64::exp),
    float("sin", f64::sin),
    float("cos", f64::cos),
    float("tan", f64::tan),
    float("asin", f64::asin),
    float("acos", f64::acos),
    float("atan", f64::atan),
    float2("atan2", f64::atan2),
    float2("hypot", f64::hypot),
    float("deg", f64::to_degrees),
    float("rad", f64::to_radians),
    exact("fact", 1..=1, factorial),
];

pub(super) fn constant(name: &str) -> Option<Number> {
    match name.to_lowercase().as_str() {
        "pi" | "π" => Some(Number::Rounded(std::f64::consts::PI)),
        "tau" => Some(Number::Rounded(std::f64::consts::TAU)),
        "e" => Some(Number::Rounded(std::f64::consts::E)),
        _ => None,
    }
}

pub(super) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name.eq_ignore_ascii_case(name))
}

/// What to say of a name that is nothing.
pub(super) fn unknown(name: &str, called: bool) -> String {
    let shown: String = name.chars().take(30).collect();
    if !called {
        return format!("there is no constant `{shown}`; known are `pi`, `tau` and `e`");
    }
    let near = FUNCTIONS
        .iter()
        .map(|function| (strsim::jaro_winkler(&shown.to_lowercase(), function.name), function.name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, near)) => format!("there is no function `{shown}`; did you mean `{near}`?"),
        None => {
            let known: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
            format!("there is no function `{shown}`; known are {}", known.join(", "))
        }
    }
}

impl Function {
    pub(super) fn call(&self, values: &[Number]) -> Result<Number, String> {
        if !self.values.contains(&values.len()) {
            let (least, most) = (self.values.start(), self.values.end());
            let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Err(format!("`{}` takes {wanted} values, not {}", self.name, values.len()));
        }
        match (self.body, values) {
            (Body::Float(body), [x, ..]) => Number::rounded(body(x.to_f64())).map_err(text),
            (Body::Float2(body), [x, y, ..]) => Number::rounded(body(x.to_f64(), y.to_f64())).map_err(text),
            (Body::Exact(body), values) => body(values),
            (Body::Float(_) | Body::Float2(_), _) => Err("too few values".to_owned()),
        }
    }
}

fn text(problem: Problem) -> String {
    problem.to_string()
}

fn is_negative(number: Number) -> bool {
    number.to_f64() < 0.0
}

/// The smallest or largest of some values.
fn pick(values: &[Number], wanted: Ordering) -> Number {
    let better = |best: Number, next: &Number| if next.compare(best) == wanted { *next } else { best };
    values[1..].iter().fold(values[0], better)
}

fn sum(values: &[Number]) -> Result<Number, String> {
    values.iter().try_fold(Number::whole(0), |sum, value| sum.add(*value)).map_err(text)
}

fn round(values: &[Number]) -> Result<Number, String> {
    let Some(decimals) = values.get(1) else { return values[0].round().map_err(text) };
    let decimals = decimals
        .to_whole()
        .filter(|decimals| (-DECIMALS_MAX..=DECIMALS_MAX).contains(decimals))
        .ok_or("the number of decimals must be a whole number from -15 to 15")?;
    let shifted = |number: Number, places: i128| {
        let scale = Number::whole(10).power(Number::whole(places.abs()))?;
        if places < 0 { number.divide(scale) } else { number.multiply(scale) }
    };
    shifted(values[0], decimals).and_then(Number::round).and_then(|x| shifted(x, -decimals)).map_err(text)
}

fn factorial(values: &[Number]) -> Result<Number, String> {
    let n = values[0].to_whole().filter(|n| *n >= 0).ok_or("a whole number of at least 0 is needed")?;
    if n > 170 {
        return Err(text(Problem::TooLarge));
    }
    if n <= FACTORIAL_EXACT_MAX {
        return Ok(Number::whole((1..=n).product()));
    }
    Number::rounded((1..=n).map(|k| k as f64).product()).map_err(text)
}
