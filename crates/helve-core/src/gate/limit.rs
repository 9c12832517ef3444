//! How often, and how many at once: rules that hold callers and tools to a measure.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::CostLimit;
use crate::name::ToolName;
use crate::pattern;

/// One rule: which tools, counted by what, and how much is allowed.
///
/// ```
/// use helve_core::limit::{CountBy, LimitRule};
/// // A hundred searches a minute for each caller, never more than four at once.
/// let rule = LimitRule::for_tools("web/*").by([CountBy::Caller]).rate("100/1m".parse()?).concurrency(4);
/// assert_eq!(rule.problem(), None);
/// # Ok::<(), helve_core::limit::RateError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitRule {
    /// Which tools, by full name; `*` stands for any text, `?` for one character.
    pub tool: String,
    /// What is counted apart: each `tool`, each `caller`, each `session` of a caller, or several of
    /// these together. Left out: all calls to these tools are counted together.
    #[serde(default, with = "one_or_more", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "one_or_more::schema")]
    pub by: Vec<CountBy>,
    /// How many calls in a time: `100/1m`, `5/s`, `1000/1h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many calls may come at once before the rate holds them back. Left out: as many as the
    /// rate names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    pub burst: Option<NonZeroU32>,
    /// How many calls may run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub concurrency: Option<NonZeroU32>,
    /// How much calls may cost: `5 USD/1d` within any day, `0.50 USD` in all. Of tools that declare a `cost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostLimit>,
}

impl LimitRule {
    /// A rule for the tools whose names match `pattern`. It limits nothing yet.
    pub fn for_tools(pattern: impl Into<String>) -> Self {
        Self { tool: pattern.into(), by: Vec::new(), rate: None, burst: None, concurrency: None, cost: None }
    }

    /// Counts these apart.
    pub fn by(mut self, by: impl IntoIterator<Item = CountBy>) -> Self {
        self.by = by.into_iter().collect();
        self
    }

    /// Allows so many calls in a time.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Allows so many calls at once before the rate holds them back. Zero counts as one.
    pub fn burst(mut self, calls: u32) -> Self {
        self.burst = Some(at_least_one(calls));
        self
    }

    /// Allows so many calls to run at the same time. Zero counts as one.
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.concurrency = Some(at_least_one(calls));
        self
    }

    /// Lets calls cost so much.
    pub fn cost(mut self, limit: CostLimit) -> Self {
        self.cost = Some(limit);
        self
    }

    /// Whether it is about this tool.
    pub fn matches(&self, tool: &ToolName) -> bool {
        pattern::matches(&self.tool, tool.as_str())
    }

    /// Whether it counts one caller's calls apart from another's.
    pub fn is_personal(&self) -> bool {
        self.by.iter().any(|by| matches!(by, CountBy::Caller | CountBy::Session))
    }

    /// The rate, with the burst that goes with it.
    pub fn rate_with_burst(&self) -> Option<Rate> {
        let rate = self.rate?;
        Some(self.burst.map_or(rate, |burst| rate.with_burst(burst)))
    }

    /// What makes the rule useless, in a line.
    pub fn problem(&self) -> Option<&'static str> {
        match (self.rate, self.burst, self.concurrency) {
            (None, Some(_), _) => Some("`burst` belongs to a `rate`, and there is none"),
            (None, None, None) if self.cost.is_some() => None,
            (None, None, None) => Some("it limits nothing; give a `rate`, a `concurrency` or a `cost`"),
            (Some(_), _, _) | (None, None, Some(_)) => None,
        }
    }
}

fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

/// What calls are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountBy {
    /// Each tool by itself.
    Tool,
    /// Each caller by itself: who answers for the call.
    Caller,
    /// Each session of each caller by itself.
    Session,
}

impl CountBy {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Caller => "caller",
            Self::Session => "session",
        }
    }
}

/// So many calls in a time, and so many at once.
///
/// ```
/// use helve_core::limit::Rate;
/// let rate: Rate = "100/1m".parse()?;
/// assert_eq!((rate.count().get(), rate.period().as_secs(), rate.burst().get()), (100, 60, 100));
/// assert_eq!(rate.to_string(), "100/1m");
/// # Ok::<(), helve_core::limit::RateError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct Rate {
    count: NonZeroU32,
    period: Duration,
    burst: NonZeroU32,
}

/// A rate that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a rate: write a count and a time, such as `100/1m`, `5/s` or `1000/1h`; {why}")]
pub struct RateError {
    text: String,
    why: &'static str,
}

impl Rate {
    /// Most calls in a period.
    const COUNT_MAX: u32 = 1_000_000;
    /// Longest period of a rate: a day.
    const PERIOD_MAX: Duration = Duration::from_secs(86_400);
    /// Most calls at once, where the count is not larger. Together these bounds keep the sums of
    /// the counter within 64 bits of nanoseconds.
    const BURST_MAX: u32 = 10_000;

    /// `count` calls in `period`, all of which may come at once.
    pub fn new(count: u32, period: Duration) -> Result<Self, RateError> {
        let refuse = |why| RateError { text: format!("{count}/{}ms", period.as_millis()), why };
        let some = NonZeroU32::new(count).filter(|count| count.get() <= Self::COUNT_MAX);
        let count = some.ok_or_else(|| refuse("the count is from 1 to 1000000"))?;
        if period < Duration::from_millis(1) || period > Self::PERIOD_MAX {
            return Err(refuse("the time is from a millisecond to a day"));
        }
        Ok(Self { count, period, burst: count })
    }

