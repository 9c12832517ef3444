//! Mailboxes, and messages read, put and taken away.

use bytes::Bytes;
use helve_core::hidden::one_line;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::account::JmapAccount;
use super::blob::{download, upload};
use super::call::{CallFault, word};
use super::session::is_id;
use crate::account::{Fault, Flags, Folder, FolderRole};
use crate::text::MessageId;

/// Most mailboxes that an account has.
const FOLDERS_MAX: usize = 5000;
/// How many of the newest messages are looked at by themselves: an index lags behind.
const NEWEST: usize = 50;

/// A message without its content.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Email {
    pub(super) id: String,
    #[serde(default)]
    pub(super) blob_id: String,
    #[serde(default)]
    pub(super) size: u64,
    #[serde(default)]
    pub(super) received_at: Option<String>,
    #[serde(default)]
    pub(super) keywords: Map<String, Value>,
    #[serde(default)]
    pub(super) mailbox_ids: Map<String, Value>,
    #[serde(default)]
    message_id: Option<Vec<String>>,
}

impl Email {
    pub(super) fn is_in(&self, mailbox: &str) -> bool {
        self.mailbox_ids.get(mailbox).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn flags(&self) -> Flags {
        let has = |keyword: &str| self.keywords.get(keyword).and_then(Value::as_bool).unwrap_or(false);
        Flags {
            seen: has("$seen"),
            answered: has("$answered"),
            flagged: has("$flagged"),
            draft: has("$draft"),
        }
    }

    pub(super) fn received(&self) -> Timestamp {
        let at = self.received_at.as_deref().and_then(|text| text.parse().ok());
        at.unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Messages by id, without their content, and the state that they are of.
pub(super) async fn get(
    account: &JmapAccount,
    ids: &[String],
    properties: &[&str],
) -> Result<(Vec<Email>, String), Fault> {
    let at_once = account.session().await?.limits.max_objects_in_get.clamp(1, 500);
    let (mut emails, mut state) = (Vec::new(), None);
    // Nothing asked for still gives a state.
    let chunks: Vec<&[String]> = if ids.is_empty() { vec![ids] } else { ids.chunks(at_once).collect() };
    for ids in chunks {
        let asked = account.read("Email/get", json!({ "ids": ids, "properties": properties })).await;
        let mut answer = asked.map_err(|fault| fault.into_fault(account.server.host(), "show messages"))?;
        let of = answer.get("state").and_then(Value::as_str).map(str::to_owned);
        // The oldest: what changed between two calls is found from it on.
        state = state.or(of);
        let list: Vec<Email> = serde_json::from_value(answer["list"].take())
            .map_err(|_| account.nonsense("describes messages in a way that is no JMAP"))?;
        emails.extend(list.into_iter().filter(|email| is_id(&email.id)).take(ids.len()));
    }
    Ok((emails, state.ok_or_else(|| account.nonsense("gives messages without a state"))?))
}

/// Reads all mailboxes, with what each is for.
pub(super) async fn folders(account: &JmapAccount) -> Result<Vec<Folder>, Fault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Mailbox {
        id: String,
        name: String,
        parent_id: Option<String>,
        role: Option<String>,
    }
    let arguments = json!({ "properties": ["id", "name", "parentId", "role"] });
    let asked = account.read("Mailbox/get", arguments).await;
    let mut answer = asked.map_err(|fault| fault.into_fault(account.server.host(), "list folders"))?;
    let mut list: Vec<Mailbox> = serde_json::from_value(answer["list"].take())
        .map_err(|_| account.nonsense("describes folders in a way that is no JMAP"))?;
    list.retain(|mailbox| is_id(&mailbox.id));
    list.truncate(FOLDERS_MAX);
    let by_id: std::collections::HashMap<&str, &Mailbox> =
        list.iter().map(|mailbox| (mailbox.id.as_str(), mailbox)).collect();
    let full_name = |mailbox: &Mailbox| {
        let (mut parts, mut parent) = (vec![one_line(&mailbox.name, 200)], mailbox.parent_id.as_deref());
        // A server may say that two contain each other.
        while let Some(above) = parent.and_then(|id| by_id.get(id)).filter(|_| parts.len() < 10) {
            parts.push(one_line(&above.name, 200));
            parent = above.parent_id.as_deref();
        }
        parts.reverse();
        parts.join("/")
    };
    Ok(list
        .iter()
        .map(|mailbox| Folder {
            path: mailbox.id.clone(),
            name: full_name(mailbox),
            role: mailbox.role.as_deref().and_then(role),
        })
        .collect())
}

fn role(word: &str) -> Option<FolderRole> {
    FolderRole::ALL.into_iter().find(|role| role.as_str() == word)
}

/// The mailbox that has a role.
pub(super) async fn with_role(account: &JmapAccount, role: FolderRole) -> Result<Option<String>, Fault> {
    let folders = folders(account).await?;
    Ok(folders.into_iter().find(|folder| folder.role == Some(role)).map(|folder| folder.path))
}

/// One message without its content, where it is in the mailbox.
async fn get_one(account: &JmapAccount, mailbox: &str, id: &str) -> Result<Option<Email>, Fault> {
    let (emails, _) = get(account, &[id.to_owned()], &["id", "blobId", "size", "mailboxIds"]).await?;
    Ok(emails.into_iter().find(|email| email.id == id && email.is_in(mailbox)))
}

/// One whole message.
pub(super) async fn fetch(
    account: &JmapAccount,
    mailbox: &str,
    id: &str,
    bytes_max: usize,
) -> Result<Bytes, Fault> {
    let email = get_one(account, mailbox, id).await?;
    let email = email.ok_or_else(|| Fault::Gone("the message is no longer in that folder".to_owned()))?;
    let too_long =
        |size: u64| Fault::Refused(format!("the message has {size} bytes; the limit is {bytes_max}"));
    if email.size > bytes_max as u64 {
        return Err(too_long(email.size));
    }
    // One more, to see whether the server told the truth.
    let bytes =
        download(&account.server, &*account.session().await?, &email.blob_id, bytes_max.saturating_add(1))
            .await?;
    if bytes.len() > bytes_max { Err(too_long(bytes.len() as u64)) } else { Ok(bytes) }
}

/// Puts a message into a mailbox, and gives its id. A mail that was sent by JMAP is among the sent ones already, and
/// does not get there twice.
pub(super) async fn append(
    account: &JmapAccount,
    mailbox: &str,
    message: Bytes,
    flags: Flags,
) -> Result<String, Fault> {
    if with_role(account, FolderRole::Sent).await?.as_deref() == Some(mailbox)
        && let Some(id) = message_id(&message)
        && let Some(found) = find(account, mailbox, &id).await?.into_iter().next()
    {
        return Ok(found);
    }
    Ok(import(account, mailbox, message, flags).await?.id().to_owned())
}

fn message_id(message: &[u8]) -> Option<MessageId> {
    let headers = mail_parser::MessageParser::default().parse_headers(message)?;
    MessageId::new(headers.message_id()?).ok()
}

/// Where an imported message is.
#[derive(Debug)]
pub(super) enum Imported {
    New(String),
    /// The server has the very same message, and gave it this mailbox as well.
    Before(String),
}

impl Imported {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::New(id) | Self::Before(id) => id,
        }
    }
}

