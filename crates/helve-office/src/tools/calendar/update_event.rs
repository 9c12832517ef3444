//! `update_calendar_event`: an event changed, cancelled or answered, once or as a series.

use std::sync::Arc;
use std::time::Duration;

use helve::{Annotations, Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::change::{Write, undoable};
use super::event::{EventChanged, EventPlan, Recipients, check_told, printed, told};
use super::event_edit::{self, Edit, Outcome};
use super::facts::{Facts, conflict, of_event, of_following};
use super::fault::wrong;
use super::fields::new_uid;
use super::reach::{Place, fetch};
use super::time::asker;
use crate::Office;
use crate::account::Object;
use crate::ical::Document;
use crate::objects::{Kind, ObjectId};
use crate::recurrence::Series;
use crate::zones::Zone;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Input {
    /// The event: its `id` as it stands in an answer of `list_calendar_events`.
    #[schemars(length(min = 1, max = 2000))]
    id: String,
    /// The `version` that you saw. If the event is not like that any more, nothing is written and both versions are
    /// returned. Absent: the event is changed as it is now.
    #[serde(default)]
    #[schemars(length(min = 1, max = 500))]
    version: Option<String>,
    /// Which occurrences of an event that repeats; needed where it does.
    #[serde(default)]
    pub(super) scope: Option<Scope>,
    /// What it is called, in one line.
    #[serde(default)]
    #[schemars(length(min = 1, max = 998))]
    pub(super) title: Option<String>,
    /// When it starts: a local time in `timeZone`, a time with an offset, or a date for whole days. For a series: when
    /// the occurrence of the `id` starts. Without `end` it stays as long as it is.
    #[serde(default)]
    pub(super) start: Option<String>,
    /// When it ends, in the same way; for whole days the last day.
    #[serde(default)]
    pub(super) end: Option<String>,
    /// The zone of local times, such as `Europe/Berlin`; it becomes the event's own. Absent: the event keeps its zone,
    /// and local times are the user's.
    #[serde(default)]
    pub(super) time_zone: Option<String>,
    /// How it repeats: `daily`, `weekdays`, `weekly`, `monthly`, `yearly`, or an iCalendar rule.
    #[serde(default)]
    #[schemars(length(min = 1, max = 500))]
    pub(super) recurrence: Option<String>,
    /// Everybody who is invited from now on; who is invited already and stands here keeps their answer.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub(super) attendees: Option<Vec<String>>,
    /// Who is invited besides.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub(super) add_attendees: Vec<String>,
    /// Who is no longer invited, by address.
    #[serde(default)]
    #[schemars(length(max = 200))]
    pub(super) remove_attendees: Vec<String>,
    /// Where it is.
    #[serde(default)]
    #[schemars(length(min = 1, max = 998))]
    pub(super) location: Option<String>,
    /// What it is about.
    #[serde(default)]
    #[schemars(length(min = 1, max = 65_536))]
    pub(super) description: Option<String>,
    /// Reminders from now on: minutes before the start. An empty list takes them away.
    #[serde(default)]
    #[schemars(length(max = 10), inner(range(max = 525_600)))]
    pub(super) reminders: Option<Vec<u32>>,
    /// What to take away.
    #[serde(default)]
    #[schemars(length(max = 3))]
    pub(super) clear: Vec<Clearable>,
    /// Cancels it: it stays in the calendar as cancelled, and the time is free. Of `this_and_following` the series
    /// ends before.
    #[serde(default)]
    pub(super) cancel: bool,
    /// The user's own answer to an invitation.
    #[serde(default)]
    pub(super) respond: Option<InvitationAnswer>,
    /// Agrees that the organizer or the attendees are told, where the calendar's server does that. Without it nobody
    /// is.
    #[serde(default)]
    pub(super) notify_attendees: bool,
}

/// Which occurrences of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    /// The one of the `id`.
    This,
    /// The one of the `id` and all later ones.
    ThisAndFollowing,
    /// Every occurrence of the series.
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Clearable {
    Location,
    Description,
    Recurrence,
}

/// An answer to an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
// Its name in schemas, which models may have seen.
#[schemars(rename = "Answer")]
pub(super) enum InvitationAnswer {
    /// They will come.
    Accept,
    /// Does not come.
    Decline,
    /// They may come.
    Tentative,
}

impl InvitationAnswer {
    /// As iCalendar writes it.
    pub(super) fn as_ical(self) -> &'static str {
        match self {
            Self::Accept => "ACCEPTED",
            Self::Decline => "DECLINED",
            Self::Tentative => "TENTATIVE",
        }
    }
}

impl Input {
    fn changes_something(&self) -> bool {
        self.respond.is_some() || self.changes_more_than_the_answer()
    }

