//! Tasks as models see them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reach::Place;
use super::shown::{line, text};
use crate::ical::{Component, DateValue, Document, Property, split_list, unescape};
use crate::objects::{Kind, ObjectId, main_component};
use crate::text::cleaned;
use crate::zones::{Moment, Zone, ZoneTable};

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskStatus {
    /// Nobody has begun.
    Open,
    /// A person is at it.
    InProgress,
    /// It is done.
    Completed,
    /// It will not be done.
    Cancelled,
}

impl TaskStatus {
    /// As iCalendar writes it.
    pub(super) fn as_ical(self) -> &'static str {
        match self {
            Self::Open => "NEEDS-ACTION",
            Self::InProgress => "IN-PROCESS",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
        }
    }

    pub(super) fn of(component: &Component) -> Self {
        let value = component.property("STATUS").map(|status| status.value().trim().to_ascii_uppercase());
        match value.as_deref() {
            Some("COMPLETED") => Self::Completed,
            Some("CANCELLED") => Self::Cancelled,
            Some("IN-PROCESS") => Self::InProgress,
            Some(_) => Self::Open,
            None if component.property("COMPLETED").is_some() => Self::Completed,
            None => Self::Open,
        }
    }
}

/// How much a task matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Priority {
    /// The task says nothing about it.
    None,
    /// It can wait.
    Low,
    /// It comes after what is urgent.
    Medium,
    /// It comes first.
    High,
}

impl Priority {
    /// As iCalendar counts: 1 is the highest, 0 is none.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Low => 9,
            Self::Medium => 5,
            Self::High => 1,
        }
    }

    pub(super) fn of(component: &Component) -> Self {
        let number = component.property("PRIORITY").and_then(|found| found.value().trim().parse::<u8>().ok());
        match number.unwrap_or(0) {
            1..=4 => Self::High,
            5 => Self::Medium,
            6..=9 => Self::Low,
            _ => Self::None,
        }
    }
}

/// A task as callers see it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskShown {
    /// Pass it on as it is.
    pub(super) id: String,
    /// Which state of the task this is; pass it on with an update.
    pub(super) version: String,
    /// What is to be done.
    pub(super) title: String,
    /// How far it is.
    pub(super) status: TaskStatus,
    /// How much it matters.
    pub(super) priority: Priority,
    /// When it is due: a day, or a time in the asker's zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) due: Option<String>,
    /// Whether that is over and the task is not done.
    pub(super) overdue: bool,
    /// What it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<String>,
    /// More about it, cut at 2000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) notes: Option<String>,
    /// How it repeats, as iCalendar writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recurrence: Option<String>,
    /// When it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completed_at: Option<String>,
    /// The list that it is in.
    pub(super) list: String,
    /// The account of that list.
    pub(super) account: String,
}

/// When a task is due.
pub(in crate::tools) enum Due {
    /// On a day.
    Day(jiff::civil::Date),
    /// At a time.
    At(Moment),
}

impl Due {
    /// The instant at which it is overdue.
    pub(in crate::tools) fn over(&self, asker: &Zone) -> Timestamp {
        match self {
            Self::Day(date) => asker.instant(date.tomorrow().unwrap_or(*date).at(0, 0, 0, 0)),
            Self::At(moment) => moment.instant,
        }
    }

    /// The instant from which on it is due.
    pub(in crate::tools) fn begins(&self, asker: &Zone) -> Timestamp {
        match self {
            Self::Day(date) => asker.instant(date.at(0, 0, 0, 0)),
            Self::At(moment) => moment.instant,
        }
    }

    pub(in crate::tools) fn told(&self, asker: &Zone) -> String {
        match self {
            Self::Day(date) => date.to_string(),
            Self::At(moment) => moment.told_in(asker).to_string(),
        }
    }
}

/// A time of a component, on the clock of its zone, or of the asker where it has none.
pub(in crate::tools) fn moment(
    property: &Property<'_>,
    zones: &mut ZoneTable<'_>,
    asker: &Zone,
) -> Option<Due> {
    let zone = property.param("TZID").and_then(|tzid| zones.resolve(&tzid).ok());
    let at = |zone: Zone, local| Due::At(Moment { instant: zone.instant(local), zone });
    Some(match DateValue::parse(property.value()).ok()? {
        DateValue::Date(date) => Due::Day(date),
        DateValue::Utc(local) => at(Zone::UTC, local),
        DateValue::Local(local) => at(zone.unwrap_or_else(|| asker.clone()), local),
    })
}

/// When the task in a document is due.
pub(super) fn due(document: &Document, asker: &Zone) -> Option<Due> {
    let main = main_component(document, "VTODO")?;
    moment(&main.property("DUE")?, &mut ZoneTable::of(document), asker)
}

/// The project of a task: the first of its categories.
pub(super) fn project(component: &Component) -> Option<String> {
    let first = component.property("CATEGORIES")?;
    let first = split_list(first.value()).next().map(unescape)?;
    Some(cleaned(&first, 500)).filter(|first| !first.is_empty())
}

impl TaskShown {
    /// The task in a document; `None` where there is none.
    pub(super) fn new(
        place: &Place,
        uid: &str,
        version: &str,
        document: &Document,
        asker: &Zone,
    ) -> Option<Self> {
        let main = main_component(document, "VTODO")?;
        let due = due(document, asker);
        let status = TaskStatus::of(main);
        let is_open = matches!(status, TaskStatus::Open | TaskStatus::InProgress);
        let completed = main.property("COMPLETED");
        let completed = completed.and_then(|found| moment(&found, &mut ZoneTable::of(document), asker));
        let id = ObjectId {
            kind: Kind::Task,
            collection: place.collection.id,
            uid: uid.to_owned(),
            occurrence: None,
        };
        Some(Self {
            id: id.to_string(),
            version: version.to_owned(),
            title: line(main, "SUMMARY").unwrap_or_else(|| "(no title)".to_owned()),
            status,
            priority: Priority::of(main),
            overdue: is_open && due.as_ref().is_some_and(|due| due.over(asker) <= Timestamp::now()),
            due: due.map(|due| due.told(asker)),
            project: project(main),
            notes: text(main, "DESCRIPTION"),
            recurrence: main.property("RRULE").map(|rule| cleaned(rule.value(), 500)),
            completed_at: completed.map(|at| at.told(asker)),
            list: place.name(),
            account: place.account.id.clone(),
        })
    }
}
