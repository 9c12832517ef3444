//! `check_availability`: who is free when, and times that would do for all of them. What cannot be seen is unknown, and
//! never free.

use std::sync::Arc;
use std::time::Duration;

use helve::{Annotations, Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use helve_store::office::ObjectQuery;
use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fault::{broken, refused, wrong};
use super::list_events::{OBJECTS_MAX, ZONES_APART_S};
use super::reach::{Place, Unseen, places, unseen};
use super::time::{asker, read};
use crate::Office;
use crate::availability::{
    Calendar, DayHours, Interval, Person, Sight, Slot, State, Timeline, WorkingHours, find_slots,
};
use crate::ical::Document;
use crate::objects::Kind;
use crate::text::{Address, Mailbox};
use crate::zones::{Moment, Zone};

/// How many days one question may span.
const DAYS_MAX: i64 = 62;
/// How many busy times of one person are listed.
const BUSY_MAX: usize = 200;
/// A calendar that was synced longer ago than this may hide something.
const STALE_AFTER_S: i64 = 86_400;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    /// From when: a date (`2026-03-01`), a time with an offset, or a local time in `timeZone`.
    start_date: String,
    /// Until when, in the same way; a date counts in full.
    end_date: String,
    /// Whose time: mail addresses, or `me` for the user. Only the user where it is absent.
    #[serde(default = "only_me")]
    #[schemars(length(min = 1, max = 20))]
    people: Vec<String>,
    /// The asker's zone, such as `Europe/Berlin`: times are told in it, and working hours are on its clock.
    #[serde(default)]
    time_zone: Option<String>,
    /// How long a meeting is to be, in minutes.
    #[serde(default = "half_an_hour")]
    #[schemars(range(min = 5, max = 1440))]
    duration_minutes: u16,
    /// On which minutes a meeting may begin: every so many.
    #[serde(default = "half_an_hour")]
    #[schemars(range(min = 5, max = 720))]
    step_minutes: u16,
    /// When a meeting may be. Absent: Monday to Friday, 09:00 to 17:00.
    #[serde(default)]
    working_hours: Option<Hours>,
    /// How many times to suggest at most.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    limit: u8,
}

fn only_me() -> Vec<String> {
    vec!["me".to_owned()]
}

fn half_an_hour() -> u16 {
    30
}

