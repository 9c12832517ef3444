//! Sending a mail once.
//!
//! The bytes are composed once and stored with their envelope, under the key of the call, before a server hears of them.
//! From then on the row alone says what to do: `stored` and `refused` may be handed over, by the process that takes the row to
//! `sending` first; in every other state the question is only whether it happened. INVARIANT: a row in `sending` or
//! `unknown` is never handed over again.

use std::sync::Arc;

use bytes::Bytes;
use helve::json::sha256_hex;
use helve::run::Recalled;
use helve::{Context, ErrorCode, ToolError};
use helve_store::office::{MailRow, NewOutboxRow, OutboxRow, OutboxState};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::desk::{Desk, store};
use super::plan::Plan;
use super::shown::{broken, id_of, version_of};
use crate::Account;
use crate::account::{Envelope, Flags, FolderRole, Submit, Submitted};
use crate::embedded::EmbeddedOutbox;
use crate::mail::{Mail, compose};
use crate::text::{Address, MessageId};

/// What became of a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// The account's server took it for everybody.
    Sent,
    /// No account is connected: it is in the local Sent folder, and nobody received it.
    NotDelivered,
}

/// A mail that was sent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(super) struct Sent {
    /// Whether it left this machine.
    pub(super) status: Status,
    /// Its Message-ID, by which it can be found.
    pub(super) message_id: String,
    /// The account it was sent from.
    pub(super) account: String,
    /// The address it was sent from.
    pub(super) from: String,
    /// Everybody whom it went to, cc and bcc included.
    pub(super) recipients: Vec<String>,
    /// What it is about.
    pub(super) subject: String,
    /// SHA-256 of the message as it went out.
    pub(super) sha256: String,
    /// The id of the copy in the Sent folder, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<String>,
    /// Which state of it that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) copy_version: Option<String>,
    /// What the caller should know besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) remarks: Vec<String>,
}

/// The draft that a mail was made of, as a row keeps it.
#[derive(Serialize, Deserialize)]
struct DraftOf {
    number: i64,
}

/// The key of a call: the caller's own, else the call's id, which is the same again after a crash.
pub(super) fn key_of(context: &Context) -> (String, String) {
    let principal = context.caller().principal.clone().unwrap_or_default();
    (principal, context.idempotency_key().map_or_else(|| context.call_id().to_string(), str::to_owned))
}

/// The mail that an earlier attempt under the same key has stored.
pub(super) async fn stored(desk: &Desk, context: &Context) -> Result<Option<OutboxRow>, ToolError> {
    let (principal, key) = key_of(context);
    desk.db().outgoing(&principal, &key).await.map_err(broken)
}

/// Whether a stored mail has not gone out, and may.
pub(super) fn may_go_out(row: &OutboxRow) -> bool {
    matches!(row.state, OutboxState::Stored | OutboxState::Refused)
}

/// A key stands for one mail: a request for another under it would send the former one.
pub(super) fn check_same(row: &OutboxRow, plan: &Plan) -> Result<(), ToolError> {
    if row.mail.fingerprint == plan.fingerprint() {
        return Ok(());
    }
    Err(ToolError::unrecoverable(
        "KEY_OF_ANOTHER_MAIL",
        "this key belongs to another mail that did not go out; use a new key",
    )
    .suggest("call again with another idempotency key, or with the former mail exactly as it was")
    .nothing_done())
}

/// Composes a mail and stores it. Nothing has been sent then.
pub(super) async fn store_plan(desk: &Desk, plan: &Plan, context: &Context) -> Result<OutboxRow, ToolError> {
    let now = Timestamp::now();
    let letter = plan.letter(now)?;
    let composed = compose(&letter).map_err(|error| {
        ToolError::unrecoverable("NOT_COMPOSED", error.to_string()).nothing_done().with_source(error)
    })?;
    let (principal, key) = key_of(context);
    let draft = plan.base.as_ref().map(|base| DraftOf { number: base.row.id });
    let row = NewOutboxRow {
        principal,
        key,
        account: plan.account.id.clone(),
        message_id: letter.message_id.as_str().to_owned(),
        fingerprint: plan.fingerprint(),
        digest: sha256_hex(&composed.bytes),
        sender: composed.sender.as_str().to_owned(),
        recipients: composed.recipients.iter().map(|address| address.as_str().to_owned()).collect(),
        bytes: composed.bytes,
        draft: draft.and_then(|draft| serde_json::to_string(&draft).ok()),
    };
    desk.db().store_outgoing(row, now).await.map_err(|error| broken(error).nothing_done())
}

/// Brings a stored mail to its end, from wherever it is.
pub(super) async fn bring(desk: &Desk, row: &OutboxRow) -> Result<Sent, ToolError> {
    match row.state {
        OutboxState::Sent => finish(desk, row).await,
        OutboxState::Stored | OutboxState::Refused => hand_over(desk, row).await,
        OutboxState::Sending | OutboxState::Unknown => match look_for(desk, row).await {
            Seen::There => finish(desk, row).await,
            Seen::NotThere | Seen::CannotTell => Err(unknown(row)),
        },
    }
}

