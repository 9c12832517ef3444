//! `update_task`: a task changed in part, or done.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use helve::{Annotations, Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::change::{Failure, Write, commit, undoable};
use super::create_task::{TaskChanged, shown};
use super::facts::{conflict, of_task};
use super::fault::wrong;
use super::fields::{self, Written, stamp, unwritable};
use super::reach::fetch;
use super::task::{Priority, TaskStatus};
use super::time::{asker, read};
use crate::Office;
use crate::account::Object;
use crate::ical::{Component, DateValue, Document, EditError, NewProperty, escape, split_list};
use crate::objects::{Kind, ObjectId, main_component};
use crate::recurrence::{Series, When};
use crate::rule::{End, Rule, local_time, naive_seconds, with_end};
use crate::zones::{Zone, ZoneTable};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    /// The task: its `id` as it stands in an answer.
    #[schemars(length(min = 1, max = 2000))]
    id: String,
    /// The `version` that you saw. If the task is not like that any more, nothing is written and both versions are
    /// returned. Absent: the task is changed as it is now.
    #[serde(default)]
    #[schemars(length(min = 1, max = 500))]
    version: Option<String>,
    /// What is to be done, in one line.
    #[serde(default)]
    #[schemars(length(min = 1, max = 998))]
    title: Option<String>,
    /// More about it.
    #[serde(default)]
    #[schemars(length(min = 1, max = 65_536))]
    notes: Option<String>,
    /// When it is due: a date (`2026-03-01`), a time with an offset, or a local time in `timeZone`.
    #[serde(default)]
    due: Option<String>,
    /// How much it matters.
    #[serde(default)]
    priority: Option<Priority>,
    /// What it belongs to.
    #[serde(default)]
    #[schemars(length(min = 1, max = 500))]
    project: Option<String>,
    /// How it repeats: `daily`, `weekdays`, `weekly`, `monthly`, `yearly`, or an iCalendar rule.
    #[serde(default)]
    #[schemars(length(min = 1, max = 500))]
    recurrence: Option<String>,
    /// How far it is. A task that repeats and is `completed` becomes due for its next time.
    #[serde(default)]
    status: Option<TaskStatus>,
    /// What to take away.
    #[serde(default)]
    #[schemars(length(max = 5))]
    clear: Vec<Clearable>,
    /// The zone of local times, such as `Europe/Berlin`.
    #[serde(default)]
    time_zone: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Clearable {
    Notes,
    Due,
    Priority,
    Project,
    Recurrence,
}

impl Input {
    fn changes_something(&self) -> bool {
        self.title.is_some()
            || self.notes.is_some()
            || self.due.is_some()
            || self.priority.is_some()
            || self.project.is_some()
            || self.recurrence.is_some()
            || self.status.is_some()
            || !self.clear.is_empty()
    }
}

pub(super) fn tool(office: &Arc<Office>) -> ToolBuilder {
    let shared = Arc::clone(office);
    let builder = Tool::function(
        "update_task",
        "Changes a task: title, notes, due date, priority, project, how it repeats, or its status. Only what you give \
         changes; everything else, also what other programs stored, stays. Completing a task that repeats makes it \
         due for its next time. If the task has changed since, nothing is written and both versions are \
         returned. It can be undone.",
        move |input: Input, context: Context| {
            let office = Arc::clone(&shared);
            async move { answer(&office, &input, &context).await }
        },
    )
    .when_to_use(
        "When the user has done a task, or wants to change, move or drop one. Call `list_tasks` first for its `id` and \
         `version`.",
    )
    .example_call(
        "I've called the bank",
        json!({ "id": "t2.YWJj", "version": "9f86d081884c7d65", "status": "completed" }),
    )
    .example_call(
        "Move the report to Monday",
        json!({ "id": "t2.YWJj", "version": "9f86d081884c7d65", "due": "2026-03-09" }),
    )
    .example_call(
        "Make it urgent and put it into the Acme project",
        json!({ "id": "t2.YWJj", "version": "9f86d081884c7d65", "priority": "high", "project": "Acme" }),
    )
    .example_call(
        "It has no deadline after all",
        json!({ "id": "t2.YWJj", "version": "9f86d081884c7d65", "clear": ["due"] }),
    )
    .integration("tasks")
    .category(Category::Update)
    .risk(Risk::Medium)
    .annotations(Annotations { destructive: true, ..Annotations::default() })
    .timeout(Duration::from_secs(30))
    .facets([Facet::Mutates, Facet::ReadsPrivate, Facet::ReadsUntrusted]);
    undoable(builder, office)
}

