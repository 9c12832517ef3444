//! What an event or a task says, as lines that people compare at a glance.

use helve::ToolError;
use helve::json::sha256_hex;
use serde_json::Value;

use super::shown::person;
use super::task::{Due, Priority, TaskStatus, due, project};
use crate::ical::{Component, Document, DurationValue, Property};
use crate::objects::main_component;
use crate::recurrence::{RecurrenceId, Series, When};
use crate::text::cleaned;
use crate::zones::{Moment, Zone};

/// Longest line that is shown whole, in characters.
const LINE_CHARS_MAX: usize = 1_000;
/// Longest text that is shown whole, in characters: every one that a call may write is. Before and after, it has to fit
/// into what a person is shown.
const TEXT_CHARS_MAX: usize = 65_536;

/// What something says: key and value, in the order of reading.
pub(super) type Facts = Vec<(&'static str, String)>;

/// What an event says, or one occurrence of it.
pub(super) fn of_event(
    document: &Document,
    uid: &str,
    occurrence: Option<RecurrenceId>,
    asker: &Zone,
) -> Facts {
    let series = Series::find(document, "VEVENT", uid).and_then(Result::ok);
    let when = series.and_then(|series| series.when(occurrence, asker));
    let component = match &when {
        Some((_, place)) => document.events("VEVENT").nth(*place),
        None => main_component(document, "VEVENT"),
    };
    let Some(component) = component else { return Facts::new() };
    let mut facts = Facts::new();
    facts.extend(line(component, "SUMMARY").map(|title| ("Title", title)));
    if let Some((when, _)) = &when {
        facts.extend(when_lines(when, asker));
    }
    // An occurrence repeats by its series, and does not say so itself.
    let rule =
        component.property("RRULE").map(|rule| limited(&cleaned(rule.value(), usize::MAX), LINE_CHARS_MAX));
    facts.extend(rule.filter(|_| occurrence.is_none()).map(|rule| ("Repeats", rule)));
    facts.extend(line(component, "LOCATION").map(|place| ("Where", place)));
    facts.extend(line(component, "STATUS").map(|status| ("Status", status.to_lowercase())));
    let is_free = |found: Property<'_>| found.value().trim().eq_ignore_ascii_case("TRANSPARENT");
    let is_free = component.property("TRANSP").is_some_and(is_free);
    facts.extend(is_free.then(|| ("Shows as", "free".to_owned())));
    facts.extend(component.property("ORGANIZER").map(|found| ("Organizer", named(&person(&found)))));
    facts.extend(component.all("ATTENDEE").map(|found| ("Attendee", attendee(&person(&found)))));
    facts.extend(reminders(component).map(|reminder| ("Reminder", reminder)));
    facts.extend(text(component, "DESCRIPTION").map(|text| ("Description", text)));
    facts
}

/// What an occurrence says from which on all are changed: with how its series repeats.
pub(super) fn of_following(
    document: &Document,
    uid: &str,
    occurrence: Option<RecurrenceId>,
    asker: &Zone,
) -> Facts {
    let repeats = of_event(document, uid, None, asker).into_iter().filter(|(key, _)| *key == "Repeats");
    of_event(document, uid, occurrence, asker).into_iter().chain(repeats).collect()
}

/// What a task says.
pub(super) fn of_task(document: &Document, asker: &Zone) -> Facts {
    let Some(main) = main_component(document, "VTODO") else { return Facts::new() };
    let mut facts = Facts::new();
    let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
    facts.extend(line(main, "SUMMARY").map(|title| ("Title", title)));
    facts.extend(due(document, asker).map(|due| match due {
        Due::Day(date) => ("Due", date.to_string()),
        Due::At(moment) => ("Due", moment.told_in(asker).to_string()),
    }));
    facts.push(("Status", word(serde_json::to_value(TaskStatus::of(main)).unwrap_or_default())));
    facts.push(("Priority", word(serde_json::to_value(Priority::of(main)).unwrap_or_default())));
    facts.extend(project(main).map(|project| ("Project", project)));
    facts.extend(
        main.property("RRULE")
            .map(|rule| ("Repeats", limited(&cleaned(rule.value(), usize::MAX), LINE_CHARS_MAX))),
    );
    facts.extend(text(main, "DESCRIPTION").map(|text| ("Notes", text)));
    facts
}

/// A line of text of a component.
fn line(component: &Component, name: &str) -> Option<String> {
    let text = cleaned(&component.property(name)?.text_value(), usize::MAX);
    (!text.is_empty()).then(|| limited(&text, LINE_CHARS_MAX))
}

/// A text of a component, with its lines.
fn text(component: &Component, name: &str) -> Option<String> {
    let text = component.property(name)?.text_value();
    (!text.trim().is_empty()).then(|| limited(&text, TEXT_CHARS_MAX))
}

/// A text that is too long to be shown says how much is missing and has a digest of all of it, so that no change behind
/// the cut goes unseen.
fn limited(text: &str, chars_max: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(chars_max) else { return text.to_owned() };
    let more = text[end..].chars().count();
    format!("{}… (+{more} characters, sha256 {})", &text[..end], &sha256_hex(text.as_bytes())[..16])
}

fn named(person: &super::shown::PersonShown) -> String {
    match &person.name {
        Some(name) => format!("{name} <{}>", person.address),
        None => person.address.clone(),
    }
}

fn attendee(person: &super::shown::PersonShown) -> String {
    format!("{} ({})", named(person), person.answer.as_deref().unwrap_or("needs-action"))
}

/// When reminders of an event are shown.
fn reminders(component: &Component) -> impl Iterator<Item = String> {
    component.components().filter(|inner| inner.is_named("VALARM")).filter_map(|alarm| {
        let trigger = alarm.property("TRIGGER")?;
        Some(before(trigger.value()).unwrap_or_else(|| cleaned(trigger.value(), 60)))
    })
}

/// A reminder before the start in words.
fn before(trigger: &str) -> Option<String> {
    let length = DurationValue::parse(trigger).ok()?;
    let minutes = -(length.days * 1440 + length.seconds / 60);
    Some(match minutes {
        0 => "at the start".to_owned(),
        1.. if minutes % 1440 == 0 => format!("{} days before", minutes / 1440),
        1.. if minutes % 60 == 0 => format!("{} hours before", minutes / 60),
        1.. => format!("{minutes} minutes before"),
        _ => return None,
    })
}

/// When it is, in its own zone and in the asker's where that is another.
fn when_lines(when: &When, asker: &Zone) -> Facts {
    match when {
        When::AllDay { first, end } => {
            let last = end.yesterday().unwrap_or(*first).max(*first);
            let days = (last.since(*first).map_or(0, |span| span.get_days())) + 1;
            let day = |date: jiff::civil::Date| date.strftime("%a %Y-%m-%d").to_string();
            vec![match days {
                1 => ("When", format!("{}, all day", day(*first))),
                days => ("When", format!("{} to {}, {days} whole days", day(*first), day(last))),
            }]
        }
        When::Timed { start, end } => {
            let own = stretch(start, end);
            let yours = stretch(&start.told_in(asker), &end.told_in(asker));
            let mut lines = vec![("When", own)];
            if lines[0].1 != yours {
                lines.push(("For you", yours));
            }
            lines
        }
    }
}

fn stretch(start: &Moment, end: &Moment) -> String {
    let (from, to) = (start.local(), end.local());
    let to = match from.date() == to.date() {
        true => to.strftime("%H:%M").to_string(),
        false => to.strftime("%a %Y-%m-%d %H:%M").to_string(),
    };
    let from = from.strftime("%a %Y-%m-%d %H:%M");
    let zone = start.zone.name().map(|name| format!("{} ", cleaned(name, 60))).unwrap_or_default();
    match offset(start) == offset(end) {
        true => format!("{from} to {to} {zone}({})", offset(start)),
        // The clock changes meanwhile: without both, an hour could seem to take none, or two.
        false => format!("{from} ({}) to {to} ({}) {}", offset(start), offset(end), zone.trim_end()),
    }
}

fn offset(moment: &Moment) -> String {
    let seconds = moment.offset().seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
    format!("UTC{sign}{hours:02}:{minutes:02}")
}

/// What changes: lines that go begin with `-`, lines that come with `+`. What stays is shown where it says which event
/// it is.
pub(super) fn diff(before: &Facts, after: &Facts) -> String {
    let mut lines = Vec::new();
    for (key, value) in before.iter().filter(|fact| !after.contains(fact)) {
        lines.push((order(key), format!("- {key}: {}", indented(value))));
    }
    for (key, value) in after {
        let stays = before.contains(&(*key, value.clone()));
        let shown = !stays || matches!(*key, "Title" | "When" | "For you" | "Due");
        let sign = if stays { ' ' } else { '+' };
        lines.extend(shown.then(|| (order(key), format!("{sign} {key}: {}", indented(value)))));
    }
    // What goes stands above what comes in its place.
    lines.sort_by_key(|(order, _)| *order);
    lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

fn order(key: &str) -> usize {
    let keys = [
        "Title",
        "When",
        "For you",
        "Due",
        "Repeats",
        "Where",
        "Status",
        "Shows as",
        "Priority",
        "Project",
        "Organizer",
        "Attendee",
        "Reminder",
        "Description",
        "Notes",
    ];
    keys.iter().position(|known| *known == key).unwrap_or(keys.len())
}

/// Further lines of a value are set apart, so that none can pass for a line of ours.
fn indented(value: &str) -> String {
    let lines: Vec<String> = value.lines().map(|line| cleaned(line, usize::MAX)).collect();
    lines.join("\n    | ")
}

/// All of it on one line.
pub(super) fn one_line(facts: &Facts) -> String {
    let told = facts.iter().map(|(key, value)| format!("{key}: {}", cleaned(value, 300)));
    cleaned(&told.collect::<Vec<_>>().join("; "), 2_000)
}

/// Another writer was faster: both versions, and nothing was written.
pub(super) fn conflict(what: &str, version: &str, theirs: &Facts, wanted: &Facts) -> ToolError {
    let message = format!(
        "the {what} was changed meanwhile, so nothing was written. As it is now (version \
         `{version}`): {}. As you would have written it: {}",
        one_line(theirs),
        one_line(wanted)
    );
    ToolError::recoverable("CONFLICT", message)
        .nothing_done()
        .suggest(format!("decide which values are right, and call again with version `{version}`"))
}
