//! What calls cost. Money is counted in whole millionths of a unit, never in floating point.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::limit::{CountBy, period};
use crate::pattern;

/// Millionths in one unit.
const MICROS: u64 = 1_000_000;

/// An amount in millionths of a unit.
///
/// ```
/// use helve_core::cost::Amount;
/// let amount: Amount = "0.0125".parse()?;
/// assert_eq!((amount.micros(), amount.to_string().as_str()), (12_500, "0.0125"));
/// # Ok::<(), helve_core::cost::CostError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

/// A price, an amount or a limit on cost that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is {why}")]
pub struct CostError {
    text: String,
    why: &'static str,
}

impl CostError {
    fn new(text: &str, why: &'static str) -> Self {
        Self { text: text.chars().take(64).collect::<String>().escape_debug().to_string(), why }
    }
}

const NO_AMOUNT: &str =
    "no amount: write a number from 0 to a billion with at most six decimals, as in `0.004`";

impl Amount {
    /// An amount of nothing.
    pub const ZERO: Self = Self(0);
    /// Largest amount: a billion units.
    pub const MAX: Self = Self(1_000_000_000 * MICROS);

    /// So many millionths; at most [`Amount::MAX`].
    pub fn from_micros(micros: u64) -> Self {
        Self(micros.min(Self::MAX.0))
    }

    /// The amount in millionths of the unit.
    pub fn micros(self) -> u64 {
        self.0
    }

    /// Both together; at most [`Amount::MAX`].
    pub fn plus(self, other: Self) -> Self {
        Self::from_micros(self.0.saturating_add(other.0))
    }

    /// What a tool reported in its result: a number or a text. What is finer than a millionth is rounded up.
    pub fn reported(value: &Value) -> Option<Self> {
        let text = match value {
            Value::String(text) => text.clone(),
            // Through its digits, which say exactly what was written.
            Value::Number(number) => match number.to_string() {
                text if text.contains(['e', 'E']) => format!("{:.9}", number.as_f64()?),
                text => text,
            },
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        let text = text.trim();
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let (kept, rest) = decimals.split_at_checked(6).unwrap_or((decimals, ""));
        let kept: Self = format!("{whole}.{kept}").trim_end_matches('.').parse().ok()?;
        if !rest.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let is_more = rest.bytes().any(|digit| digit != b'0');
        Some(kept.plus(Self(u64::from(is_more))))
    }
}

impl FromStr for Amount {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        let refuse = || CostError::new(text, NO_AMOUNT);
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 6 {
            return Err(refuse());
        }
        let whole: u64 = whole.parse().map_err(|_| refuse())?;
        let millionths: u64 = format!("{decimals:0<6}").parse().map_err(|_| refuse())?;
        let micros = whole.checked_mul(MICROS).and_then(|micros| micros.checked_add(millionths));
        micros.map(Self).filter(|amount| *amount <= Self::MAX).ok_or_else(refuse)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, millionths) = (self.0 / MICROS, self.0 % MICROS);
        if millionths == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{millionths:06}").trim_end_matches('0'))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "an amount such as `0.004`")]
        enum Written {
            Text(String),
            Whole(u64),
            Number(f64),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Text(text) => text,
            Written::Whole(units) => units.to_string(),
            // The shortest digits that stand for it: what was written.
            Written::Number(number) => number.to_string(),
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number"], "description": "An amount, such as `0.004`." })
    }
}

/// What amounts are counted in: a currency such as `USD`, or `credits`. Amounts of different units are never added.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Unit(Box<str>);

impl Unit {
    /// The word for it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Unit {
    fn default() -> Self {
        Self("USD".into())
    }
}

impl FromStr for Unit {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let fits = (1..=16).contains(&text.len()) && text.bytes().all(is_letter);
        let why = "no unit: write up to sixteen letters, as in `USD` or `credits`";
        if fits { Ok(Self(text.into())) } else { Err(CostError::new(text, why)) }
    }
}

impl TryFrom<String> for Unit {
    type Error = CostError;

    fn try_from(text: String) -> Result<Self, CostError> {
        text.parse()
    }
}

impl From<Unit> for String {
    fn from(unit: Unit) -> Self {
        unit.0.into()
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a call cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Millionths of the unit.
    pub micros: u64,
    /// What the cost is counted in, such as `USD` or `credits`.
    pub unit: Unit,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Amount(self.micros), self.unit)
    }
}