pub(super) async fn import(
    account: &JmapAccount,
    mailbox: &str,
    message: Bytes,
    flags: Flags,
) -> Result<Imported, Fault> {
    let blob = upload(&account.server, &*account.session().await?, message).await?;
    let email = json!({ "blobId": blob, "mailboxIds": { mailbox: true }, "keywords": keywords(flags) });
    let asked = account.change("Email/import", json!({ "emails": { "m": email } })).await;
    let answer = asked.map_err(|fault| fault.into_fault(account.server.host(), "take the message"))?;
    if let Some(id) = answer.pointer("/created/m/id").and_then(Value::as_str).filter(|id| is_id(id)) {
        return Ok(Imported::New(id.to_owned()));
    }
    match answer.pointer("/notCreated/m/existingId").and_then(Value::as_str).filter(|id| is_id(id)) {
        Some(id) => {
            let mut patch = Map::from_iter([(format!("mailboxIds/{mailbox}"), Value::Bool(true))]);
            patch
                .extend(keywords(flags).into_iter().map(|(keyword, on)| (format!("keywords/{keyword}"), on)));
            set(account, json!({ "update": { id: patch } }), &format!("/notUpdated/{id}")).await?;
            Ok(Imported::Before(id.to_owned()))
        }
        None => Err(not_done(account, &answer, "/notCreated/m", "take the message")),
    }
}