/// What is known of a mail whose call was cut short.
pub(super) async fn recall(desk: &Desk, context: &Context) -> Result<Recalled, ToolError> {
    let Some(row) = stored(desk, context).await? else { return Ok(Recalled::WillNotHappen) };
    let sent = match row.state {
        OutboxState::Stored | OutboxState::Refused => return Ok(Recalled::WillNotHappen),
        OutboxState::Sent => finish(desk, &row).await?,
        OutboxState::Sending | OutboxState::Unknown => match look_for(desk, &row).await {
            Seen::There => finish(desk, &row).await?,
            // That it is in no folder says little: most servers keep no copy by themselves.
            Seen::NotThere | Seen::CannotTell => return Err(unknown(&row)),
        },
    };
    let answer = serde_json::to_value(sent)
        .map_err(|error| ToolError::failed("the answer was lost").with_source(error))?;
    Ok(Recalled::Happened(answer))
}

async fn hand_over(desk: &Desk, row: &OutboxRow) -> Result<Sent, ToolError> {
    let account = desk.account(&row.mail.account)?;
    let Some(submit) = &account.submit else {
        let message = format!("the account `{}` cannot send mails", account.id);
        return Err(ToolError::new(ErrorCode::IntegrationMissing, message)
            .suggest("ask the user to run `helve connect mail` again")
            .nothing_done());
    };
    let envelope = envelope(row)?;
    // In a separate task: from here on the mail may go out although its call no longer waits, and the task still writes down
    // what became of it.
    let (desk, row, submit) = (desk.clone(), row.clone(), Arc::clone(submit));
    let in_doubt = unknown(&row);
    let (caller, waits) = oneshot::channel::<()>();
    let delivery = tokio::spawn(async move {
        let taken = desk.db().begin_sending(row.id, Timestamp::now()).await;
        if !taken.map_err(|error| broken(error).nothing_done())? {
            return Err(unknown(&row));
        }
        if caller.is_closed() {
            let why = "the call's time was up before the mail was handed over";
            note(&desk, &row, OutboxState::Refused, why.to_owned(), None).await?;
            return Err(refusal(why, true, &[]));
        }
        deliver(&desk, &row, &*submit, &envelope).await
    });
    let ended = delivery.await.unwrap_or_else(|broken| Err(in_doubt.with_source(broken)));
    drop(waits);
    ended
}

/// Hands a mail over, and writes down what came of it.
async fn deliver(
    desk: &Desk,
    row: &OutboxRow,
    submit: &dyn Submit,
    envelope: &Envelope,
) -> Result<Sent, ToolError> {
    let submitted = submit.submit(envelope, Bytes::from(row.mail.bytes.clone())).await;
    match submitted {
        Submitted::Accepted(said) => {
            note(desk, row, OutboxState::Sent, said, None).await?;
            finish(desk, row).await
        }
        Submitted::Refused { why, temporary, recipients } => {
            note(desk, row, OutboxState::Refused, why.clone(), None).await?;
            Err(refusal(&why, temporary, &recipients))
        }
        Submitted::Unknown(why) => {
            note(desk, row, OutboxState::Unknown, why, None).await?;
            match look_for(desk, row).await {
                Seen::There => finish(desk, row).await,
                Seen::NotThere | Seen::CannotTell => Err(unknown(row)),
            }
        }
    }
}

fn envelope(row: &OutboxRow) -> Result<Envelope, ToolError> {
    let read = |text: &String| Address::new(text);
    let from = Address::new(&row.mail.sender);
    let to = row.mail.recipients.iter().map(read).collect::<Result<Vec<_>, _>>();
    match (from, to) {
        (Ok(from), Ok(to)) => Ok(Envelope { from, to }),
        _ => Err(ToolError::unrecoverable("BAD_ENVELOPE", "the stored mail has an address that is none")
            .nothing_done()),
    }
}

/// Writes down what is known. A mail whose end cannot be written down is in doubt, whatever the server said.
async fn note(
    desk: &Desk,
    row: &OutboxRow,
    state: OutboxState,
    said: String,
    answer: Option<String>,
) -> Result<(), ToolError> {
    let noted = desk.db().end_sending(row.id, state, said, answer, Timestamp::now()).await;
    noted.map_err(|error| unknown(row).with_source(error))
}

/// What comes after the server has taken a mail: a copy in Sent, the draft gone, the answer. None of it can make the
/// send fail.
async fn finish(desk: &Desk, row: &OutboxRow) -> Result<Sent, ToolError> {
    if let Some(known) = row.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok()) {
        return Ok(known);
    }
    let mut remarks = Vec::new();
    let account = desk.account(&row.mail.account).ok();
    let copy = match &account {
        Some(account) => file_copy(desk, account, row, &mut remarks).await,
        None => None,
    };
    if let Some(account) = &account {
        drop_draft(desk, account, row, &mut remarks).await;
    }
    let is_local = account.as_ref().is_some_and(|account| account.kind == "embedded");
    if is_local {
        remarks.insert(0, EmbeddedOutbox::NOTE.to_owned());
    }
    let subject = Mail::read(&row.mail.bytes).map(|mail| mail.subject).unwrap_or_default();
    let sent = Sent {
        status: if is_local { Status::NotDelivered } else { Status::Sent },
        message_id: row.mail.message_id.clone(),
        account: row.mail.account.clone(),
        from: row.mail.sender.clone(),
        recipients: row.mail.recipients.clone(),
        subject,
        sha256: row.mail.digest.clone(),
        copy: copy.as_ref().map(id_of),
        copy_version: copy.as_ref().map(version_of),
        remarks,
    };
    let answer = serde_json::to_string(&sent).ok();
    // That it was sent is on disk already; without the answer it is made anew when asked for.
    let noted = note(desk, row, OutboxState::Sent, String::new(), answer).await;
    if noted.is_ok() && sent.copy.is_some() {
        // The copy is there: a second one here helps nobody.
        let _ = desk.db().forget_bytes(row.id).await;
    }
    Ok(sent)
}