/// What a tool costs: a price for each call, one that it reports, or both together.
///
/// In a file: `cost = "0.004 USD"`, or `cost = { per_call = "0.004", reported = "/usage/cost", unit = "USD" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Price {
    /// What each call costs whose tool was started, unless it says that nothing was done.
    pub per_call: Amount,
    /// The currency, or another unit.
    pub unit: Unit,
    /// Where in the result the tool reports what the call cost, as a JSON Pointer: `/usage/cost`. In Rust a tool can
    /// report it with [`Context::charge`](crate::Context::charge) instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<String>,
}

/// A price as people write it.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a price such as `0.004 USD`, or a table with `per_call`, `unit` and `reported`"
)]
enum Written {
    Text(String),
    Table(Table),
}

/// What a tool costs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Table {
    /// What each call costs.
    #[serde(default)]
    per_call: Amount,
    /// The currency, or another unit. Left out: `USD`.
    #[serde(default)]
    unit: Unit,
    /// Where in the result the tool reports what the call cost: `/usage/cost`.
    reported: Option<String>,
}

impl TryFrom<Written> for Price {
    type Error = CostError;

    fn try_from(written: Written) -> Result<Self, CostError> {
        match written {
            Written::Text(text) => text.parse(),
            Written::Table(Table { per_call, unit, reported }) => match reported {
                Some(at) if !at.is_empty() && !at.starts_with('/') => {
                    Err(CostError::new(&at, "no JSON Pointer, as `reported` must be: `/usage/cost`"))
                }
                reported => Ok(Self { per_call, unit, reported }),
            },
        }
    }
}

impl Price {
    /// Each call costs the same.
    pub fn per_call(amount: Amount, unit: Unit) -> Self {
        Self { per_call: amount, unit, reported: None }
    }

    /// The tool reports what each call cost, with [`Context::charge`](crate::Context::charge).
    pub fn reported(unit: Unit) -> Self {
        Self { per_call: Amount::ZERO, unit, reported: None }
    }

    /// Where in the result the tool reports what a call cost.
    pub fn reported_at(mut self, pointer: impl Into<String>) -> Self {
        self.reported = Some(pointer.into());
        self
    }

    /// What a call cost: its own price, what the tool charged, and what its result reports.
    pub fn of(&self, charged: Amount, result: Option<&Value>, did_nothing: bool) -> Option<Cost> {
        let own = if did_nothing { Amount::ZERO } else { self.per_call };
        let told = result.zip(self.reported.as_deref()).and_then(|(value, at)| value.pointer(at));
        let told = told.and_then(Amount::reported).unwrap_or_default();
        let micros = own.plus(charged).plus(told).micros();
        (micros > 0).then(|| Cost { micros, unit: self.unit.clone() })
    }
}

impl FromStr for Price {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        let (amount, unit) = amount_and_unit(text)?;
        Ok(Self::per_call(amount, unit))
    }
}

/// Splits `0.004 USD`. Without a unit it is USD.
fn amount_and_unit(text: &str) -> Result<(Amount, Unit), CostError> {
    let (amount, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), "USD"));
    Ok((amount.parse()?, unit.trim().parse()?))
}

/// How much may be spent: `5 USD/1d` in any day, `0.50 USD` once and for all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct CostLimit {
    /// The most that may be spent in the period.
    pub amount: Amount,
    /// The unit of the amount.
    pub unit: Unit,
    /// In which time, up to now. Absent: since the journal began.
    pub period: Option<Duration>,
}

impl CostLimit {
    /// Longest time that is looked back.
    pub const PERIOD_MAX: Duration = Duration::from_secs(366 * 86_400);
}

impl FromStr for CostLimit {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Self, CostError> {
        let refuse = || {
            CostError::new(
                text,
                "no limit on cost: write an amount and a time, as in `5 USD/1d` or `0.5 USD`",
            )
        };
        let (amount, time) = match text.split_once('/') {
            Some((amount, time)) => (amount, Some(period(time).ok_or_else(refuse)?)),
            None => (text, None),
        };
        let (amount, unit) = amount_and_unit(amount)?;
        let fits = |time: &Duration| *time >= Duration::from_secs(1) && *time <= Self::PERIOD_MAX;
        if amount == Amount::ZERO || time.as_ref().is_some_and(|time| !fits(time)) {
            return Err(refuse());
        }
        Ok(Self { amount, unit, period: time })
    }
}

