//! `list_accounts`: what is connected, how fresh it is, and what is missing.

use std::sync::Arc;
use std::time::Duration;

use helve::{Annotations, Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use helve_store::office::{AccountRow, CollectionRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::calendar::fault::broken;
use super::super::calendar::time::asker;
use super::found::{is_mail, moment};
use crate::objects::version_of;
use crate::text::cleaned;
use crate::zones::Zone;
use crate::{Account, Office};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Input {
    /// Only what this account has.
    #[serde(default)]
    #[schemars(length(min = 1, max = 100))]
    account: Option<String>,
    /// The asker's zone, such as `Europe/Berlin`: times are told in it.
    #[serde(default)]
    time_zone: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    /// The accounts that this caller may use.
    accounts: Vec<Shown>,
    /// What no account offers yet, with the command that connects it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Shown {
    /// The account's name, for arguments called `account`.
    id: String,
    /// Which state of it this is: another one after a sync that ended otherwise, or where it offers something else.
    version: String,
    /// How it is reached: `embedded` is on this machine alone.
    kind: String,
    /// Who the user is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Whether mails can be sent from it to other people.
    sends: bool,
    /// Its folders of mails.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    folders: Vec<Collection>,
    /// The calendars that the account holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calendars: Vec<Collection>,
    /// Its task lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    task_lists: Vec<Collection>,
    /// Its address books.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    address_books: Vec<Collection>,
    /// When it was last synced to the end. Absent: never, or there is nothing to sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    synced_at: Option<String>,
    /// Why the last sync failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Collection {
    /// What people call it.
    name: String,
    /// Of folders: what it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    /// Whether it can be written.
    writable: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Missing {
    /// What is missing: `mail`, `calendar`, `tasks` or `contacts` of a real account.
    what: String,
    /// The command with which the user connects it.
    command: String,
}

pub(super) fn tool(office: &Arc<Office>) -> ToolBuilder {
    let shared = Arc::clone(office);
    Tool::function(
        "list_accounts",
        "Lists the user's mail, calendar and contact accounts: what each offers, when it was last synced, what is wrong \
         with it, and what is not connected yet. No secrets are shown.",
        move |input: Input, context: Context| {
            let office = Arc::clone(&shared);
            async move { answer(&office, input, &context).await }
        },
    )
    .when_to_use(
        "When the user asks which accounts are connected or why something is not found, or before you choose an account, \
         a folder or a calendar.",
    )
    .example_call("Which accounts are connected?", json!({}))
    .example_call("Is my work mail up to date?", json!({ "account": "work" }))
    .example_call("Which calendars do I have?", json!({}))
    .example_call("When was mail last synced, in Tokyo time?", json!({ "timeZone": "Asia/Tokyo" }))
    .category(Category::Query)
    .risk(Risk::Low)
    .annotations(Annotations::pure())
    .timeout(Duration::from_secs(10))
    .facets([Facet::ReadsUntrusted, Facet::ReadsPrivate])
}

async fn answer(office: &Office, input: Input, context: &Context) -> Result<Output, ToolError> {
    let asker = asker(office, input.time_zone.as_ref())?;
    let (rows, collections) =
        (office.db().accounts().await.map_err(broken)?, office.db().collections(None).await.map_err(broken)?);
    let accounts = office.accounts_of(context.caller());
    let missing = missing(&accounts, &collections);
    let chosen = accounts.iter().filter(|account| input.account.as_ref().is_none_or(|id| *id == account.id));
    let shown: Vec<_> = chosen
        .map(|account| shown(account, rows.iter().find(|row| row.id == account.id), &collections, &asker))
        .collect();
    if let (true, Some(_)) = (shown.is_empty(), &input.account) {
        let known: Vec<_> = accounts.iter().map(|account| format!("`{}`", account.id)).collect();
        return Err(ToolError::recoverable("NOT_FOUND", "no account of that name is connected")
            .suggest(format!("there is {}", known.join(", ")))
            .nothing_done());
    }
    Ok(Output { accounts: shown, missing })
}

fn shown(account: &Account, row: Option<&AccountRow>, all: &[CollectionRow], asker: &Zone) -> Shown {
    let own = |holds: fn(&CollectionRow) -> bool| -> Vec<Collection> {
        let own = all.iter().filter(|row| row.account == account.id && holds(row));
        own.map(|row| Collection {
            name: cleaned(&row.told.name, 100),
            role: row.told.role.clone(),
            writable: row.told.writable,
        })
        .collect()
    };
    let shown = Shown {
        id: account.id.clone(),
        version: String::new(),
        kind: account.kind.clone(),
        address: account.person.as_ref().map(|person| person.address().as_str().to_owned()),
        sends: account.submit.is_some() && account.kind != "embedded",
        folders: own(is_mail),
        calendars: own(|row| row.told.events),
        task_lists: own(|row| row.told.tasks),
        address_books: own(|row| row.told.contacts),
        synced_at: row.and_then(|row| row.synced_at).map(|at| moment(at, asker)),
        trouble: row.and_then(|row| row.trouble.as_deref()).map(|trouble| cleaned(trouble, 500)),
    };
    let version = serde_json::to_vec(&shown).map(|bytes| version_of(&bytes)).unwrap_or_default();
    Shown { version, ..shown }
}

/// What no account but the one on this machine offers.
fn missing(accounts: &[Arc<Account>], collections: &[CollectionRow]) -> Vec<Missing> {
    let real: Vec<_> = accounts.iter().filter(|account| account.kind != "embedded").collect();
    let has = |holds: fn(&CollectionRow) -> bool| {
        collections.iter().any(|row| holds(row) && real.iter().any(|account| account.id == row.account))
    };
    let all = [
        ("mail", real.iter().any(|account| account.submit.is_some()), "helve connect mail"),
        ("calendar", has(|row| row.told.events), "helve connect calendar"),
        ("tasks", has(|row| row.told.tasks), "helve connect calendar"),
        ("contacts", has(|row| row.told.contacts), "helve connect contacts"),
    ];
    let missing = all.into_iter().filter(|(_, has, _)| !has);
    missing.map(|(what, _, command)| Missing { what: what.to_owned(), command: command.to_owned() }).collect()
}