async fn answer(office: &Office, input: &Input, context: &Context) -> Result<TaskChanged, ToolError> {
    if !input.changes_something() {
        return Err(wrong("id", "something to change as well", "nothing is to be changed"));
    }
    let id = ObjectId::parse(&input.id, Kind::Task)?;
    let asker = asker(office, input.time_zone.as_ref())?;
    let (place, object) = fetch(office, context.caller(), &id).await?;
    let (before, after, notes) = edited(&object, &id.uid, input, &asker)?;
    if input.version.as_ref().is_some_and(|version| *version != object.version) {
        return Err(conflict("task", &object.version, &of_task(&before, &asker), &of_task(&after, &asker)));
    }
    let mut answer = shown(&place, &id.uid, "", &after, &asker, context)?;
    answer.notes = notes;
    let result = serde_json::to_value(&answer).unwrap_or(Value::Null);
    let href = object.href.clone();
    let write = Write { place, href, before: Some(object), after: Some(Bytes::from(after.print())) };
    match commit(office, context, std::slice::from_ref(&write), &result).await {
        Ok(versions) => Ok(answer.with_version(versions.into_iter().next().unwrap_or_default())),
        Err(Failure::Error(error)) => Err(error),
        Err(Failure::Conflict(_)) => {
            let theirs = write.place.store.get(&write.href).await.map_err(|fault| fault.for_model())?;
            let now = parsed(&theirs)?;
            Err(conflict("task", &theirs.version, &of_task(&now, &asker), &of_task(&after, &asker)))
        }
    }
}

fn parsed(object: &Object) -> Result<Document, ToolError> {
    Document::parse(&object.bytes).map_err(|error| {
        ToolError::unrecoverable("UNREADABLE", format!("the task cannot be read: {error}")).nothing_done()
    })
}

/// The task as it is, as it is to be, and what to say about it.
fn edited(
    object: &Object,
    uid: &str,
    input: &Input,
    asker: &Zone,
) -> Result<(Document, Document, Vec<String>), ToolError> {
    let before = parsed(object)?;
    let mut after = before.clone();
    let mut notes = Vec::new();
    if main_component(&after, "VTODO").is_none() {
        return Err(ToolError::failed("the object has no task").nothing_done());
    }
    clear(main_mut(&mut after)?, &input.clear)?;
    set_text(main_mut(&mut after)?, input)?;
    if let Some(text) = &input.due {
        let due = Written::of(&read("due", text, asker)?);
        set_due(main_mut(&mut after)?, &due)?;
        due.define(&mut after)?;
    }
    if let Some(text) = &input.recurrence {
        set_recurrence(&mut after, text)?;
    }
    if let Some(status) = input.status {
        notes.extend(set_status(&mut after, uid, status, asker)?);
    }
    let main = main_mut(&mut after)?;
    let now = stamp(Timestamp::now());
    for name in ["DTSTAMP", "LAST-MODIFIED"] {
        main.set(&NewProperty::raw(name, &now).map_err(unwritable)?);
    }
    Ok((before, after, notes))
}

fn main_mut(document: &mut Document) -> Result<&mut Component, ToolError> {
    let has_main = document.events("VTODO").any(|task| task.property("RECURRENCE-ID").is_none());
    let is_main = |task: &&mut Component| !has_main || task.property("RECURRENCE-ID").is_none();
    let found = document.events_mut("VTODO").find(is_main);
    found.ok_or_else(|| ToolError::failed("the object has no task").nothing_done())
}