impl fmt::Display for CostLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.unit)?;
        match self.period {
            Some(period) => write!(f, "/{}", crate::limit::shown_period(period)),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for CostLimit {
    type Error = CostError;

    fn try_from(text: String) -> Result<Self, CostError> {
        text.parse()
    }
}

impl From<CostLimit> for String {
    fn from(limit: CostLimit) -> Self {
        limit.to_string()
    }
}

/// A call that cost something, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spending {
    /// When it ended.
    pub at: Timestamp,
    /// The tool's full name.
    pub tool: String,
    /// Who answers for it.
    pub principal: Option<String>,
    /// The caller's session.
    pub session: Option<String>,
    /// What the call cost.
    pub cost: Cost,
}

impl Spending {
    /// Whether it is of this tool or of one whose name fits (`mail/*`), of this principal and of this session. None:
    /// of any.
    pub fn is_of(&self, tool: Option<&str>, principal: Option<&str>, session: Option<&str>) -> bool {
        tool.is_none_or(|tool| pattern::matches(tool, &self.tool))
            && principal.is_none_or(|who| self.principal.as_deref() == Some(who))
            && session.is_none_or(|id| self.session.as_deref() == Some(id))
    }
}

/// What calls cost together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CostTotal {
    /// The tool, where it is counted by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Who answers for the calls, where it is counted by that or by session. Empty: nobody said who they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The session, where it is counted by that. Empty: outside of sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How many calls.
    pub calls: u64,
    /// Millionths of the unit.
    pub micros: u64,
    /// The same as a number in text: `0.0125`.
    pub amount: String,
    /// What these costs are counted in.
    pub unit: String,
}

