//! `time-now`: the time, here or elsewhere, now or later.

use helve::{Context, Tool, ToolBuilder, ToolError};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::wrong_argument;

/// Longest zone, time or duration that we read.
const TEXT_BYTES_MAX: usize = 100;
/// Most zones named after a wrong one.
const SUGGESTIONS_MAX: usize = 5;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// IANA time zone of the answer, such as `Europe/Berlin`. Without it: UTC.
    timezone: Option<String>,
    /// A time to convert instead of the current one: RFC 3339 (`2026-03-01T09:00:00Z`), or a local
    /// date and time (`2026-03-01 09:00`), read in `timezone`.
    convert: Option<String>,
    /// A duration to add, such as `2 weeks`, `-3 days`, `1h 30m` or `P1M`. Days and months follow
    /// the calendar of `timezone`.
    add: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The moment in RFC 3339, with its UTC offset.
    rfc3339: String,
    /// The day, as `YYYY-MM-DD`.
    date: String,
    /// The time of day, as `HH:MM:SS`.
    time: String,
    /// The day of the week, in English.
    weekday: String,
    /// The ISO 8601 week, as `YYYY-Www`.
    iso_week: String,
    /// Seconds since 1970-01-01T00:00:00Z.
    unix_seconds: i64,
    /// Distance from UTC, as `+HH:MM`.
    utc_offset: String,
    /// The time zone of all of this.
    timezone: String,
}

pub(super) fn tool() -> ToolBuilder {
    Tool::function(
        "time-now",
        "Tells the current date and time in any time zone, with weekday, ISO week, UTC offset and Unix \
         seconds. Can also convert a given time to another zone, and add a duration.",
        |input: Input, _: Context| async move { answer(&input, Timestamp::now()) },
    )
    .when_to_use(
        "Whenever the answer depends on today's date or the current time, and for time zones and date \
         arithmetic (\"in 90 days\", \"9:00 in Tokyo\"). Do not guess the date.",
    )
    .example_call("What time is it in Tokyo?", json!({ "timezone": "Asia/Tokyo" }))
    .example_call(
        "Our call is at 15:00 UTC on 1 March 2026, what is that in New York?",
        json!({ "convert": "2026-03-01T15:00:00Z", "timezone": "America/New_York" }),
    )
    .example_call("What date is in 90 days?", json!({ "add": "90 days" }))
}

fn answer(input: &Input, now: Timestamp) -> Result<Output, ToolError> {
    let zone = match &input.timezone {
        Some(name) => find_zone(name)?,
        None => TimeZone::UTC,
    };
    let start = match &input.convert {
        Some(text) => read_time(text, &zone)?,
        None => now.to_zoned(zone),
    };
    let moment = match &input.add {
        Some(text) => later(&start, text)?,
        None => start,
    };
    Ok(describe(&moment))
}

fn find_zone(name: &str) -> Result<TimeZone, ToolError> {
    let expected = "an IANA time zone";
    if name.len() > TEXT_BYTES_MAX {
        return Err(wrong_argument("timezone", expected, name, "no time zone has so long a name"));
    }
    // Models write cities as people do.
    TimeZone::get(&name.trim().replace(' ', "_")).map_err(|_| {
        let near = near_zones(name);
        let problem = match near.is_empty() {
            true => format!("there is no time zone `{name}`; use one such as `Europe/Berlin`"),
            false => format!("there is no time zone `{name}`; near: {}", near.join(", ")),
        };
        wrong_argument("timezone", expected, name, &problem)
    })
}

/// Zones whose name, or whose city, is much like `name`; best first.
fn near_zones(name: &str) -> Vec<String> {
    const LIKENESS_MIN: f64 = 0.8;
    let wanted = name.trim().replace(' ', "_").to_lowercase();
    let city_of = |zone: &str| zone.rsplit('/').next().unwrap_or(zone).to_owned();
    let wanted_city = city_of(&wanted);
    let mut near: Vec<(f64, String)> = jiff::tz::db()
        .available()
        .map(|zone| zone.to_string())
        .filter_map(|zone| {
            let lower = zone.to_lowercase();
            let whole = strsim::jaro_winkler(&wanted, &lower);
            let city = strsim::jaro_winkler(&wanted_city, &city_of(&lower));
            let likeness = whole.max(city);
            (likeness >= LIKENESS_MIN).then_some((likeness, zone))
        })
        .collect();
    near.sort_by(|(a, a_name), (b, b_name)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
    near.into_iter().take(SUGGESTIONS_MAX).map(|(_, zone)| zone).collect()
}

fn read_time(text: &str, zone: &TimeZone) -> Result<Zoned, ToolError> {
    let refuse = |problem: &str| wrong_argument("convert", "a date and time", text, problem);
    if text.len() > TEXT_BYTES_MAX {
        return Err(refuse("it is too long for a time"));
    }
    let text = text.trim();
    if let Ok(zoned) = text.parse::<Zoned>() {
        return Ok(zoned.with_time_zone(zone.clone()));
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment.to_zoned(zone.clone()));
    }
    let local = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(DateTime::from));
    local
        .and_then(|local| local.to_zoned(zone.clone()))
        .map_err(|_| refuse("write it like `2026-03-01T09:00:00Z`, `2026-03-01 09:00` or `2026-03-01`"))
}

