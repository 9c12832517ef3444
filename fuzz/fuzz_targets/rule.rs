//! Recurrence rules: expanding is bounded, and a part of a window is answered as the whole window is.
#![no_main]

use helve_office::rule::{Budget, End, First, Rule, Window, with_end};
use jiff::civil::{DateTime, date};
use libfuzzer_sys::fuzz_target;

fn at(days: i32) -> DateTime {
    date(2026, 1, 1).at(9, 30, 0, 0) + jiff::Span::new().days(days)
}

fuzz_target!(|input: (u16, &str)| {
    let (start, text) = input;
    let Ok(rule) = Rule::parse(text) else { return };
    let never = with_end(text, End::Never);
    let never = Rule::parse(&never).expect("without its end it is a rule still");
    assert!(never.count.is_none() && never.until.is_none());
    let three = Rule::parse(&with_end(text, End::Count(3)));
    // The length of a rule is limited, and the new end may be longer than the old one.
    assert!(text.len() > 8_000 || three.is_ok_and(|three| three.count == Some(3)));

    let start = at(-i32::from(start % 4_000));
    let expand = |from: i32, to: i32| {
        let window = Window { from: at(from), to: at(to) };
        rule.expand(start, window, First::IfPicked, &mut Budget::new(2_000, 200_000))
    };
    let Ok(whole) = expand(0, 400) else { return };
    assert!(whole.len() <= 2_000);
    assert!(whole.is_sorted_by(|one, next| one < next), "in order, and each once");
    assert!(whole.iter().all(|one| (at(0)..=at(400)).contains(one)));
    if let Ok(part) = expand(100, 200) {
        let expected: Vec<DateTime> =
            whole.iter().copied().filter(|one| (at(100)..=at(200)).contains(one)).collect();
        assert_eq!(part, expected, "`{text}` from {start}");
    }
});