fn ten() -> u8 {
    10
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Hours {
    /// The first minute of a day, such as `09:00`.
    start: String,
    /// The end of a day, such as `17:00`. One that is not after `start` is on the next day.
    end: String,
    /// On which days. Absent: Monday to Friday.
    #[serde(default)]
    #[schemars(length(max = 7))]
    days: Vec<Day>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Day {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Day {
    fn weekday(self) -> Weekday {
        match self {
            Self::Monday => Weekday::Monday,
            Self::Tuesday => Weekday::Tuesday,
            Self::Wednesday => Weekday::Wednesday,
            Self::Thursday => Weekday::Thursday,
            Self::Friday => Weekday::Friday,
            Self::Saturday => Weekday::Saturday,
            Self::Sunday => Weekday::Sunday,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    /// Times at which everybody is known to be free, in working hours.
    free_slots: Vec<SlotShown>,
    /// Times at which nobody is known to be busy, but one may be.
    uncertain_slots: Vec<SlotShown>,
    /// Whether there are more of them.
    more_slots: bool,
    /// What is known of each person. What is not listed as busy, tentative or unknown is free.
    people: Vec<PersonSeen>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SlotShown {
    /// From when, in the asker's zone.
    start: String,
    /// Until when, in the asker's zone.
    end: String,
    /// One of `free`, `tentative`, `unknown`.
    state: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PersonSeen {
    /// Who, as they were asked about.
    who: String,
    /// When they are not known to be free, in order.
    taken: Vec<SlotTaken>,
    /// Whether there is more than is listed.
    more: bool,
    /// Why some of their time is unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_because: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct SlotTaken {
    /// From when, in the asker's zone.
    start: String,
    /// Until when, in the asker's zone.
    end: String,
    /// One of `busy`, `tentative`, `unknown`.
    state: &'static str,
}

pub(super) fn tool(office: &Arc<Office>) -> ToolBuilder {
    let shared = Arc::clone(office);
    Tool::function(
        "check_availability",
        "Says when the user and other people are busy, and suggests times of a length that would do for all of them \
         within working hours. A person whose calendar cannot be seen is `unknown`, which is not free: say so to the \
         user.",
        move |input: Input, context: Context| {
            let office = Arc::clone(&shared);
            async move { answer(&office, &input, &context).await }
        },
    )
    .when_to_use(
        "When the user asks whether or when they or others have time, or before you propose a time for a meeting. For \
         what the events are, use `list_calendar_events`.",
    )
    .example_call(
        "Am I free on Tuesday afternoon?",
        json!({ "startDate": "2026-03-03T12:00", "endDate": "2026-03-03T18:00", "timeZone": "Europe/Berlin" }),
    )
    .example_call(
        "Find an hour with Ada this week",
        json!({ "startDate": "2026-03-02", "endDate": "2026-03-06", "people": ["me", "ada@example.org"],
                "durationMinutes": 60 }),
    )
    .example_call(
        "When could we meet on the weekend?",
        json!({ "startDate": "2026-03-07", "endDate": "2026-03-08", "durationMinutes": 90,
                "workingHours": { "start": "10:00", "end": "20:00", "days": ["saturday", "sunday"] } }),
    )
    .example_call(
        "Is there a quarter of an hour tomorrow for Bob and Carol?",
        json!({ "startDate": "2026-03-03", "endDate": "2026-03-03", "people": ["bob@example.org", "carol@example.org"],
                "durationMinutes": 15, "stepMinutes": 15, "limit": 5 }),
    )
    .integration("calendar")
    .category(Category::Query)
    .risk(Risk::Low)
    .annotations(Annotations { open_world: true, ..Annotations::pure() })
    .timeout(Duration::from_secs(30))
    .facets([Facet::ReadsUntrusted, Facet::ReadsPrivate])
}

async fn answer(office: &Office, input: &Input, context: &Context) -> Result<Output, ToolError> {
    let asker = asker(office, input.time_zone.as_ref())?;
    let from = read("startDate", &input.start_date, &asker)?.begins(&asker);
    let to = read("endDate", &input.end_date, &asker)?.ends(&asker);
    let range = Interval::new(from, to)
        .ok_or_else(|| wrong("endDate", "a time after `startDate`", "it is not after `startDate`"))?;
    if range.seconds() > DAYS_MAX * 86_400 {
        return Err(wrong("endDate", "at most 62 days after `startDate`", "the range is too long"));
    }
    let hours = working_hours(input.working_hours.as_ref(), &asker)?;
    let places = places(office, context.caller(), Kind::Event).await?;
    let unseen = unseen(office, context.caller()).await?;
    let mut people = Vec::new();
    for who in wanted(&input.people, &places)? {
        people.push(match who {
            Who::Me => own(office, &places, &unseen, range, &asker).await?,
            Who::Other(address) => other(&places, &address, range).await,
        });
    }
    Ok(shown(input, &people, range, &hours, &asker))
}

enum Who {
    Me,
    Other(Address),
}

/// Who is asked about, each once. The user's own address is the user.
fn wanted(people: &[String], places: &[Place]) -> Result<Vec<Who>, ToolError> {
    let mut all: Vec<Who> = Vec::new();
    for (at, text) in people.iter().enumerate() {
        let field = format!("people.{at}");
        let who = match text.trim().eq_ignore_ascii_case("me") {
            true => Who::Me,
            false => {
                let mailbox = Mailbox::parse(text).map_err(|refusal| refused(&field, refusal))?;
                let address = mailbox.address().clone();
                let is_own = places.iter().filter_map(Place::own).any(|own| own.is_same_mailbox(&address));
                if is_own { Who::Me } else { Who::Other(address) }
            }
        };
        let is_known = all.iter().any(|known| match (known, &who) {
            (Who::Me, Who::Me) => true,
            (Who::Other(known), Who::Other(new)) => known.is_same_mailbox(new),
            (Who::Me, Who::Other(_)) | (Who::Other(_), Who::Me) => false,
        });
        if !is_known {
            all.push(who);
        }
    }
    Ok(all)
}

fn working_hours(hours: Option<&Hours>, asker: &Zone) -> Result<WorkingHours, ToolError> {
    let Some(hours) = hours else {
        return Ok(WorkingHours::weekdays(
            asker.clone(),
            Time::constant(9, 0, 0, 0),
            Time::constant(17, 0, 0, 0),
        ));
    };
    let time = |field: &str, text: &str| -> Result<Time, ToolError> {
        let read = text.trim().parse::<Time>();
        read.map_err(|_| wrong(field, "a time of day such as `09:00`", "it is no time of day"))
    };
    let day = DayHours {
        from: time("workingHours.start", &hours.start)?,
        to: time("workingHours.end", &hours.end)?,
    };
    let weekdays = Weekday::Monday.cycle_forward().take(5).collect();
    let days: Vec<Weekday> = match hours.days.is_empty() {
        true => weekdays,
        false => hours.days.iter().map(|day| day.weekday()).collect(),
    };
    Ok(WorkingHours { zone: asker.clone(), days: days.into_iter().map(|weekday| (weekday, day)).collect() })
}

/// The user, by all calendars that are connected.
async fn own(
    office: &Office,
    places: &[Place],
    unseen: &[Unseen],
    range: Interval,
    asker: &Zone,
) -> Result<Person, ToolError> {
    let mut person = Person::unseen("me");
    for place in places {
        let sight = sight(office, place, range, asker).await?;
        person.calendars.push(Calendar { name: place.name(), sight });
    }
    person.calendars.extend(unseen.iter().map(|account| Calendar {
        name: account.account.clone(),
        sight: Sight::Unseen(account.why.clone()),
    }));
    Ok(person)
}

async fn sight(office: &Office, place: &Place, range: Interval, asker: &Zone) -> Result<Sight, ToolError> {
    if !place.is_known() {
        return Ok(Sight::Unseen("it was never synced to the end".to_owned()));
    }
    let objects = office.db().find_objects(ObjectQuery {
        collections: vec![place.collection.id],
        kind: Kind::Event.as_str().to_owned(),
        from: Some(range.from.as_second() - ZONES_APART_S),
        to: Some(range.to.as_second() + ZONES_APART_S),
        limit: OBJECTS_MAX,
        ..ObjectQuery::default()
    });
    let objects = objects.await.map_err(broken)?;
    if objects.len() >= OBJECTS_MAX {
        return Ok(Sight::Unseen("it has more events than can be looked at".to_owned()));
    }
    let (asker, own) = (asker.clone(), place.own().cloned());
    let seen = tokio::task::spawn_blocking(move || {
        let read: Vec<_> = objects.iter().map(|object| Document::parse(&object.bytes)).collect();
        let broken = read.iter().filter(|read| read.is_err()).count();
        let own: Vec<Address> = own.into_iter().collect();
        (Sight::of(read.iter().flatten(), range, &asker, &own), broken)
    });
    let (seen, broken) =
        seen.await.map_err(|error| ToolError::failed("the calendar could not be read").with_source(error))?;
    Ok(with_doubts(seen, broken, stale(place)))
}

/// Why a calendar may hide something although it was synced.
fn stale(place: &Place) -> Option<String> {
    let synced = place.collection.synced_at.filter(|_| place.account.kind != "embedded")?;
    let is_stale = Timestamp::now().as_second() - synced.as_second() > STALE_AFTER_S;
    is_stale.then(|| format!("it was synced last at {synced}"))
}

fn with_doubts(sight: Sight, broken: usize, stale: Option<String>) -> Sight {
    let broken = (broken > 0).then(|| format!("{broken} events cannot be read"));
    let doubts: Vec<String> = broken.into_iter().chain(stale).collect();
    match sight {
        sight if doubts.is_empty() => sight,
        Sight::Seen(parts) => Sight::Partly { parts, why: doubts },
        Sight::Partly { parts, mut why } => {
            why.extend(doubts);
            Sight::Partly { parts, why }
        }
        Sight::Unseen(why) => Sight::Unseen(why),
    }
}

/// Another person, by what servers tell of them.
async fn other(places: &[Place], address: &Address, range: Interval) -> Person {
    let mut person = Person::unseen(address.as_str());
    let mut asked: Vec<&str> = Vec::new();
    for place in places {
        if asked.contains(&place.account.id.as_str()) {
            continue;
        }
        asked.push(&place.account.id);
        let sight = match place.store.free_busy(address, range).await {
            Ok(Some(parts)) => Sight::Seen(parts),
            Ok(None) => continue,
            Err(fault) => Sight::Unseen(fault.to_string()),
        };
        person.calendars.push(Calendar { name: place.account.id.clone(), sight });
    }
    person
}

fn shown(input: &Input, people: &[Person], range: Interval, hours: &WorkingHours, asker: &Zone) -> Output {
    let timelines: Vec<Timeline> = people.iter().map(|person| person.timeline(range)).collect();
    let together = Timeline::together(range, &timelines);
    let (length, step) = (i64::from(input.duration_minutes) * 60, i64::from(input.step_minutes) * 60);
    let slots = find_slots(&together, &hours.within(range), length, step, usize::from(input.limit));
    let told = |instant| Moment { instant, zone: asker.clone() }.to_string();
    let slot = |slot: Slot| SlotShown {
        start: told(slot.interval.from),
        end: told(slot.interval.to),
        state: word(slot.state),
    };
    let seen = people.iter().zip(&timelines).map(|(person, timeline)| {
        let taken = timeline.parts().iter().filter(|part| part.state != State::Free);
        PersonSeen {
            who: person.who.clone(),
            more: taken.clone().count() > BUSY_MAX,
            taken: taken
                .take(BUSY_MAX)
                .map(|part| SlotTaken {
                    start: told(part.interval.from),
                    end: told(part.interval.to),
                    state: word(part.state),
                })
                .collect(),
            unknown_because: person.unknown_because(),
        }
    });
    Output {
        people: seen.collect(),
        free_slots: slots.free.into_iter().map(slot).collect(),
        uncertain_slots: slots.uncertain.into_iter().map(slot).collect(),
        more_slots: slots.more,
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Free => "free",
        State::Tentative => "tentative",
        State::Unknown => "unknown",
        State::Busy => "busy",
    }
}
