//! Numbers that stay exact as long as they can: fractions of 128-bit integers, then floating point.

use std::cmp::Ordering;

/// Why an operation has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("division by zero")]
    DivisionByZero,
    #[error("too large; the limit is about 1.8e308")]
    TooLarge,
    #[error("not a real number")]
    NotReal,
    #[error("not a number; write digits with at most one point")]
    NotANumber,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Exact(Ratio),
    /// INVARIANT: finite, because every operation checks its result.
    Rounded(f64),
}

impl Number {
    /// The value of a literal: digits with at most one point, and an exponent.
    pub(super) fn read(literal: &str) -> Result<Self, Problem> {
        match Ratio::read(literal) {
            Some(ratio) => Ok(Self::Exact(ratio)),
            None => literal.parse().map_err(|_| Problem::NotANumber).and_then(Self::rounded),
        }
    }

    pub(super) fn whole(value: i128) -> Self {
        Self::Exact(Ratio { numerator: value, denominator: 1 })
    }

    pub(super) fn rounded(value: f64) -> Result<Self, Problem> {
        if value.is_nan() {
            Err(Problem::NotReal)
        } else if value.is_infinite() {
            Err(Problem::TooLarge)
        } else {
            Ok(Self::Rounded(value))
        }
    }

    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Exact(ratio) => ratio.numerator as f64 / ratio.denominator as f64,
            Self::Rounded(value) => value,
        }
    }

    /// The whole number that this exactly is.
    pub(super) fn to_whole(self) -> Option<i128> {
        match self {
            Self::Exact(ratio) if ratio.denominator == 1 => Some(ratio.numerator),
            Self::Exact(_) | Self::Rounded(_) => None,
        }
    }

    pub(super) fn add(self, other: Self) -> Result<Self, Problem> {
        self.combine(other, Ratio::add, |a, b| a + b)
    }

    pub(super) fn subtract(self, other: Self) -> Result<Self, Problem> {
        self.add(other.negate())
    }

    pub(super) fn multiply(self, other: Self) -> Result<Self, Problem> {
        self.combine(other, Ratio::multiply, |a, b| a * b)
    }

    pub(super) fn divide(self, other: Self) -> Result<Self, Problem> {
        other.refuse_zero()?;
        self.combine(other, Ratio::divide, |a, b| a / b)
    }

    /// What division leaves, with the sign of `self`.
    pub(super) fn remainder(self, other: Self) -> Result<Self, Problem> {
        other.refuse_zero()?;
        self.combine(other, Ratio::remainder, |a, b| a % b)
    }

    pub(super) fn power(self, exponent: Self) -> Result<Self, Problem> {
        if exponent.to_f64() < 0.0 {
            self.refuse_zero()?;
        }
        self.combine(exponent, Ratio::power, f64::powf)
    }

    pub(super) fn negate(self) -> Self {
        match self {
            Self::Exact(ratio) => match ratio.negate() {
                Some(negated) => Self::Exact(negated),
                None => Self::Rounded(-self.to_f64()),
            },
            Self::Rounded(value) => Self::Rounded(-value),
        }
    }

    pub(super) fn square_root(self) -> Result<Self, Problem> {
        self.map(Ratio::square_root, f64::sqrt)
    }

    pub(super) fn floor(self) -> Result<Self, Problem> {
        self.map(|ratio| Some(Ratio::from(ratio.floor())), f64::floor)
    }

    pub(super) fn truncate(self) -> Result<Self, Problem> {
        self.map(|ratio| Some(Ratio::from(ratio.truncate())), f64::trunc)
    }

    /// To the nearest whole number; a half goes away from zero.
    pub(super) fn round(self) -> Result<Self, Problem> {
        self.map(Ratio::round, f64::round)
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        if let (Self::Exact(a), Self::Exact(b)) = (self, other)
            && let Some(difference) = b.negate().and_then(|minus_b| a.add(minus_b))
        {
            return difference.numerator.cmp(&0);
        }
        self.to_f64().total_cmp(&other.to_f64())
    }

    /// Decimal digits, and whether they are exact.
    pub(super) fn to_text(self) -> (String, bool) {
        if let Self::Exact(ratio) = self
            && let Some(text) = ratio.to_decimal()
        {
            return (text, true);
        }
        let text = format!("{:?}", self.to_f64());
        (text.strip_suffix(".0").unwrap_or(&text).to_owned(), false)
    }

    pub(super) fn to_json(self) -> serde_json::Number {
        let whole = self.to_whole();
        let signed = whole.and_then(|value| i64::try_from(value).ok()).map(serde_json::Number::from);
        let unsigned = whole.and_then(|value| u64::try_from(value).ok()).map(serde_json::Number::from);
        let rounded = || serde_json::Number::from_f64(self.to_f64()).expect("numbers are finite");
        signed.or(unsigned).unwrap_or_else(rounded)
    }

    /// The exact value as `a/b`, where decimal digits cannot give it.
    pub(super) fn to_fraction(self) -> Option<String> {
        match self {
            Self::Exact(ratio) if ratio.to_decimal().is_none() => {
                Some(format!("{}/{}", ratio.numerator, ratio.denominator))
            }
            Self::Exact(_) | Self::Rounded(_) => None,
        }
    }

    fn refuse_zero(self) -> Result<(), Problem> {
        if self.to_f64() == 0.0 { Err(Problem::DivisionByZero) } else { Ok(()) }
    }

    fn map(self, exact: fn(Ratio) -> Option<Ratio>, rounded: fn(f64) -> f64) -> Result<Self, Problem> {
        match self {
            Self::Exact(ratio) => match exact(ratio) {
                Some(result) => Ok(Self::Exact(result)),
                None => Self::rounded(rounded(self.to_f64())),
            },
            Self::Rounded(value) => Self::rounded(rounded(value)),
        }
    }

    fn combine(
        self,
        other: Self,
        exact: fn(Ratio, Ratio) -> Option<Ratio>,
        rounded: fn(f64, f64) -> f64,
    ) -> Result<Self, Problem> {
        if let (Self::Exact(a), Self::Exact(b)) = (self, other)
            && let Some(result) = exact(a, b)
        {
            return Ok(Self::Exact(result));
        }
        Self::rounded(rounded(self.to_f64(), other.to_f64()))
    }
}