fn clear(task: &mut Component, cleared: &[Clearable]) -> Result<(), ToolError> {
    for what in cleared {
        match what {
            Clearable::Notes => task.remove("DESCRIPTION"),
            Clearable::Due => task.remove("DUE") + task.remove("DURATION"),
            Clearable::Priority => task.remove("PRIORITY"),
            Clearable::Project => clear_project(task)?,
            Clearable::Recurrence => {
                ["RRULE", "RDATE", "EXDATE", "EXRULE"].iter().map(|name| task.remove(name)).sum()
            }
        };
    }
    Ok(())
}

/// Takes out the first category, which is the project, and says how many lines went; the others stay.
fn clear_project(task: &mut Component) -> Result<usize, ToolError> {
    let Some(old) = task.property("CATEGORIES").map(|found| found.value().to_owned()) else { return Ok(0) };
    let others: Vec<&str> = split_list(&old).skip(1).collect();
    if !others.is_empty() {
        task.set_value("CATEGORIES", &others.join(",")).map_err(unwritable)?;
        return Ok(0);
    }
    let mut is_first = true;
    Ok(task.remove_where("CATEGORIES", |_| std::mem::take(&mut is_first)))
}

fn set_text(task: &mut Component, input: &Input) -> Result<(), ToolError> {
    let text = |name: &str, text: &str| NewProperty::text(name, text).map_err(unwritable);
    if let Some(title) = &input.title {
        task.rewrite(&text("SUMMARY", &fields::line("title", title)?)?);
    }
    if let Some(notes) = &input.notes {
        task.rewrite(&text("DESCRIPTION", &fields::text("notes", notes)?)?);
    }
    if let Some(priority) = input.priority {
        task.rewrite(&NewProperty::raw("PRIORITY", &priority.number().to_string()).map_err(unwritable)?);
    }
    if let Some(project) = &input.project {
        set_project(task, &fields::line("project", project)?)?;
    }
    Ok(())
}

/// The project is the first category; the others stay.
fn set_project(task: &mut Component, project: &str) -> Result<(), ToolError> {
    let old = task.property("CATEGORIES").map(|found| found.value().to_owned());
    let others = old.iter().flat_map(|old| split_list(old).skip(1)).map(str::to_owned);
    let value: Vec<String> = [escape(project)].into_iter().chain(others).collect();
    let written = task.set_value("CATEGORIES", &value.join(",")).map_err(unwritable)?;
    if !written {
        task.add(&NewProperty::raw("CATEGORIES", &value.join(",")).map_err(unwritable)?);
    }
    Ok(())
}

/// A start that is not before the end, or of another kind, would break the task for its readers.
fn set_due(task: &mut Component, due: &Written) -> Result<(), ToolError> {
    let value = |name: &str| task.property(name).and_then(|found| DateValue::parse(found.value()).ok());
    let (start, old) = (value("DTSTART"), value("DUE"));
    let follows = start.is_some_and(|start| {
        let same_kind = matches!(start, DateValue::Date(_)) == matches!(due.value, DateValue::Date(_));
        Some(start) == old || !same_kind || start.date() > due.value.date()
    });
    if follows {
        task.rewrite(&due.property("DTSTART")?);
    }
    task.remove("DURATION");
    task.rewrite(&due.property("DUE")?);
    Ok(())
}

fn set_recurrence(document: &mut Document, text: &str) -> Result<(), ToolError> {
    let start = {
        let main = main_component(document, "VTODO");
        let property = main.and_then(|main| main.property("DTSTART").or_else(|| main.property("DUE")));
        let property = property.ok_or_else(|| {
            wrong("recurrence", "`due` as well", "a task that repeats needs to be due for the first time")
        })?;
        let value = DateValue::parse(property.value())
            .map_err(|error| wrong("recurrence", "a task whose times can be read", error.to_string()))?;
        let tzid = property.param("TZID");
        let zone = tzid.and_then(|tzid| Some((ZoneTable::of(document).resolve(&tzid).ok()?, tzid)));
        Written { value, zone }
    };
    let rule = fields::rule(text, &start)?;
    let main = main_mut(document)?;
    if main.property("DTSTART").is_none() {
        main.add(&start.property("DTSTART")?);
    }
    main.rewrite(&NewProperty::raw("RRULE", &rule).map_err(unwritable)?);
    Ok(())
}