fn later(start: &Zoned, duration: &str) -> Result<Zoned, ToolError> {
    let refuse = |problem: &str| wrong_argument("add", "a duration", duration, problem);
    if duration.len() > TEXT_BYTES_MAX {
        return Err(refuse("it is too long for a duration"));
    }
    let span: Span = duration
        .trim()
        .parse()
        .map_err(|_| refuse("write it like `2 weeks`, `-3 days`, `1h 30m`, or in ISO 8601 like `P1M`"))?;
    start.checked_add(span).map_err(|_| refuse("the sum lies beyond the year 9999"))
}

fn describe(moment: &Zoned) -> Output {
    let show = |format: &str| moment.strftime(format).to_string();
    Output {
        rfc3339: show("%Y-%m-%dT%H:%M:%S%:z"),
        date: show("%Y-%m-%d"),
        time: show("%H:%M:%S"),
        weekday: show("%A"),
        iso_week: show("%G-W%V"),
        unix_seconds: moment.timestamp().as_second(),
        utc_offset: show("%:z"),
        timezone: moment.time_zone().iana_name().unwrap_or("UTC").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(input: serde_json::Value) -> Result<Output, ToolError> {
        let now = "2026-11-15T22:30:15.9Z".parse().unwrap();
        answer(&serde_json::from_value(input).unwrap(), now)
    }

    #[test]
    fn the_current_time_is_told_in_utc_and_in_a_zone() {
        insta::assert_json_snapshot!(ask(json!({})).unwrap(), @r#"
        {
          "rfc3339": "2026-11-15T22:30:15+00:00",
          "date": "2026-11-15",
          "time": "22:30:15",
          "weekday": "Sunday",
          "iso_week": "2026-W46",
          "unix_seconds": 1794781815,
          "utc_offset": "+00:00",
          "timezone": "UTC"
        }
        "#);
        let tokyo = ask(json!({ "timezone": "asia/tokyo" })).unwrap();
        assert_eq!(
            (tokyo.rfc3339.as_str(), tokyo.timezone.as_str()),
            ("2026-11-16T07:30:15+09:00", "Asia/Tokyo")
        );
        assert_eq!(ask(json!({ "timezone": "America/New York" })).unwrap().utc_offset, "-05:00");
    }

    #[test]
    fn times_are_converted_and_durations_added_by_the_calendar() {
        let cases = [
            (
                json!({ "convert": "2026-03-01T15:00:00Z", "timezone": "America/New_York" }),
                "2026-03-01T10:00:00-05:00",
            ),
            (
                json!({ "convert": "2026-07-01 09:00", "timezone": "Europe/Berlin" }),
                "2026-07-01T09:00:00+02:00",
            ),
            (json!({ "convert": "2026-07-01", "timezone": "Europe/Berlin" }), "2026-07-01T00:00:00+02:00"),
            (json!({ "convert": "2026-07-01T09:00[Asia/Tokyo]" }), "2026-07-01T00:00:00+00:00"),
            (json!({ "add": "90 days" }), "2027-02-13T22:30:15+00:00"),
            (json!({ "add": "-1h 30m" }), "2026-11-15T21:00:15+00:00"),
            (json!({ "convert": "2026-01-31", "add": "P1M" }), "2026-02-28T00:00:00+00:00"),
            // A day is not always 24 hours.
            (
                json!({ "convert": "2026-03-28 12:00", "add": "1 day", "timezone": "Europe/Berlin" }),
                "2026-03-29T12:00:00+02:00",
            ),
        ];
        for (input, expected) in cases {
            assert_eq!(ask(input.clone()).unwrap().rfc3339, expected, "{input}");
        }
    }

    #[test]
    fn an_unknown_zone_is_answered_with_near_ones() {
        let error = ask(json!({ "timezone": "Europe/Berln" })).unwrap_err();
        assert!(error.message().contains("near: Europe/Berlin"), "{error}");
        let error = ask(json!({ "timezone": "new york" })).unwrap_err();
        assert!(error.message().contains("America/New_York"), "{error}");
        let error = ask(json!({ "timezone": "qqq" })).unwrap_err();
        assert!(error.message().contains("use one such as"), "{error}");
    }

    #[test]
    fn what_is_no_time_and_no_duration_is_refused() {
        let long = "9".repeat(1_000_000);
        for (field, text) in [
            ("convert", "tomorrow"),
            ("convert", ""),
            ("convert", &long),
            ("convert", "2026-02-30"),
            ("add", "soon"),
            ("add", ""),
            ("add", &long),
            ("add", "9000 years"),
            ("timezone", &long),
            ("timezone", "../../etc/passwd"),
        ] {
            let error = ask(json!({ field: text })).unwrap_err();
            assert_eq!(error.field_errors()[0].path, format!("/{field}"));
            assert!(error.message().len() < 300, "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn random_text_never_panics(text in "[-+0-9TZPWMDYh :.a-z\\[\\]/]{0,30}") {
            let now = "2026-11-15T22:30:15Z".parse().unwrap();
            let some = || Some(text.clone());
            let _ = answer(&Input { timezone: None, convert: some(), add: None }, now);
            let _ = answer(&Input { timezone: None, convert: None, add: some() }, now);
        }
    }
}