/// A fraction. Every operation gives `None` where 128 bits do not hold the result.
///
/// INVARIANT: in lowest terms, with a denominator above zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratio {
    numerator: i128,
    denominator: i128,
}

impl From<i128> for Ratio {
    fn from(value: i128) -> Self {
        Self { numerator: value, denominator: 1 }
    }
}

impl Ratio {
    fn new(numerator: i128, denominator: i128) -> Option<Self> {
        let divisor = match denominator.signum() {
            0 => return None,
            sign => sign * greatest_common_divisor(numerator, denominator)?,
        };
        Some(Self {
            numerator: numerator.checked_div(divisor)?,
            denominator: denominator.checked_div(divisor)?,
        })
    }

    fn read(literal: &str) -> Option<Self> {
        let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
        let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: i128 = format!("{whole}{decimals}").parse().ok()?;
        let shift = exponent.parse::<i32>().ok()?.checked_sub(i32::try_from(decimals.len()).ok()?)?;
        let scale = 10_i128.checked_pow(shift.unsigned_abs())?;
        if shift < 0 { Self::new(digits, scale) } else { digits.checked_mul(scale).map(Self::from) }
    }

    fn add(self, other: Self) -> Option<Self> {
        let left = self.numerator.checked_mul(other.denominator)?;
        let right = other.numerator.checked_mul(self.denominator)?;
        Self::new(left.checked_add(right)?, self.denominator.checked_mul(other.denominator)?)
    }

    fn multiply(self, other: Self) -> Option<Self> {
        let numerator = self.numerator.checked_mul(other.numerator)?;
        Self::new(numerator, self.denominator.checked_mul(other.denominator)?)
    }

    fn divide(self, other: Self) -> Option<Self> {
        self.multiply(Self::new(other.denominator, other.numerator)?)
    }

    fn remainder(self, other: Self) -> Option<Self> {
        let times = Self::from(self.divide(other)?.truncate());
        let taken = other.multiply(times)?;
        self.add(taken.negate()?)
    }

    fn negate(self) -> Option<Self> {
        Some(Self { numerator: self.numerator.checked_neg()?, ..self })
    }

    fn power(self, exponent: Self) -> Option<Self> {
        if exponent.denominator != 1 {
            return None;
        }
        let times = u32::try_from(exponent.numerator.unsigned_abs()).ok()?;
        let numerator = self.numerator.checked_pow(times)?;
        let denominator = self.denominator.checked_pow(times)?;
        if exponent.numerator < 0 {
            Self::new(denominator, numerator)
        } else {
            Self::new(numerator, denominator)
        }
    }

    fn square_root(self) -> Option<Self> {
        let root = |value: i128| value.checked_isqrt().filter(|root| root * root == value);
        Some(Self { numerator: root(self.numerator)?, denominator: root(self.denominator)? })
    }

    fn floor(self) -> i128 {
        self.numerator.div_euclid(self.denominator)
    }

    fn truncate(self) -> i128 {
        self.numerator / self.denominator
    }

    fn round(self) -> Option<Self> {
        let double = self.denominator.checked_mul(2)?;
        let up = self.numerator.checked_abs()?.checked_mul(2)?.checked_add(self.denominator)?;
        Some(Self::from(self.numerator.signum() * (up / double)))
    }

    /// All decimal digits, if there is an end to them.
    fn to_decimal(self) -> Option<String> {
        let mut rest = self.denominator;
        let mut count = |factor: i128| {
            let mut times = 0_usize;
            while rest % factor == 0 {
                rest /= factor;
                times += 1;
            }
            times
        };
        let decimals = count(2).max(count(5));
        if rest != 1 {
            return None;
        }
        let scale = 10_i128.checked_pow(u32::try_from(decimals).ok()?)?;
        let digits = self.numerator.checked_mul(scale / self.denominator)?;
        if decimals == 0 {
            return Some(digits.to_string());
        }
        let sign = if digits < 0 { "-" } else { "" };
        let padded = format!("{:0>width$}", digits.unsigned_abs(), width = decimals + 1);
        let (whole, part) = padded.split_at(padded.len() - decimals);
        Some(format!("{sign}{whole}.{part}"))
    }
}

fn greatest_common_divisor(a: i128, b: i128) -> Option<i128> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).ok()
}