fn set_status(
    document: &mut Document,
    uid: &str,
    status: TaskStatus,
    asker: &Zone,
) -> Result<Option<String>, ToolError> {
    let repeats = main_mut(document)?.property("RRULE").is_some();
    if status == TaskStatus::Completed
        && repeats
        && let Some(told) = advance(document, uid, asker)?
    {
        return Ok(Some(told));
    }
    let task = main_mut(document)?;
    task.rewrite(&NewProperty::raw("STATUS", status.as_ical()).map_err(unwritable)?);
    match status {
        TaskStatus::Completed => {
            let now = stamp(Timestamp::now());
            task.set(&NewProperty::raw("COMPLETED", &now).map_err(unwritable)?);
            task.set(&NewProperty::raw("PERCENT-COMPLETE", "100").map_err(unwritable)?);
        }
        TaskStatus::Open | TaskStatus::InProgress | TaskStatus::Cancelled => {
            task.remove("COMPLETED");
            task.remove_where("PERCENT-COMPLETE", |found| found.value().trim() == "100");
        }
    }
    Ok(None)
}

/// Makes a task that repeats due for its next time; `None` where this was the last. Start and due move alike on their
/// own clocks, and a rule that counts has one less to go.
fn advance(document: &mut Document, uid: &str, asker: &Zone) -> Result<Option<String>, ToolError> {
    let series = match Series::find(document, "VTODO", uid) {
        Some(Ok(series)) => series,
        Some(Err(error)) => {
            let text = format!("how the task repeats cannot be read: {error}");
            return Err(ToolError::unrecoverable("UNREADABLE", text).nothing_done());
        }
        None => return Ok(None),
    };
    let Some((now, _)) = series.when(None, asker) else { return Ok(None) };
    let Some(next) = series.next_after(now.instants(asker).0, asker) else { return Ok(None) };
    let seconds = |when: &When| match when {
        When::AllDay { first, .. } => naive_seconds(first.at(0, 0, 0, 0)),
        When::Timed { start, .. } => naive_seconds(start.local()),
    };
    let by = seconds(&next.when) - seconds(&now);
    let task = main_mut(document)?;
    for name in ["DTSTART", "DUE"] {
        shift(task, name, by).map_err(unwritable)?;
    }
    let rule = task.property("RRULE").map(|rule| rule.value().to_owned()).unwrap_or_default();
    if let Some(count) = Rule::parse(&rule).ok().and_then(|rule| rule.count) {
        let left = with_end(&rule, End::Count(count.saturating_sub(1).max(1)));
        task.set_value("RRULE", &left).map_err(unwritable)?;
    }
    task.set(&NewProperty::raw("STATUS", "NEEDS-ACTION").map_err(unwritable)?);
    task.remove("COMPLETED");
    task.remove("PERCENT-COMPLETE");
    let (done, due) = (super::shown::told(&now, asker).0, super::shown::told(&next.when, asker).0);
    Ok(Some(format!("done for {done}; the task repeats, and is due for {due} now")))
}

/// Moves a time by so many seconds on its own clock; parameters stay.
fn shift(task: &mut Component, name: &str, by: i64) -> Result<(), EditError> {
    let value = task.property(name).and_then(|found| DateValue::parse(found.value()).ok());
    let Some(value) = value else { return Ok(()) };
    let moved = |at| local_time(naive_seconds(at) + by).unwrap_or(at);
    let value = match value {
        DateValue::Date(date) => DateValue::Date(moved(date.at(0, 0, 0, 0)).date()),
        DateValue::Local(at) => DateValue::Local(moved(at)),
        DateValue::Utc(at) => DateValue::Utc(moved(at)),
    };
    task.set_value(name, &value.to_string())?;
    Ok(())
}
