//! What changed in a mailbox.
//!
//! A first look goes from the newest message to the oldest, each page behind the last message of the one before, so
//! that nothing is skipped while messages come and go. The state is taken before the first page: what changes during
//! the look is found from there on. JMAP says what changed in the whole account; what concerns the mailbox is picked
//! from that.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account::JmapAccount;
use super::blob::download;
use super::call::CallFault;
use super::mails::{Email, get, ids_of};
use crate::account::{Fault, MailChanges, NewMail};

/// How many messages a page has.
const PAGE_MAX: usize = 100;
/// How much of a long message is kept.
const BEGINNING_BYTES: usize = 256 << 10;
/// How many messages come at the same time.
const SIDE_BY_SIDE_MAX: usize = 4;

const ABOUT: [&str; 6] = ["id", "blobId", "size", "receivedAt", "keywords", "mailboxIds"];

/// How far a mailbox was read. Opaque to everybody else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Everything up to a state was read.
    Since(String),
    /// A first look is on its way.
    First {
        /// The state from before its first page.
        state: String,
        /// The last message that was handed out.
        after: String,
    },
}

/// One page of what changed.
pub(super) async fn changes(
    account: &JmapAccount,
    mailbox: &str,
    since: Option<&str>,
) -> Result<MailChanges, Fault> {
    match since.and_then(|text| serde_json::from_str(text).ok()) {
        Some(State::Since(state)) => later(account, mailbox, &state).await,
        Some(State::First { state, after }) => first(account, mailbox, Some((state, after)), false).await,
        None => first(account, mailbox, None, since.is_some()).await,
    }
}

/// A page of a first look.
async fn first(
    account: &JmapAccount,
    mailbox: &str,
    going: Option<(String, String)>,
    reset: bool,
) -> Result<MailChanges, Fault> {
    let (state, after) = match going {
        Some((state, after)) => (state, Some(after)),
        None => {
            account.forget(mailbox, None);
            (get(account, &[], &["id"]).await?.1, None)
        }
    };
    let mut query = json!({
        "filter": { "inMailbox": mailbox },
        "sort": [{ "property": "receivedAt", "isAscending": false }],
        "limit": PAGE_MAX,
        "calculateTotal": true,
    });
    if let Some(after) = &after {
        query["anchor"] = Value::from(after.as_str());
        query["anchorOffset"] = Value::from(1);
    }
    let answer = match account.read("Email/query", query).await {
        // The message to go on from is gone. What was handed out comes again, which does no harm.
        Err(CallFault::Said(kind)) if kind == "anchorNotFound" && after.is_some() => {
            return Box::pin(first(account, mailbox, None, true)).await;
        }
        answer => answer.map_err(|fault| fault.into_fault(account.server.host(), "list messages"))?,
    };
    let mut ids = ids_of(&answer, "ids");
    ids.truncate(PAGE_MAX);
    let (emails, _) = get(account, &ids, &ABOUT).await?;
    let new =
        with_content(account, mailbox, emails.into_iter().filter(|email| email.is_in(mailbox)).collect())
            .await?;
    // A server may give fewer than it was asked for; only an empty page is the last.
    let last = ids.last().filter(|last| Some(*last) != after.as_ref());
    let next = match last {
        Some(last) => State::First { state, after: last.clone() },
        None => State::Since(state),
    };
    let total = answer.get("total").and_then(Value::as_u64);
    Ok(MailChanges { reset, new, state: text(&next), more: true, total, ..MailChanges::default() })
}

/// A page of what changed since a state.
async fn later(account: &JmapAccount, mailbox: &str, since: &str) -> Result<MailChanges, Fault> {
    let arguments = json!({ "sinceState": since, "maxChanges": PAGE_MAX });
    let answer = match account.read("Email/changes", arguments).await {
        // Servers name a void state in several ways; a whole look is right after each of them.
        Err(CallFault::Said(kind))
            if matches!(kind.as_str(), "cannotCalculateChanges" | "invalidArguments") =>
        {
            return first(account, mailbox, None, true).await;
        }
        answer => answer.map_err(|fault| fault.into_fault(account.server.host(), "say what changed"))?,
    };
    let new_state = answer.get("newState").and_then(Value::as_str).filter(|state| state.len() <= 1024);
    let new_state = new_state.ok_or_else(|| account.nonsense("says what changed, and not until when"))?;
    let more = answer.get("hasMoreChanges").and_then(Value::as_bool).unwrap_or(false);
    if more && new_state == since {
        return Err(account.nonsense("says that there is more, and always the same"));
    }
    let mut ids = ids_of(&answer, "created");
    ids.extend(ids_of(&answer, "updated"));
    let mut gone = ids_of(&answer, "destroyed");
    let (emails, _) = get(account, &ids, &ABOUT).await?;
    let (inside, outside): (Vec<Email>, Vec<Email>) =
        emails.into_iter().partition(|email| email.is_in(mailbox));
    gone.extend(outside.into_iter().map(|email| email.id));
    for id in &gone {
        account.forget(mailbox, Some(id));
    }
    let (known, unknown): (Vec<Email>, Vec<Email>) =
        inside.into_iter().partition(|email| account.is_known(mailbox, &email.id));
    let flags = known.into_iter().map(|email| (email.id.clone(), email.flags())).collect();
    let new = with_content(account, mailbox, unknown).await?;
    let state = text(&State::Since(new_state.to_owned()));
    Ok(MailChanges { reset: false, new, flags, gone, state, more, total: None })
}

/// Messages with their content, or the beginning of it. One that went meanwhile is left out.
async fn with_content(
    account: &JmapAccount,
    mailbox: &str,
    emails: Vec<Email>,
) -> Result<Vec<NewMail>, Fault> {
    let session = account.session().await?;
    let side_by_side = session.limits.max_concurrent_requests.clamp(1, SIDE_BY_SIDE_MAX);
    let session = &*session;
    let mails = stream::iter(emails.into_iter().map(|email| async move {
        match download(&account.server, session, &email.blob_id, BEGINNING_BYTES).await {
            Err(Fault::Gone(_)) => Ok(None),
            bytes => bytes.map(|bytes| Some((email, bytes))),
        }
    }));
    let mails: Vec<Option<(Email, bytes::Bytes)>> = mails.buffered(side_by_side).try_collect().await?;
    let new = mails.into_iter().flatten().map(|(email, bytes)| {
        account.learn(mailbox, &email.id);
        NewMail { flags: email.flags(), received: email.received(), size: email.size, bytes, key: email.id }
    });
    Ok(new.collect())
}

fn text(state: &State) -> String {
    serde_json::to_string(state).expect("strings can be written")
}
