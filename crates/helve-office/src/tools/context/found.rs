//! What was found, as models see it, and which of it comes first.

use std::sync::PoisonError;

use helve::ToolError;
use helve_store::office::{MailQuery, MailRow, ObjectQuery, ObjectRow};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::calendar::fault::broken;
use super::super::calendar::shown::{line, person, text, told};
use super::super::mail::shown::{id_of, version_of};
use super::query::{EntityType, Search};
use crate::Office;
use crate::ical::{Component, Document};
use crate::objects::{Kind, ObjectId, main_component};
use crate::recurrence::{Occurrence, Range, Series, When};
use crate::text::cleaned;
use crate::zones::{Moment, Zone, ZoneTable};

/// How many of each sort are looked at.
const EACH_MAX: usize = 50;
const TEXT_CHARS_MAX: usize = 300;
const PEOPLE_MAX: usize = 10;
const YEAR_S: i64 = 366 * 86_400;
/// Looked at first: what repeats mostly does so within weeks, and over all years a daily event happens thousands of times.
const NEAR: SignedDuration = SignedDuration::from_hours(60 * 24);

/// A mail, an event, a task or a contact that fits the query.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Its name in schemas, which models may have seen.
#[schemars(rename = "Found")]
pub(super) struct SearchResult {
    /// What sort of thing it is.
    pub(super) r#type: EntityType,
    /// Pass it on as it is to other office tools. Of people without a contact, their address.
    pub(super) id: String,
    /// Which state of it this is. Of people: of what is known of them.
    pub(super) version: String,
    /// What it is called: a name, a title, a subject.
    pub(super) title: String,
    /// The beginning of what is written in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// When it happens, is due or was written, with offset and zone; a date of what takes whole days. Of events that
    /// repeat the next time, or the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) when: Option<String>,
    /// Of tasks: `open`, `in_progress`, `completed` or `cancelled`. Of events: only where they are cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<String>,
    /// Who is in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) people: Vec<String>,
    /// What is known, each with where it came from.
    pub(super) facts: Vec<Fact>,
    /// What happened last with a person, and what comes next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) recent: Vec<Recent>,
    /// How well it fits, from 0 to 1.
    pub(super) score: f64,
    /// When it is, for the order.
    #[serde(skip)]
    pub(super) at: Option<Timestamp>,
    /// What the words are compared with besides the title.
    #[serde(skip)]
    pub(super) more_words: String,
    /// Of people: how far the user vouches for them, from 0 to 1.
    #[serde(skip)]
    pub(super) trust: f64,
}

/// Something that is known, with where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Fact {
    /// What is known.
    pub(super) fact: String,
    /// Where from: the folder, calendar or address book, and its account.
    pub(super) source: String,
}

/// Something that happened with a person, or will.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Recent {
    /// What sort of thing it is.
    pub(super) r#type: EntityType,
    /// Pass it on as it is to other office tools.
    pub(super) id: String,
    /// What it is called.
    pub(super) title: String,
    /// When it was, or will be.
    pub(super) when: String,
}

/// Puts the best first: what has the words in its title, what is near in time. Of people those whom the user knows:
/// anybody can write a mail today under any name.
pub(super) fn rank(found: &mut [SearchResult], search: &Search) {
    for one in found.iter_mut() {
        let title = one.title.to_lowercase();
        let more = one.more_words.to_lowercase();
        let of_words = |text: &str| {
            let hits = search.words.iter().filter(|word| text.contains(&word.to_lowercase())).count();
            hits as f64 / search.words.len().max(1) as f64
        };
        let days =
            one.at.map_or(365.0, |at| (at.as_second() - search.now.as_second()).abs() as f64 / 86_400.0);
        let nearness = 1.0 / (1.0 + days / 30.0);
        let score = match one.r#type {
            EntityType::Person => {
                0.6 * of_words(&format!("{title}\n{more}")) + 0.3 * one.trust + 0.1 * nearness
            }
            _ => 0.9 * (0.6 * of_words(&title) + 0.15 * of_words(&more) + 0.25 * nearness),
        };
        one.score = (score * 1000.0).round() / 1000.0;
    }
    found.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then_with(|| b.at.cmp(&a.at)).then_with(|| a.id.cmp(&b.id))
    });
}

/// The mails that have all words.
pub(super) async fn mails(office: &Office, search: &Search) -> Result<Vec<SearchResult>, ToolError> {
    let query = MailQuery {
        collections: search.collections(is_wanted_mail),
        text: search.words.clone(),
        after: search.from,
        before: search.to,
        by_thread: true,
        limit: EACH_MAX,
        ..MailQuery::default()
    };
    let hits = office.db().search_mails(query).await.map_err(broken)?;
    Ok(hits.mails.iter().map(|mail| of_mail(mail, search)).collect())
}

/// Whether a folder holds mails that nobody has thrown away.
pub(super) fn is_wanted_mail(row: &helve_store::office::CollectionRow) -> bool {
    is_mail(row) && !matches!(row.told.role.as_deref(), Some("junk" | "trash"))
}

