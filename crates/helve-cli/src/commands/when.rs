//! Times as people type and read them.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// A time: `2026-11-15T10:00:00Z`, `2026-11-15 10:00` or `2026-11-15` here, or an age such as `2h`
/// or `7d`.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(local) = text.parse::<DateTime>() {
        let zoned = local.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
        return Ok(zoned.timestamp());
    }
    let age = text.parse::<Span>().ok().and_then(|age| Zoned::now().checked_sub(age.abs()).ok());
    age.map(|time| time.timestamp())
        .ok_or_else(|| "give a time such as `2026-11-15 10:00`, or an age such as `2h` or `7d`".to_owned())
}

/// A time in this place's zone.
pub(crate) fn shown(time: Timestamp) -> String {
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The same in few characters: today only the time, this year without the year.
pub(crate) fn brief(time: Timestamp, now: &Zoned) -> String {
    let time = time.to_zoned(now.time_zone().clone());
    let form = match (time.date() == now.date(), time.year() == now.year()) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%m-%d %H:%M:%S",
        (false, false) => "%Y-%m-%d %H:%M",
    };
    time.strftime(form).to_string()
}

/// A time span in few characters.
pub(crate) fn duration(nanos: u64) -> String {
    match nanos {
        0..1_000_000 => format!("{} µs", nanos / 1_000),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

/// How long after another time, in few characters.
pub(crate) fn after(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs();
    match seconds {
        // The clock was set back meanwhile.
        ..0 => "earlier".to_owned(),
        0..60 => {
            let nanos = to.duration_since(from).as_nanos();
            format!("+{}", duration(u64::try_from(nanos).unwrap_or_default()))
        }
        // What follows within a second is still told apart.
        60..3_600 => format!("+{} min {:.1} s", seconds / 60, to.duration_since(from).as_secs_f64() % 60.0),
        3_600..86_400 => format!("+{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("+{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_dates_and_ages_are_read() {
        for text in ["2026-11-15T10:00:00Z", "2026-11-15 10:00", "2026-11-15", "2h", "7d", "1h 30m"] {
            assert!(parse(text).is_ok_and(|time| time < Timestamp::now() || text.starts_with('2')), "{text}");
        }
        for text in ["", "soon", "-", "99999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_brief_time_leaves_out_what_goes_without_saying() {
        let now = "2026-11-15T12:00:00[UTC]".parse().unwrap();
        for (time, shown) in [
            ("2026-11-15T11:00:00Z", "11:00:00"),
            ("2026-11-14T23:17:08Z", "11-14 23:17:08"),
            ("2025-12-31T23:59:59Z", "2025-12-31 23:59"),
        ] {
            assert_eq!(brief(time.parse().unwrap(), &now), shown);
        }
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(
            [duration(1_500), duration(1_500_000), duration(2_340_000_000)],
            ["1 µs", "1.5 ms", "2.3 s"]
        );
    }

    #[test]
    fn what_comes_later_is_said_in_units_that_fit() {
        let from = Timestamp::UNIX_EPOCH;
        let later = |seconds| after(from, Timestamp::from_second(seconds).unwrap());
        assert_eq!(
            [later(0), later(59), later(125), later(7_300), later(90_000), later(-1)],
            ["+0 µs", "+59.0 s", "+2 min 5.0 s", "+2 h 1 min", "+1 d 1 h", "earlier"]
        );
    }
}