/// Takes a message out of a mailbox; for good where it is in no other.
pub(super) async fn remove(account: &JmapAccount, mailbox: &str, id: &str) -> Result<(), Fault> {
    let Some(email) = get_one(account, mailbox, id).await? else { return Ok(()) };
    let others =
        email.mailbox_ids.iter().filter(|(other, on)| *other != mailbox && **on == Value::Bool(true)).count();
    let done = match others {
        0 => set(account, json!({ "destroy": [id] }), &format!("/notDestroyed/{id}")).await,
        _ => {
            let patch = Map::from_iter([(format!("mailboxIds/{mailbox}"), Value::Null)]);
            set(account, json!({ "update": { id: patch } }), &format!("/notUpdated/{id}")).await
        }
    };
    match done {
        Err(Fault::Gone(_)) => Ok(()),
        done => done,
    }
}

/// Changes messages; `failed` is where the answer says that it did not.
pub(super) async fn set(account: &JmapAccount, arguments: Value, failed: &str) -> Result<(), Fault> {
    let asked = account.change("Email/set", arguments).await;
    let answer = asked.map_err(|fault| fault.into_fault(account.server.host(), "change the message"))?;
    match answer.pointer(failed).is_some_and(|error| !error.is_null()) {
        true => Err(not_done(account, &answer, failed, "change the message")),
        false => Ok(()),
    }
}

fn not_done(account: &JmapAccount, answer: &Value, at: &str, doing: &str) -> Fault {
    let kind = answer.pointer(at).and_then(|error| error.get("type")).and_then(Value::as_str);
    let kind = kind.map_or_else(|| "no reason given".to_owned(), word);
    CallFault::Said(kind).into_fault(account.server.host(), doing)
}

/// The messages of a mailbox that have a Message-ID: those that the server's search finds, and the newest ones, which
/// it may not have come to yet.
pub(super) async fn find(account: &JmapAccount, mailbox: &str, id: &MessageId) -> Result<Vec<String>, Fault> {
    let bare = id.as_str().trim_start_matches('<').trim_end_matches('>');
    let newest_first = json!([{ "property": "receivedAt", "isAscending": false }]);
    let found =
        json!({ "filter": { "inMailbox": mailbox, "header": ["Message-ID", bare] }, "limit": NEWEST });
    let newest = json!({ "filter": { "inMailbox": mailbox }, "sort": newest_first, "limit": NEWEST });
    let mut ids: Vec<String> = Vec::new();
    for query in [found, newest] {
        let asked = account.read("Email/query", query).await;
        let answer = asked.map_err(|fault| fault.into_fault(account.server.host(), "search"))?;
        ids.extend(ids_of(&answer, "ids"));
    }
    ids.sort_unstable();
    ids.dedup();
    let (emails, _) = get(account, &ids, &["id", "messageId", "mailboxIds"]).await?;
    // A search for a header finds parts of it, too.
    let has =
        |email: &Email| email.message_id.iter().flatten().any(|known| known == bare) && email.is_in(mailbox);
    Ok(emails.into_iter().filter(has).map(|email| email.id).collect())
}

/// The ids in an answer, as far as they are such.
pub(super) fn ids_of(answer: &Value, name: &str) -> Vec<String> {
    let ids = answer.get(name).and_then(Value::as_array).into_iter().flatten();
    ids.filter_map(Value::as_str).filter(|id| is_id(id)).map(str::to_owned).collect()
}

fn keywords(flags: Flags) -> Map<String, Value> {
    let all = [
        ("$seen", flags.seen),
        ("$answered", flags.answered),
        ("$flagged", flags.flagged),
        ("$draft", flags.draft),
    ];
    all.into_iter().filter(|(_, on)| *on).map(|(keyword, on)| (keyword.to_owned(), Value::Bool(on))).collect()
}
