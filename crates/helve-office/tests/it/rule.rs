//! Recurrence rules compared with dateutil, a slow reference, and rules that are meant to hurt.

use helve_office::rule::{Budget, End, First, OverBudget, Rule, RuleError, Window, with_end};
use jiff::civil::{DateTime, date};
use proptest::prelude::*;

use crate::{local, table};

fn window(from: &str, to: &str) -> Window {
    Window { from: local(from), to: local(to) }
}

fn fires(rule: &str, start: &str, window: Window, first: First) -> Result<Vec<DateTime>, OverBudget> {
    Rule::parse(rule).unwrap().expand(local(start), window, first, &mut Budget::default())
}

#[test]
fn rules_fire_when_dateutil_says() {
    let mut count = 0;
    for row in table(include_str!("../tables/rules.txt")) {
        let [rule, start, from, to, expected] = row[..] else { panic!("{row:?}") };
        let expected: Vec<DateTime> = expected.split(',').filter(|at| !at.is_empty()).map(local).collect();
        let found = fires(rule, start, window(from, to), First::IfPicked).unwrap();
        assert_eq!(found, expected, "{rule} from {start} between {from} and {to}");
        count += 1;
    }
    assert!(count > 350, "the table has {count} rules");
}

#[test]
fn the_start_is_an_occurrence_and_counts_even_where_its_rule_does_not_pick_it() {
    let found = fires(
        "FREQ=WEEKLY;BYDAY=MO;COUNT=3",
        "20260304T090000",
        window("20260101T000000", "20270101T000000"),
        First::Always,
    );
    let expected = [date(2026, 3, 4), date(2026, 3, 9), date(2026, 3, 16)].map(|day| day.at(9, 0, 0, 0));
    assert_eq!(found.unwrap(), expected);
}

#[test]
fn a_week_without_a_weekday_takes_the_one_of_the_start() {
    let year = window("20260101T000000", "20261231T000000");
    let found = fires("FREQ=YEARLY;BYWEEKNO=20", "20240515T090000", year, First::IfPicked).unwrap();
    assert_eq!(found, [date(2026, 5, 13).at(9, 0, 0, 0)], "the Wednesday of week 20");
}

#[test]
fn weekdays_with_and_without_a_number_are_both_taken() {
    let month = window("20260301T000000", "20260331T000000");
    let found = fires("FREQ=MONTHLY;BYDAY=1MO,FR", "20260101T090000", month, First::IfPicked).unwrap();
    let days: Vec<i8> = found.iter().map(|at| at.day()).collect();
    assert_eq!(days, [2, 6, 13, 20, 27]);
}

#[test]
fn hostile_rules_end_with_an_error_or_with_nothing() {
    let year = window("20260101T000000", "20270101T000000");
    let too_many = Err(OverBudget::Occurrences { max: 10_000 });
    for (rule, expected) in [
        ("FREQ=SECONDLY", too_many.clone()),
        ("FREQ=MINUTELY", too_many.clone()),
        ("FREQ=SECONDLY;COUNT=1000000000", Err(OverBudget::Work)),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", Ok(Vec::new())),
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", Ok(Vec::new())),
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=31;BYHOUR=3;COUNT=5", Ok(Vec::new())),
        ("FREQ=HOURLY;INTERVAL=24;BYHOUR=5", Ok(Vec::new())),
        ("FREQ=DAILY;INTERVAL=4294967295", Ok(Vec::new())),
        ("FREQ=YEARLY;INTERVAL=4294967295", Ok(Vec::new())),
        ("FREQ=SECONDLY;INTERVAL=4294967295", Ok(Vec::new())),
        ("FREQ=MONTHLY;BYDAY=53MO", Ok(Vec::new())),
        ("FREQ=YEARLY;BYMONTHDAY=1;BYSETPOS=300", Ok(Vec::new())),
    ] {
        assert_eq!(fires(rule, "20000101T060000", year, First::IfPicked), expected, "{rule}");
    }
}