/// Adds up what was spent, by tool, caller or session; the largest first. Units are never mixed.
pub fn totals(spent: impl IntoIterator<Item = Spending>, by: CountBy) -> Vec<CostTotal> {
    /// Tool, caller and session, as far as it is counted by them, and the unit.
    type Key = ([Option<String>; 3], Unit);
    let mut sums: BTreeMap<Key, (u64, Amount)> = BTreeMap::new();
    for Spending { tool, principal, session, cost, .. } in spent {
        let (caller, session) = (Some(principal.unwrap_or_default()), Some(session.unwrap_or_default()));
        let key = match by {
            CountBy::Tool => [Some(tool), None, None],
            CountBy::Caller => [None, caller, None],
            CountBy::Session => [None, caller, session],
        };
        let (calls, sum) = sums.entry((key, cost.unit)).or_default();
        *calls += 1;
        *sum = sum.plus(Amount(cost.micros));
    }
    let mut totals: Vec<_> = sums
        .into_iter()
        .map(|(([tool, caller, session], unit), (calls, sum))| CostTotal {
            tool,
            caller,
            session,
            calls,
            micros: sum.micros(),
            amount: sum.to_string(),
            unit: unit.into(),
        })
        .collect();
    totals.sort_by(|a, b| (&a.unit, b.micros).cmp(&(&b.unit, a.micros)));
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_are_exact() {
        for (text, micros, shown) in [
            ("0", 0, "0"),
            ("0.1", 100_000, "0.1"),
            ("0.000001", 1, "0.000001"),
            ("12.50", 12_500_000, "12.5"),
            ("1000000000", 1_000_000_000_000_000, "1000000000"),
        ] {
            let amount: Amount = text.parse().unwrap();
            assert_eq!((amount.micros(), amount.to_string().as_str()), (micros, shown), "{text}");
        }
        let tenths: Amount =
            (0..10).map(|_| "0.1".parse::<Amount>().unwrap()).fold(Amount::ZERO, Amount::plus);
        assert_eq!(tenths.to_string(), "1");
        for wrong in
            ["", ".", "1.", ".5", "-1", "+1", "1e3", "0.0000001", "1000000001", "1,5", "NaN", "∞", "1 000"]
        {
            assert!(wrong.parse::<Amount>().is_err(), "{wrong}");
        }
        assert_eq!(Amount::MAX.plus(Amount::MAX), Amount::MAX);
    }

    #[test]
    fn what_a_tool_reports_is_rounded_up_and_nonsense_is_nothing() {
        let read = |value: Value| Amount::reported(&value).map(Amount::micros);
        assert_eq!(read(json!(0.0042)), Some(4_200));
        assert_eq!(read(json!("0.0000001")), Some(1));
        assert_eq!(read(json!(3)), Some(3_000_000));
        assert_eq!(read(json!(1e-9)), Some(1));
        for wrong in
            [json!(-1), json!("free"), json!(null), json!({}), json!(1e300), json!("0.0000001x"), json!("1.")]
        {
            assert!(read(wrong.clone()).is_none_or(|micros| micros <= 1_000_000), "{wrong}");
        }
        assert_eq!(read(json!("0.0000001x")), None);
    }

    #[test]
    fn prices_and_limits_are_read_as_people_write_them() {
        let price: Price = serde_json::from_value(json!("0.004 EUR")).unwrap();
        assert_eq!(price, Price::per_call("0.004".parse().unwrap(), "EUR".parse().unwrap()));
        let table: Price =
            serde_json::from_value(json!({ "per_call": 0.004, "reported": "/usage/cost" })).unwrap();
        assert_eq!((table.per_call.micros(), table.unit.as_str()), (4_000, "USD"));
        assert_eq!(serde_json::from_value::<Price>(json!(table)).unwrap(), table);
        for wrong in
            [json!("x"), json!({ "reported": "usage" }), json!({ "per_cal": 1 }), json!("1 U$D"), json!(-1)]
        {
            assert!(serde_json::from_value::<Price>(wrong.clone()).is_err(), "{wrong}");
        }
        for (text, shown) in
            [("5 USD/1d", "5 USD/1d"), ("0.50 credits", "0.5 credits"), ("2/30d", "2 USD/30d")]
        {
            assert_eq!(text.parse::<CostLimit>().unwrap().to_string(), shown);
        }
        for wrong in ["", "0 USD/1d", "5 USD/", "5 USD/1ms", "5 USD/999d", "5 USD/d/d"] {
            assert!(wrong.parse::<CostLimit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_call_costs_its_price_what_was_charged_and_what_is_reported() {
        let price = Price::per_call("0.01".parse().unwrap(), Unit::default()).reported_at("/cost");
        let charged: Amount = "0.1".parse().unwrap();
        let cost = |charged, result: Option<Value>, nothing| {
            price.of(charged, result.as_ref(), nothing).map(|cost| cost.micros)
        };
        assert_eq!(cost(charged, Some(json!({ "cost": 1 })), false), Some(1_110_000));
        assert_eq!(cost(Amount::ZERO, Some(json!({ "cost": "odd" })), false), Some(10_000));
        assert_eq!(cost(Amount::ZERO, None, false), Some(10_000), "also where the call failed");
        assert_eq!(cost(Amount::ZERO, None, true), None, "but not where nothing was done");
    }

    fn spent(tool: &str, who: &str, session: &str, micros: u64, unit: &str) -> Spending {
        Spending {
            at: Timestamp::UNIX_EPOCH,
            tool: tool.to_owned(),
            principal: Some(who.to_owned()),
            session: Some(session.to_owned()),
            cost: Cost { micros, unit: unit.parse().unwrap() },
        }
    }

    #[test]
    fn what_was_spent_is_found_by_tool_principal_and_session() {
        let one = spent("mail/send", "ada", "s", 1, "USD");
        assert!(one.is_of(None, None, None) && one.is_of(Some("mail/*"), Some("ada"), Some("s")));
        let others = [(Some("mail"), None, None), (None, Some("bob"), None), (None, None, Some("t"))];
        assert!(!others.into_iter().any(|(tool, who, session)| one.is_of(tool, who, session)));
        // Nobody's is nobody's, and outside of sessions is no session.
        let nobodys = Spending { principal: None, session: None, ..one };
        assert!(nobodys.is_of(Some("mail/send"), None, None));
        assert!(!nobodys.is_of(None, Some(""), None) && !nobodys.is_of(None, None, Some("")));
    }

    #[test]
    fn totals_never_mix_units_and_know_sessions_of_one_caller_alone() {
        let all = || {
            vec![
                spent("a", "ada", "s", 1, "USD"),
                spent("a", "bob", "s", 5, "USD"),
                spent("b", "ada", "t", 7, "EUR"),
            ]
        };
        let by = |by| totals(all(), by).iter().map(|one| (one.unit.clone(), one.micros)).collect::<Vec<_>>();
        let row = |unit: &str, micros| (unit.to_owned(), micros);
        assert_eq!(by(CountBy::Tool), [row("EUR", 7), row("USD", 6)]);
        assert_eq!(by(CountBy::Caller), [row("EUR", 7), row("USD", 5), row("USD", 1)]);
        assert_eq!(by(CountBy::Session), [row("EUR", 7), row("USD", 5), row("USD", 1)]);
    }
}
