//! `list_drafts`: what was begun and not sent.

use std::sync::Arc;
use std::time::Duration;

use helve::{Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use helve_store::office::MailQuery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::desk::Desk;
use super::search::Hit;
use super::shown::{broken, wrong};
use crate::Office;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Only one account, by its name.
    #[schemars(length(min = 1, max = 100))]
    account: Option<String>,
    /// How many drafts, from 1 to 100.
    #[serde(default = "limit_default")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
    /// `next_cursor` of the page before.
    #[schemars(length(min = 1, max = 100))]
    cursor: Option<String>,
}

fn limit_default() -> usize {
    20
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    /// The drafts, newest first.
    drafts: Vec<Hit>,
    /// Set as `cursor` to read on. Absent: this is the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) fn tool(office: &Arc<Office>) -> ToolBuilder {
    let office = Arc::clone(office);
    Tool::function(
        "list_drafts",
        "Lists the drafts in the user's Drafts folders, newest first: id, version, recipients, subject and first words.",
        move |input: Input, context: Context| {
            let desk = Desk::of(&office, &context);
            async move { answer(&desk, &input).await }
        },
    )
    .when_to_use(
        "When the user asks what is unfinished, or wants to change, delete or send a draft: `draft_email` and \
         `send_email` take a draft's id.",
    )
    .example_call("What drafts do I have?", json!({}))
    .example_call("The last draft", json!({ "limit": 1 }))
    .example_call("Drafts of my local account", json!({ "account": "local" }))
    .example_call("Show me the five newest drafts", json!({ "limit": 5 }))
    .integration("mail")
    .category(Category::Query)
    .risk(Risk::Low)
    .read_only()
    .timeout(Duration::from_secs(15))
    .facets([Facet::ReadsUntrusted, Facet::ReadsPrivate])
}

async fn answer(desk: &Desk, input: &Input) -> Result<Output, ToolError> {
    let account = input.account.as_deref().map(|id| desk.account(id)).transpose()?;
    let folders = desk.folders(account.as_deref()).await?;
    let drafts = folders.iter().filter(|row| row.told.role.as_deref() == Some("drafts"));
    let below = input.cursor.as_deref().map(|cursor| {
        let seq = cursor.strip_prefix("d-").and_then(|seq| seq.parse().ok());
        seq.ok_or_else(|| wrong("cursor", "the cursor is not of this list; leave it out"))
    });
    let query = MailQuery {
        collections: drafts.map(|row| row.id).collect(),
        below: below.transpose()?,
        limit: input.limit,
        ..MailQuery::default()
    };
    let hits = desk.db().search_mails(query).await.map_err(broken)?;
    let zone = &desk.office.settings().zone;
    Ok(Output {
        drafts: hits.mails.iter().map(|mail| Hit::new(mail, zone)).collect(),
        next_cursor: hits.next.map(|seq| format!("d-{seq}")),
    })
}
