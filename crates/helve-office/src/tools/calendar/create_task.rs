//! `create_task`: something to be done.

use std::sync::Arc;
use std::time::Duration;

use helve::{Annotations, Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::{Failure, Write, adopt, commit, undoable};
use super::fault::wrong;
use super::fields::{self, Written, calendar, component, new_uid, unwritable};
use super::reach::{Place, place_for_new, places};
use super::task::{Priority, TaskShown};
use super::time::{asker, read};
use crate::Office;
use crate::account::Fault;
use crate::ical::{Document, NewProperty};
use crate::objects::Kind;
use crate::zones::Zone;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    /// What is to be done, in one line.
    #[schemars(length(min = 1, max = 998))]
    title: String,
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
    /// How it repeats: `daily`, `weekdays`, `weekly`, `monthly`, `yearly`, or an iCalendar rule. It needs `due`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 500))]
    recurrence: Option<String>,
    /// The task list that it goes to, by name. Absent: the first that can be written.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    list: Option<String>,
    /// The zone of local times, such as `Europe/Berlin`.
    #[serde(default)]
    time_zone: Option<String>,
}

/// What became of a task.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskChanged {
    /// Pass it on as it is.
    pub(super) id: String,
    /// Which state of the task this is now.
    pub(super) version: String,
    /// Which change this was: it can be undone as long as nobody changes the task.
    pub(super) change: String,
    /// The task as it is now.
    pub(super) task: TaskShown,
    /// What else there is to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

impl TaskChanged {
    pub(super) fn with_version(mut self, version: String) -> Self {
        self.task.version.clone_from(&version);
        Self { version, ..self }
    }
}

pub(super) fn tool(office: &Arc<Office>) -> ToolBuilder {
    let shared = Arc::clone(office);
    let builder = Tool::function(
        "create_task",
        "Adds a task to the user's task list: title, notes, due date, priority, project, and how it repeats. Returns \
         the task with its `id` and `version`. It can be undone.",
        move |input: Input, context: Context| {
            let office = Arc::clone(&shared);
            async move { answer(&office, &input, &context).await }
        },
    )
    .when_to_use(
        "When the user wants to be reminded of something to be done, or asks to add it to their tasks. For a meeting \
         or anything that takes place at a time, use `create_calendar_event`.",
    )
    .example_call("Remind me to call the bank", json!({ "title": "Call the bank" }))
    .example_call(
        "I have to send the report by Friday 5 pm",
        json!({ "title": "Send the report", "due": "2026-03-06T17:00", "timeZone": "Europe/Berlin", "priority": "high" }),
    )
    .example_call(
        "Add 'order toner' to the office project",
        json!({ "title": "Order toner", "project": "Office", "notes": "Black, two of them." }),
    )
    .example_call(
        "Every month I need to pay the rent",
        json!({ "title": "Pay the rent", "due": "2026-04-01", "recurrence": "monthly" }),
    )
    .integration("tasks")
    .category(Category::Create)
    .risk(Risk::Medium)
    .annotations(Annotations { destructive: false, ..Annotations::default() })
    .timeout(Duration::from_secs(30))
    .facets([Facet::Mutates, Facet::ReadsPrivate]);
    undoable(builder, office)
}

async fn answer(office: &Office, input: &Input, context: &Context) -> Result<TaskChanged, ToolError> {
    let asker = asker(office, input.time_zone.as_ref())?;
    let uid = new_uid(context, "task");
    let document = document(input, &uid, &asker, Timestamp::now())?;
    let all = places(office, context.caller(), Kind::Task).await?;
    let place = place_for_new(all, "list", input.list.as_ref())?;
    let href = place.store.new_href(&place.collection.told.href, &uid);
    let answer = shown(&place, &uid, "", &document, &asker, context)?;
    let write = Write { place, href, before: None, after: Some(document.print().into()) };
    let result = serde_json::to_value(&answer).unwrap_or(Value::Null);
    match commit(office, context, std::slice::from_ref(&write), &result).await {
        Ok(versions) => Ok(answer.with_version(versions.into_iter().next().unwrap_or_default())),
        Err(Failure::Conflict(_)) => there_already(office, &write, &uid, &asker, context).await,
        Err(Failure::Error(error)) => Err(error),
    }
}

/// Only a call under the same key makes the same UID: what it made is the answer.
async fn there_already(
    office: &Office,
    write: &Write,
    uid: &str,
    asker: &Zone,
    context: &Context,
) -> Result<TaskChanged, ToolError> {
    let object = write.place.store.get(&write.href).await.map_err(|fault| fault.for_model())?;
    let document = Document::parse(&object.bytes)
        .map_err(|_| Fault::Nonsense("what is there cannot be read".to_owned()).for_model())?;
    let answer = shown(&write.place, uid, &object.version, &document, asker, context)?;
    let result = serde_json::to_value(&answer).unwrap_or(Value::Null);
    adopt(office, context, write, &object, &result).await?;
    Ok(answer)
}

pub(super) fn shown(
    place: &Place,
    uid: &str,
    version: &str,
    document: &Document,
    asker: &Zone,
    context: &Context,
) -> Result<TaskChanged, ToolError> {
    let task = TaskShown::new(place, uid, version, document, asker);
    let task = task.ok_or_else(|| ToolError::failed("the object has no task"))?;
    Ok(TaskChanged {
        id: task.id.clone(),
        version: version.to_owned(),
        change: context.call_id().to_string(),
        task,
        notes: Vec::new(),
    })
}

fn document(input: &Input, uid: &str, asker: &Zone, now: Timestamp) -> Result<Document, ToolError> {
    let mut task = component("VTODO", uid, now)?;
    let text = |name: &str, text: &str| NewProperty::text(name, text).map_err(unwritable);
    task.add(&text("SUMMARY", &fields::line("title", &input.title)?)?);
    if let Some(notes) = &input.notes {
        task.add(&text("DESCRIPTION", &fields::text("notes", notes)?)?);
    }
    if let Some(project) = &input.project {
        task.add(&text("CATEGORIES", &fields::line("project", project)?)?);
    }
    if let Some(priority) = input.priority.filter(|priority| *priority != Priority::None) {
        task.add(&NewProperty::raw("PRIORITY", &priority.number().to_string()).map_err(unwritable)?);
    }
    task.add(&NewProperty::raw("STATUS", "NEEDS-ACTION").map_err(unwritable)?);
    let due = input.due.as_deref().map(|due| read("due", due, asker)).transpose()?;
    let due = due.as_ref().map(Written::of);
    if let Some(due) = &due {
        task.add(&due.property("DUE")?);
    }
    if let Some(recurrence) = &input.recurrence {
        let due = due.as_ref().ok_or_else(|| {
            wrong("recurrence", "`due` as well", "a task that repeats needs to be due for the first time")
        })?;
        // A rule counts from a start.
        task.add(&due.property("DTSTART")?);
        task.add(&NewProperty::raw("RRULE", &fields::rule(recurrence, due)?).map_err(unwritable)?);
    }
    let mut document = calendar(task)?;
    if let Some(due) = &due {
        due.define(&mut document)?;
    }
    Ok(document)
}