#[test]
fn a_full_product_of_lists_is_stopped_by_its_work() {
    let list = |max: u32| (0..=max).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let rule = format!(
        "FREQ=YEARLY;BYHOUR={};BYMINUTE={};BYSECOND={};BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=-1",
        list(23),
        list(59),
        list(59)
    );
    let found =
        fires(&rule, "20000101T000000", window("20260101T000000", "20270101T000000"), First::IfPicked);
    assert_eq!(found, Err(OverBudget::Work));
}

#[test]
fn the_ends_of_the_calendar_are_reached_without_harm() {
    let all = Window { from: DateTime::MIN, to: DateTime::MAX };
    for frequency in ["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"] {
        let rule = format!("FREQ={frequency};INTERVAL=3");
        let _ = fires(&rule, "99991230T235950", all, First::Always);
        let _ = fires(&rule, "00010101T000000", window("99991201T000000", "99991231T235959"), First::Always);
    }
}

#[test]
fn what_is_no_rule_is_refused_with_the_part_that_is_wrong() {
    let refused = |text: &str| Rule::parse(text).unwrap_err().to_string();
    for (text, expected) in [
        ("", "a recurrence rule needs a FREQ, such as `FREQ=WEEKLY;BYDAY=MO`"),
        ("COUNT=3", "a recurrence rule needs a FREQ, such as `FREQ=WEEKLY;BYDAY=MO`"),
        (
            "FREQ=FORTNIGHTLY",
            "`FREQ` of the recurrence rule has the value `FORTNIGHTLY`; use DAILY, WEEKLY, MONTHLY, …",
        ),
        ("FREQ=DAILY;INTERVAL=0", "`INTERVAL` of the recurrence rule has the value `0`; use a number from 1"),
        ("FREQ=DAILY;COUNT=-1", "`COUNT` of the recurrence rule has the value `-1`; use a number from 1"),
        (
            "FREQ=DAILY;COUNT=99999999999",
            "`COUNT` of the recurrence rule has the value `99999999999`; use a number from 1",
        ),
        (
            "FREQ=MONTHLY;BYDAY=0MO",
            "`BYDAY` of the recurrence rule has the value `0MO`; use MO, 2TU, -1FR, …",
        ),
        ("FREQ=MONTHLY;BYDAY=é", "`BYDAY` of the recurrence rule has the value `é`; use MO, 2TU, -1FR, …"),
        (
            "FREQ=MONTHLY;BYMONTHDAY=0",
            "`BYMONTHDAY` of the recurrence rule has the value `0`; use 1 to 31 or -31 to -1",
        ),
        (
            "FREQ=DAILY;UNTIL=tomorrow",
            "`UNTIL` of the recurrence rule has the value `tomorrow`; use 20260301 or 20260301T120000Z",
        ),
        ("FREQ=DAILY;BYHOUR=9;BYHOUR=10", "`BYHOUR` stands twice in the recurrence rule"),
        ("FREQ=MONTHLY;SKIP=BACKWARD", "`SKIP` is no part of a recurrence rule that can be expanded here"),
        ("FREQ=DAILY;BYEASTER=1", "`BYEASTER` is no part of a recurrence rule that can be expanded here"),
    ] {
        assert_eq!(refused(text), expected);
    }
    assert_eq!(Rule::parse(&format!("FREQ=DAILY;X-A={}", "b".repeat(9000))), Err(RuleError::TooLong));
}

#[test]
fn spelling_that_other_programs_write_is_read() {
    for (odd, plain) in [
        ("freq=weekly;byday=mo,we;", "FREQ=WEEKLY;BYDAY=MO,WE"),
        ("BYDAY=+1MO;FREQ=MONTHLY", "FREQ=MONTHLY;BYDAY=1MO"),
        ("RSCALE=GREGORIAN;FREQ=DAILY;SKIP=OMIT", "FREQ=DAILY"),
        ("FREQ=WEEKLY;BYDAY=1MO", "FREQ=WEEKLY;BYDAY=MO"),
        ("FREQ=MINUTELY;BYSECOND=59,60", "FREQ=MINUTELY;BYSECOND=59"),
        ("FREQ=DAILY;X-UNKNOWN=1", "FREQ=DAILY"),
    ] {
        assert_eq!(Rule::parse(odd).unwrap(), Rule::parse(plain).unwrap(), "{odd}");
    }
}

