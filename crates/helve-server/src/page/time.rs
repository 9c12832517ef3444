//! Times as people read them. The script keeps them going.

use jiff::Timestamp;

use super::html::Html;

/// How long ago, as `3 min ago`.
pub(super) fn ago(at: Timestamp, now: Timestamp) -> String {
    match now.as_second() - at.as_second() {
        ..45 => "just now".to_owned(),
        seconds => format!("{} ago", span(seconds)),
    }
}

/// How long until then, as `23 h left`.
pub(super) fn left(until: Timestamp, now: Timestamp) -> String {
    match until.as_second() - now.as_second() {
        ..=0 => "expired".to_owned(),
        seconds => format!("{} left", span(seconds)),
    }
}

fn span(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..5_400 => format!("{} min", (seconds + 30) / 60),
        5_400..129_600 => format!("{} h", (seconds + 1_800) / 3_600),
        _ => format!("{} days", (seconds + 43_200) / 86_400),
    }
}

/// A time that grows older.
pub(super) fn age(html: &mut Html, at: Timestamp, now: Timestamp) {
    let whole = at.strftime("%Y-%m-%d %H:%M:%S UTC");
    html.put("<time datetime=\"{}\" title=\"{}\" data-age>{}</time>", &[&at, &whole, &ago(at, now)]);
}

/// A time that runs out.
pub(super) fn countdown(html: &mut Html, until: Timestamp, now: Timestamp) {
    let whole = until.strftime("%Y-%m-%d %H:%M:%S UTC");
    html.put("<time datetime=\"{}\" title=\"{}\" data-until>{}</time>", &[&until, &whole, &left(until, now)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let at = |second: i64| Timestamp::from_second(1_800_000_000 + second).unwrap();
        for (seconds, text) in [
            (3, "just now"),
            (50, "50 s ago"),
            (120, "2 min ago"),
            (7_200, "2 h ago"),
            (259_200, "3 days ago"),
        ] {
            assert_eq!(ago(at(0), at(seconds)), text);
        }
        assert_eq!(left(at(86_400), at(0)), "24 h left");
        assert_eq!(left(at(0), at(1)), "expired");
    }
}