    /// The same rate, with so many calls at once; never more than 10,000 or the count.
    pub fn with_burst(mut self, burst: NonZeroU32) -> Self {
        let most = self.count.max(NonZeroU32::new(Self::BURST_MAX).unwrap_or(self.count));
        self.burst = burst.min(most);
        self
    }

    /// How many calls in a period.
    pub fn count(self) -> NonZeroU32 {
        self.count
    }

    /// The time in which they may come.
    pub fn period(self) -> Duration {
        self.period
    }

    /// How many may come at once.
    pub fn burst(self) -> NonZeroU32 {
        self.burst
    }

    /// The time from one call to the next, at the steady rate.
    pub fn interval(self) -> Duration {
        self.period / self.count.get()
    }
}

/// Units of time, the longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let refuse = |why| RateError { text: text.chars().take(64).collect(), why };
        let (count, period) = text.split_once('/').ok_or_else(|| refuse("there is no `/`"))?;
        let count = count.trim().parse().map_err(|_| refuse("the count is no whole number"))?;
        let period = read_period(period).map_err(refuse)?;
        Self::new(count, period).map_err(|error| refuse(error.why))
    }
}

/// A time such as `1m`, `90s` or `d`.
fn read_period(text: &str) -> Result<Duration, &'static str> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    // `5/s` is what people write for `5/1s`.
    let number: u64 = match number {
        "" => 1,
        some => some.parse().map_err(|_| "the time is too long")?,
    };
    let known = UNITS.iter().find(|(name, _)| *name == unit.trim());
    let (_, unit_ms) = known.ok_or("the unit is `ms`, `s`, `m`, `h` or `d`")?;
    Ok(Duration::from_millis(number.saturating_mul(*unit_ms)))
}

/// A time such as `1d`, where it is one.
pub(crate) fn period(text: &str) -> Option<Duration> {
    read_period(text).ok()
}

/// The same in the longest unit that fits.
pub(crate) fn shown_period(period: Duration) -> String {
    let ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
    let (unit, unit_ms) = UNITS.into_iter().find(|(_, unit_ms)| ms % unit_ms == 0).unwrap_or(("ms", 1));
    format!("{}{unit}", ms / unit_ms)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, shown_period(self.period))
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

impl TryFrom<String> for Rate {
    type Error = RateError;

    fn try_from(text: String) -> Result<Self, RateError> {
        text.parse()
    }
}

/// A list of one may be written without brackets.
mod one_or_more {
    use schemars::{Schema, SchemaGenerator, json_schema};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::CountBy;

    /// By hand: the derived one lists the words one by one, and errors then name only the first.
    pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
        let words = [CountBy::Tool, CountBy::Caller, CountBy::Session].map(CountBy::as_str);
        json_schema!({
            "anyOf": [
                { "type": "string", "enum": words },
                { "type": "array", "items": { "type": "string", "enum": words } },
            ]
        })
    }

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`tool`, `caller`, `session`, or a list of these")]
    enum OneOrMore {
        One(CountBy),
        More(Vec<CountBy>),
    }

    pub(super) fn serialize<S: Serializer>(by: &[CountBy], serializer: S) -> Result<S::Ok, S::Error> {
        match by {
            [one] => one.serialize(serializer),
            more => more.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CountBy>, D::Error> {
        Ok(match OneOrMore::deserialize(deserializer)? {
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, count, ms, printed) in [
            ("100/1m", 100, 60_000, "100/1m"),
            ("5/s", 5, 1_000, "5/1s"),
            (" 1 / 90s ", 1, 90_000, "1/90s"),
            ("1000/1h", 1_000, 3_600_000, "1000/1h"),
            ("1/1d", 1, 86_400_000, "1/1d"),
            ("2/250ms", 2, 250, "2/250ms"),
        ] {
            let rate: Rate = text.parse().unwrap();
            let found = (rate.count().get(), rate.period().as_millis(), rate.to_string());
            assert_eq!(found, (count, ms, printed.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "no `/`"),
            ("100", "no `/`"),
            ("many/1m", "whole number"),
            ("0/1m", "from 1"),
            ("-1/1m", "whole number"),
            ("1/0s", "a millisecond to a day"),
            ("1/2d", "a millisecond to a day"),
            ("1/99999999999999999999d", "too long"),
            ("1/1w", "unit"),
            ("1/1", "unit"),
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_burst_stays_within_what_can_be_counted() {
        let slow: Rate = "1/1d".parse().unwrap();
        assert_eq!(slow.with_burst(NonZeroU32::MAX).burst().get(), 10_000);
        assert_eq!(slow.with_burst(NonZeroU32::MIN).burst().get(), 1);
    }

    #[test]
    fn a_rule_reads_one_thing_or_several_to_count_by() {
        let read = |by| serde_json::from_value::<LimitRule>(json!({ "tool": "*", "by": by, "rate": "1/s" }));
        assert_eq!(read(json!("caller")).unwrap().by, [CountBy::Caller]);
        assert_eq!(read(json!(["caller", "tool"])).unwrap().by, [CountBy::Caller, CountBy::Tool]);
        assert!(read(json!("colour")).unwrap_err().to_string().contains("`session`"));
        assert!(LimitRule::for_tools("*").problem().unwrap().contains("limits nothing"));
        assert!(LimitRule::for_tools("*").burst(3).problem().unwrap().contains("`rate`"));
    }
}