#[test]
fn another_end_leaves_the_rest_of_a_rule_alone() {
    let until = End::Until(helve_office::ical::DateValue::parse("20260301T080000Z").unwrap());
    assert_eq!(
        with_end("freq=DAILY;UNTIL=20260101;X-A=b,c", until),
        "freq=DAILY;X-A=b,c;UNTIL=20260301T080000Z"
    );
    assert_eq!(with_end("FREQ=DAILY;COUNT=3;", End::Never), "FREQ=DAILY");
}

/// A rule in parts that a reader of a calendar can check one by one.
#[derive(Debug, Clone)]
struct Plain {
    weekdays: Vec<usize>,
    months: Vec<i8>,
    interval: u32,
    hour: i8,
}

const DAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];

fn plain() -> impl Strategy<Value = Plain> {
    let weekdays = proptest::sample::subsequence((0..7).collect::<Vec<_>>(), 1..5);
    let months = proptest::sample::subsequence((1..13).collect::<Vec<i8>>(), 1..7);
    (weekdays, months, 1..40u32, 0..24i8).prop_map(|(weekdays, months, interval, hour)| Plain {
        weekdays,
        months,
        interval,
        hour,
    })
}

impl Plain {
    fn text(&self) -> String {
        let days: Vec<&str> = self.weekdays.iter().map(|day| DAYS[*day]).collect();
        let months: Vec<String> = self.months.iter().map(i8::to_string).collect();
        format!(
            "FREQ=DAILY;INTERVAL={};BYDAY={};BYMONTH={};BYHOUR={}",
            self.interval,
            days.join(","),
            months.join(","),
            self.hour
        )
    }

    /// Every day from the start on, one by one.
    fn slow(&self, start: DateTime, window: Window) -> Vec<DateTime> {
        let mut found = Vec::new();
        for (i, day) in start.date().series(jiff::Span::new().days(1)).enumerate() {
            if day > window.to.date() {
                return found;
            }
            let at = day.at(self.hour, start.minute(), start.second(), 0);
            let weekday = usize::try_from(day.weekday().to_monday_zero_offset()).unwrap();
            if (i as u32).is_multiple_of(self.interval)
                && self.weekdays.contains(&weekday)
                && self.months.contains(&day.month())
                && at >= start
                && window.from <= at
                && at <= window.to
            {
                found.push(at);
            }
        }
        found
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A window is entered in its middle, and no occurrence is lost or made up by that.
    #[test]
    fn a_window_shows_what_counting_every_day_shows(rule in plain(), skip in 0..4000i64, days in 1..400i64) {
        let start = local("20100310T101500");
        let from = start.checked_add(jiff::Span::new().days(skip).hours(3)).unwrap();
        let window = Window { from, to: from.checked_add(jiff::Span::new().days(days)).unwrap() };
        let parsed = Rule::parse(&rule.text()).unwrap();
        let found = parsed.expand(start, window, First::IfPicked, &mut Budget::default()).unwrap();
        prop_assert_eq!(found, rule.slow(start, window));
    }

    /// Whatever is written in a rule, reading and expanding it ends.
    #[test]
    fn any_text_is_read_or_refused(text in "(FREQ=(DAILY|YEARLY|HOURLY|SECONDLY))?(;[A-Z]{2,10}=[-+0-9A-Z,]{0,12}){0,4}") {
        if let Ok(rule) = Rule::parse(&text) {
            let window = window("20260101T000000", "20260301T000000");
            let _ = rule.expand(local("20250101T000000"), window, First::Always, &mut Budget::new(100, 10_000));
        }
    }
}