    fn changes_more_than_the_answer(&self) -> bool {
        let texts =
            [&self.title, &self.start, &self.end, &self.recurrence, &self.location, &self.description];
        texts.iter().any(|text| text.is_some())
            || self.attendees.is_some()
            || self.reminders.is_some()
            || self.cancel
            || !(self.add_attendees.is_empty() && self.remove_attendees.is_empty() && self.clear.is_empty())
    }
}

pub(super) fn tool(office: &Arc<Office>) -> ToolBuilder {
    let (shared, for_preview) = (Arc::clone(office), Arc::clone(office));
    let builder = Tool::function(
        "update_calendar_event",
        "Changes an event in the user's calendar after a person has approved it: title, time, how it repeats, \
         attendees, location, description, reminders; cancels it, or answers an invitation. Only what you give \
         changes; everything else, also what other programs stored, stays. For an event that repeats say with `scope` \
         which occurrences. If the event has changed since, nothing is written and both versions are returned. \
         It can be undone.",
        move |input: Input, context: Context| {
            let office = Arc::clone(&shared);
            async move { answer(&office, &input, &context).await }
        },
    )
    .preview_with(move |arguments: Value, context: Context| {
        let office = Arc::clone(&for_preview);
        async move {
            let input: Input = serde_json::from_value(arguments)
                .map_err(|error| wrong("arguments", "what the schema says", error.to_string()))?;
            Ok(plan(&office, &input, &context).await?.preview())
        }
    })
    .when_to_use(
        "When the user wants to move, change, cancel or answer something in their calendar. Call \
         `list_calendar_events` first for its `id` and `version`. Ask the user which occurrences they mean where an \
         event repeats and they did not say.",
    )
    .example_call(
        "Move lunch to one o'clock",
        json!({ "id": "e1.YWJj", "version": "9f86d081884c7d65", "start": "2026-03-03T13:00",
                "timeZone": "Europe/Berlin" }),
    )
    .example_call(
        "Cancel Friday's stand-up only",
        json!({ "id": "e1.YWJj.20260306T141500Z", "version": "9f86d081884c7d65", "scope": "this", "cancel": true }),
    )
    .example_call(
        "From next week on the review is in room 5",
        json!({ "id": "e1.YWJj.20260309T090000Z", "version": "9f86d081884c7d65", "scope": "this_and_following",
                "location": "Room 5" }),
    )
    .example_call(
        "Accept the invitation and let them know",
        json!({ "id": "e1.YWJj", "version": "9f86d081884c7d65", "respond": "accept", "notifyAttendees": true }),
    )
    .example_call(
        "Invite Carol too, but don't send anything",
        json!({ "id": "e1.YWJj", "version": "9f86d081884c7d65", "addAttendees": ["carol@example.org"] }),
    )
    .integration("calendar")
    .category(Category::Update)
    .risk(Risk::Medium)
    .requires_approval()
    .annotations(Annotations { destructive: true, ..Annotations::default() })
    .timeout(Duration::from_secs(30))
    .facets([Facet::Mutates, Facet::ReadsPrivate, Facet::ReadsUntrusted, Facet::Egress]);
    undoable(builder, office)
}

async fn answer(office: &Office, input: &Input, context: &Context) -> Result<EventChanged, ToolError> {
    plan(office, input, context).await?.carry_out(office, context).await
}

async fn plan(office: &Office, input: &Input, context: &Context) -> Result<EventPlan, ToolError> {
    if !input.changes_something() {
        return Err(wrong("id", "something to change as well", "nothing is to be changed"));
    }
    let id = ObjectId::parse(&input.id, Kind::Event)?;
    let asker = asker(office, input.time_zone.as_ref())?;
    let (place, object) = fetch(office, context.caller(), &id).await?;
    let before = parsed(&object)?;
    let scope = scope(&before, &id, input)?;
    let edit = Edit {
        input,
        place: &place,
        id: &id,
        scope,
        asker: &asker,
        now: Timestamp::now(),
        new_uid: new_uid(context, "split"),
    };
    let made = event_edit::edit(&edit, &before)?;
    let shown = if scope == Scope::This { id.occurrence } else { None };
    let zone = Zone::from(office.settings().zone.clone());
    let (former, wanted) = compared(&edit, &before, &made, &zone);
    if input.version.as_ref().is_some_and(|version| *version != object.version) {
        return Err(conflict("event", &object.version, &former, &wanted));
    }
    let whom = match input.changes_more_than_the_answer() {
        true => Recipients::Everybody,
        false => Recipients::Organizer,
    };
    check_told(office, &place, input.notify_attendees.then_some(whom), &[&before, made.main()])?;
    let has_attendees = [&before, made.main()]
        .iter()
        .any(|document| document.events("VEVENT").any(|event| event.property("ATTENDEE").is_some()));
    Ok(EventPlan {
        invitations: told(&place, has_attendees, input.notify_attendees),
        heading: heading(input, scope, &before, &id.uid),
        id: ObjectId { uid: made.uid(&id).to_owned(), occurrence: shown, ..id.clone() },
        writes: writes(&place, object, &made, &edit.new_uid),
        notes: made.notes.clone(),
        after: made.main().clone(),
        before: former,
        wanted,
        asker: zone,
        place,
    })
}

