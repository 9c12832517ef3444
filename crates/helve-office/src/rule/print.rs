//! Another end for a rule; everything else in it stays as it was written.

use crate::ical::DateValue;

/// How a rule ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After so many occurrences.
    Count(u32),
    /// With the last occurrence that is not later.
    Until(DateValue),
    /// Not at all.
    Never,
}

/// The value of an `RRULE` with another end. Parts that are not known stay, in their order and spelling.
///
/// ```
/// use helve_office::rule::{End, with_end};
/// assert_eq!(with_end("FREQ=DAILY;COUNT=9;X-A=b", End::Count(3)), "FREQ=DAILY;X-A=b;COUNT=3");
/// ```
pub fn with_end(rule: &str, end: End) -> String {
    let ends = |part: &str| {
        let name = part.split('=').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case("COUNT") || name.eq_ignore_ascii_case("UNTIL")
    };
    let kept = rule.trim().split(';').filter(|part| !part.trim().is_empty() && !ends(part));
    let mut parts: Vec<String> = kept.map(str::to_owned).collect();
    match end {
        End::Count(count) => parts.push(format!("COUNT={count}")),
        End::Until(until) => parts.push(format!("UNTIL={until}")),
        End::Never => {}
    }
    parts.join(";")
}