pub(super) fn is_mail(row: &helve_store::office::CollectionRow) -> bool {
    !(row.told.events || row.told.tasks || row.told.contacts)
}

fn of_mail(mail: &MailRow, search: &Search) -> SearchResult {
    let names = mail.people.iter().map(|one| shown_name(one.name.as_deref(), &one.address));
    SearchResult {
        r#type: EntityType::Email,
        id: id_of(mail),
        version: version_of(mail),
        title: if mail.subject.is_empty() { "(no subject)".to_owned() } else { mail.subject.clone() },
        text: Some(short(&mail.preview)).filter(|text| !text.is_empty()),
        when: Some(moment(mail.date, &search.asker)),
        status: None,
        people: names.take(PEOPLE_MAX).collect(),
        facts: vec![Fact {
            fact: if mail.attachments > 0 { "a mail with attachments" } else { "a mail" }.to_owned(),
            source: format!("folder `{}` of account `{}`", cleaned(&mail.folder_name, 100), mail.account),
        }],
        recent: Vec::new(),
        score: 0.0,
        at: Some(mail.date),
        more_words: mail.preview.clone(),
        trust: 0.0,
    }
}

/// The objects of a sort that have all words.
pub(super) async fn objects(
    office: &Office,
    search: &Search,
    sort: EntityType,
    kind: &str,
) -> Result<Vec<SearchResult>, ToolError> {
    let rows = office.db().find_objects(query(search, sort, kind)).await.map_err(broken)?;
    let found = rows.iter().filter_map(|row| of_object(row, search, sort));
    Ok(found.collect())
}

/// All-day and floating times are indexed as if in UTC, and no zone is further from it than this.
const ZONES_APART_S: i64 = 2 * 86_400;

fn query(search: &Search, sort: EntityType, kind: &str) -> ObjectQuery {
    let (from, to) = (
        search.from.map(|from| from.as_second() - ZONES_APART_S),
        search.to.map(|to| to.as_second() + ZONES_APART_S),
    );
    let is_task = sort == EntityType::Task;
    let holds =
        |row: &helve_store::office::CollectionRow| if is_task { row.told.tasks } else { row.told.events };
    ObjectQuery {
        collections: search.collections(holds),
        kind: kind.to_owned(),
        from: from.filter(|_| !is_task),
        to: to.filter(|_| !is_task),
        due_from: from.filter(|_| is_task),
        due_to: to.filter(|_| is_task),
        words: search.words.clone(),
        limit: EACH_MAX,
        ..ObjectQuery::default()
    }
}

fn of_object(row: &ObjectRow, search: &Search, sort: EntityType) -> Option<SearchResult> {
    let document = Document::parse(&row.bytes).ok()?;
    let kind = match sort {
        EntityType::Event => Kind::Event,
        EntityType::Task => Kind::Task,
        EntityType::Note => Kind::Note,
        EntityType::Person | EntityType::Email => return None,
    };
    let main = main_component(&document, kind.component())?;
    let (name, account) = search.name_of(row.collection);
    let at = when(&document, main, row, kind, search);
    if (search.from.is_some() || search.to.is_some()) && at.is_none() {
        return None;
    }
    let place = match kind {
        Kind::Event => "calendar",
        Kind::Task => "task list",
        Kind::Note => "journal",
        Kind::Contact => "address book",
    };
    let mut facts = vec![Fact {
        fact: match line(main, "LOCATION") {
            Some(location) => format!("at {location}"),
            None => format!("in a {place}"),
        },
        source: format!("{place} `{name}` of account `{account}`"),
    }];
    facts.extend(main.property("RRULE").map(|_| Fact {
        fact: "repeats".to_owned(),
        source: format!("{place} `{name}` of account `{account}`"),
    }));
    let id = ObjectId {
        kind,
        collection: row.collection,
        uid: row.uid.clone(),
        occurrence: at.as_ref().and_then(|at| at.2),
    };
    let people = main.all("ORGANIZER").chain(main.all("ATTENDEE")).map(|found| person(&found));
    let body = text(main, "DESCRIPTION").unwrap_or_default();
    Some(SearchResult {
        r#type: sort,
        id: id.to_string(),
        version: row.version.clone(),
        title: line(main, "SUMMARY").unwrap_or_else(|| "(no title)".to_owned()),
        text: Some(short(&body)).filter(|text| !text.is_empty()),
        when: at.as_ref().map(|at| at.1.clone()),
        status: status(main, kind),
        people: people.map(|one| shown_name(one.name.as_deref(), &one.address)).take(PEOPLE_MAX).collect(),
        facts,
        recent: Vec::new(),
        score: 0.0,
        at: at.map(|at| at.0),
        more_words: body,
        trust: 0.0,
    })
}