/// What a person compares: the same occurrence before and after, or the series where all of it is meant.
fn compared(edit: &Edit<'_>, before: &Document, made: &Outcome, zone: &Zone) -> (Facts, Facts) {
    let (input, uid, occurrence) = (edit.input, &edit.id.uid, edit.id.occurrence);
    let (after, new_uid) = (made.main(), made.uid(edit.id));
    let repeats_otherwise = input.recurrence.is_some() || input.clear.contains(&Clearable::Recurrence);
    match edit.scope {
        Scope::All => (of_event(before, uid, None, zone), of_event(after, new_uid, None, zone)),
        Scope::This => (of_event(before, uid, occurrence, zone), of_event(after, uid, occurrence, zone)),
        Scope::ThisAndFollowing if input.cancel => {
            let former = of_event(before, uid, occurrence, zone);
            let wanted = taken_out(&former);
            (former, wanted)
        }
        Scope::ThisAndFollowing => {
            let first = Series::find(after, "VEVENT", new_uid).and_then(Result::ok);
            let first = first.and_then(|series| series.first());
            let facts = if repeats_otherwise { of_following } else { of_event };
            (facts(before, uid, occurrence, zone), facts(after, new_uid, first, zone))
        }
    }
}

/// An occurrence that goes with all later ones.
fn taken_out(former: &Facts) -> Facts {
    let mut wanted: Facts = former.iter().filter(|(key, _)| *key != "Status").cloned().collect();
    wanted.push(("Status", "cancelled, with all later ones".to_owned()));
    wanted
}

fn parsed(object: &Object) -> Result<Document, ToolError> {
    Document::parse(&object.bytes).map_err(|error| {
        ToolError::unrecoverable("UNREADABLE", format!("the event cannot be read: {error}")).nothing_done()
    })
}

/// A split writes its new half first: should the second write fail, the first is taken back, and should nobody know
/// whether it failed, an event is shown twice and none is lost.
fn writes(place: &Place, object: Object, made: &Outcome, new_uid: &str) -> Vec<Write> {
    let href = object.href.clone();
    let changed =
        Write { place: place.clone(), href, before: Some(object), after: Some(printed(&made.document)) };
    let new = made.new.as_ref().map(|new| Write {
        place: place.clone(),
        href: place.store.new_href(&place.collection.told.href, new_uid),
        before: None,
        after: Some(printed(new)),
    });
    new.into_iter().chain([changed]).collect()
}

/// Which occurrences are meant. It must be said where there are several.
fn scope(document: &Document, id: &ObjectId, input: &Input) -> Result<Scope, ToolError> {
    let series = match Series::find(document, "VEVENT", &id.uid) {
        Some(Ok(series)) => series,
        Some(Err(error)) => {
            let text = format!("the times of the event cannot be read: {error}");
            return Err(ToolError::unrecoverable("UNREADABLE", text).nothing_done());
        }
        None => return Err(super::fault::not_found("event")),
    };
    let only_overrides = series.event().is_none();
    if !series.repeats() && series.overrides().is_empty() {
        return Ok(Scope::All);
    }
    let scope = input.scope.ok_or_else(|| {
        wrong(
            "scope",
            "`this`, `this_and_following` or `all`",
            "the event repeats, and it is not said which occurrences",
        )
        .suggest("ask the user: this one, this and all following, or all of them?")
    })?;
    match (scope, id.occurrence) {
        (Scope::This | Scope::ThisAndFollowing, None) => {
            Err(wrong("id", "the `id` of an occurrence", "it names the series and no occurrence of it")
                .suggest("list the events, and pass the `id` of the occurrence that is meant"))
        }
        (Scope::ThisAndFollowing | Scope::All, _) if only_overrides => {
            Err(wrong("scope", "`this`", "only single occurrences of this event are known here"))
        }
        (scope, _) => Ok(scope),
    }
}

fn heading(input: &Input, scope: Scope, document: &Document, uid: &str) -> String {
    let repeats =
        Series::find(document, "VEVENT", uid).and_then(Result::ok).is_some_and(|series| series.repeats());
    let what = match (repeats, scope) {
        (false, _) => "this event",
        (true, Scope::This) => "this one occurrence",
        (true, Scope::ThisAndFollowing) => "this and all following occurrences",
        (true, Scope::All) => "all occurrences",
    };
    match (input.cancel, input.respond) {
        (true, _) => format!("Cancel: {what}"),
        (false, Some(answer)) => format!("Answer: {}, for {what}", answer.as_ical().to_lowercase()),
        (false, None) => format!("Change: {what}"),
    }
}