async fn file_copy(
    desk: &Desk,
    account: &Account,
    row: &OutboxRow,
    remarks: &mut Vec<String>,
) -> Option<MailRow> {
    let id = MessageId::new(&row.mail.message_id).ok()?;
    match try_file_copy(desk, account, row, &id).await {
        Ok(copy) => copy,
        Err(error) => {
            let why = error.message();
            remarks.push(format!("the mail was sent; its copy could not be put into the Sent folder: {why}"));
            None
        }
    }
}

async fn try_file_copy(
    desk: &Desk,
    account: &Account,
    row: &OutboxRow,
    id: &MessageId,
) -> Result<Option<MailRow>, ToolError> {
    let folder = desk.folder(account, FolderRole::Sent).await?;
    let bytes = Bytes::from(row.mail.bytes.clone());
    let flags = Flags { seen: true, ..Flags::default() };
    let there = store(account)?.find(&folder.told.href, id).await.map_err(|fault| fault.for_model())?;
    match there.into_iter().next() {
        Some(key) => desk.take_in(account, &folder, key, bytes, flags).await,
        None if account.submit.as_ref().is_some_and(|submit| submit.keeps_copy()) => Ok(None),
        None => desk.add(account, FolderRole::Sent, bytes, flags, id).await,
    }
}

/// The draft has become the mail.
async fn drop_draft(desk: &Desk, account: &Account, row: &OutboxRow, remarks: &mut Vec<String>) {
    let draft = row.mail.draft.as_deref().and_then(|draft| serde_json::from_str::<DraftOf>(draft).ok());
    let Some(draft) = draft else { return };
    let removed = match desk.db().mail(draft.number).await.map_err(broken) {
        Ok(Some(known)) if known.account == account.id => desk.remove(account, &known).await,
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        let why = error.message();
        remarks.push(format!("the mail was sent; the draft it was made of could not be removed: {why}"));
    }
}

/// Whether a mail is in the Sent folder, or in the inbox of its own sender.
enum Seen {
    There,
    NotThere,
    CannotTell,
}

async fn look_for(desk: &Desk, row: &OutboxRow) -> Seen {
    let (Ok(account), Ok(id)) = (desk.account(&row.mail.account), MessageId::new(&row.mail.message_id))
    else {
        return Seen::CannotTell;
    };
    let mut seen = Seen::NotThere;
    for role in [FolderRole::Sent, FolderRole::Inbox] {
        let (Ok(folder), Ok(store)) = (desk.folder(&account, role).await, store(&account)) else {
            seen = Seen::CannotTell;
            continue;
        };
        match store.find(&folder.told.href, &id).await {
            Ok(keys) if !keys.is_empty() => {
                let said = format!("found in {}", folder.told.name);
                let noted = note(desk, row, OutboxState::Sent, said, None).await;
                return if noted.is_ok() { Seen::There } else { Seen::CannotTell };
            }
            Ok(_) => {}
            Err(_) => seen = Seen::CannotTell,
        }
    }
    seen
}

/// A refusal is known: nobody got the mail.
fn refusal(why: &str, temporary: bool, recipients: &[Address]) -> ToolError {
    let named = match recipients {
        [] => String::new(),
        some => {
            let list = some.iter().take(5).map(Address::to_string).collect::<Vec<_>>();
            format!(" ({})", list.join(", "))
        }
    };
    let message = format!("the mail server refused the mail{named}, and nobody got it: {why}");
    match temporary {
        true => ToolError::recoverable("REFUSED_FOR_NOW", message).nothing_done(),
        false => ToolError::unrecoverable("REFUSED", message).nothing_done(),
    }
}

/// Nobody knows, and nobody may send it again.
fn unknown(row: &OutboxRow) -> ToolError {
    let message = format!(
        "the mail was handed over and the server's answer was lost: it may have been sent, or not (Message-ID {})",
        row.mail.message_id
    );
    ToolError::new(ErrorCode::OutcomeUnknown, message)
        .in_doubt()
        .suggest("do not send it again; tell the user that it is not known whether it went out")
        .suggest("look for it with `search_emails` in the folder `sent` in a few minutes, or ask a recipient")
        .suggest(
            "this call never sends it a second time, whatever is said of it; should the user find that nobody got the \
             mail, send it by a new call with another idempotency key",
        )
}