fn status(main: &Component, kind: Kind) -> Option<String> {
    let value = main.property("STATUS").map(|found| found.value().trim().to_ascii_lowercase());
    match (kind, value.as_deref()) {
        (Kind::Event, Some("cancelled")) | (Kind::Task, Some("cancelled")) => Some("cancelled".to_owned()),
        (Kind::Task, Some("completed")) => Some("completed".to_owned()),
        (Kind::Task, Some("in-process")) => Some("in_progress".to_owned()),
        (Kind::Task, _) => Some("open".to_owned()),
        (Kind::Event | Kind::Note | Kind::Contact, _) => None,
    }
}

type At = (Timestamp, String, Option<crate::recurrence::RecurrenceId>);

/// When it is within what was asked: the next time from now on, else the last before.
fn when(document: &Document, main: &Component, row: &ObjectRow, kind: Kind, search: &Search) -> Option<At> {
    match kind {
        Kind::Event => {
            let occurrence = occurrence_near(document, &row.uid, search)?;
            let (start, _) = told(&occurrence.when, &search.asker);
            Some((occurrence.when.instants(&search.asker).0, start, occurrence.id))
        }
        Kind::Task | Kind::Note => {
            // A note has the day that it is of; a task when it is due.
            let time = main.property(if kind == Kind::Task { "DUE" } else { "DTSTART" })?;
            let due =
                super::super::calendar::task::moment(&time, &mut ZoneTable::of(document), &search.asker)?;
            let at = due.begins(&search.asker);
            let fits = search.from.is_none_or(|from| at >= from) && search.to.is_none_or(|to| at < to);
            fits.then(|| (at, due.told(&search.asker), None))
        }
        Kind::Contact => None,
    }
}

/// The next time from now on, else the last before.
fn occurrence_near(document: &Document, uid: &str, search: &Search) -> Option<Occurrence> {
    let series = Series::find(document, "VEVENT", uid)?.ok()?;
    let (now, years) = (search.now, |years: i64| search.now + SignedDuration::from_secs(years * YEAR_S));
    let (from, to) = (search.from.unwrap_or(years(-5)), search.to.unwrap_or(years(2)));
    let begins = |one: &Occurrence| one.when.instants(&search.asker).0;
    for end in [(now + NEAR).min(to), to] {
        let mut all = happens(&series, now.max(from), end, search)?;
        all.retain(|one| one.when.instants(&search.asker).1 > now);
        if let Some(next) = all.into_iter().min_by_key(begins) {
            return Some(next);
        }
    }
    // What takes no time and is right now counts as past.
    let end = (now + SignedDuration::from_secs(1)).min(to);
    for start in [(now - NEAR).max(from), from] {
        let all = happens(&series, start, end, search)?;
        if let Some(last) = all.into_iter().max_by_key(begins) {
            return Some(last);
        }
    }
    None
}

/// What of a series happens between two moments. None: it is too much.
fn happens(series: &Series, from: Timestamp, to: Timestamp, search: &Search) -> Option<Vec<Occurrence>> {
    if from >= to {
        return Some(Vec::new());
    }
    let range = Range { from, to, asker: search.asker.clone() };
    let mut budget = search.budget.lock().unwrap_or_else(PoisonError::into_inner);
    budget.part(5_000, 2_000_000, |budget| series.expand(&range, budget)).ok()
}

/// The next time that a person and the user meet.
pub(super) fn next_event(row: &ObjectRow, search: &Search) -> Option<Recent> {
    let document = Document::parse(&row.bytes).ok()?;
    let main = main_component(&document, "VEVENT")?;
    let occurrence = occurrence_near(&document, &row.uid, search)?;
    let id = ObjectId {
        kind: Kind::Event,
        collection: row.collection,
        uid: row.uid.clone(),
        occurrence: occurrence.id,
    };
    let is_all_day = matches!(occurrence.when, When::AllDay { .. });
    let start = occurrence.when.instants(&search.asker).0;
    (start >= search.now || is_all_day).then(|| Recent {
        r#type: EntityType::Event,
        id: id.to_string(),
        title: line(main, "SUMMARY").unwrap_or_else(|| "(no title)".to_owned()),
        when: told(&occurrence.when, &search.asker).0,
    })
}

/// The last mail of a person.
pub(super) fn last_mail(mail: &MailRow, search: &Search) -> Recent {
    Recent {
        r#type: EntityType::Email,
        id: id_of(mail),
        title: mail.subject.clone(),
        when: moment(mail.date, &search.asker),
    }
}

pub(super) fn moment(at: Timestamp, asker: &Zone) -> String {
    Moment { instant: at, zone: asker.clone() }.to_string()
}

pub(super) fn shown_name(name: Option<&str>, address: &str) -> String {
    match name.map(|name| cleaned(name, 200)).filter(|name| !name.is_empty()) {
        Some(name) if !address.is_empty() => format!("{name} <{}>", cleaned(address, 254)),
        Some(name) => name,
        None => cleaned(address, 254),
    }
}

fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = cleaned(&line, TEXT_CHARS_MAX);
    if line.chars().count() > TEXT_CHARS_MAX { format!("{cut}…") } else { cut }
}
