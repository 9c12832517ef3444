//! Sending by JMAP.
//!
//! The server sends what is in the account. So the message goes into the drafts first, and with the submission, in
//! one step on the server, from there to the sent mails: finding it there means that it was sent, also after
//! the reply was lost.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::account::JmapAccount;
use super::call::{CallFault, word};
use super::mails::{Imported, import, set, with_role};
use super::session::is_id;
use crate::account::{Envelope, Fault, Flags, FolderRole, Submitted};
use crate::text::Address;

/// Errors by which a server refuses a submission before it hands the mail on (RFC 8620 3.6.2 and 5.3, RFC 8621 7.5), and
/// would refuse it again.
const NEVER: [&str; 19] = [
    "accountNotFound",
    "accountNotSupportedByMethod",
    "accountReadOnly",
    "forbidden",
    "forbiddenFrom",
    "forbiddenMailFrom",
    "forbiddenToSend",
    "invalidArguments",
    "invalidEmail",
    "invalidProperties",
    "invalidRecipients",
    "invalidResultReference",
    "noRecipients",
    "notFound",
    "requestTooLarge",
    "tooLarge",
    "tooManyRecipients",
    "unknownCapability",
    "unknownMethod",
];

/// The same of those that may not last.
const LATER: [&str; 4] = ["overQuota", "rateLimit", "serverUnavailable", "stateMismatch"];

/// What is needed before anything is sent.
struct Ready {
    identity: String,
    drafts: String,
    sent: Option<String>,
    email: Imported,
}

pub(super) async fn submit(account: &JmapAccount, envelope: &Envelope, message: Bytes) -> Submitted {
    let ready = match prepare(account, envelope, message).await {
        Ok(ready) => ready,
        // Nothing was handed over yet, whatever went wrong.
        Err(fault) => return not_sent(&fault),
    };
    let asked = account.change("EmailSubmission/set", submission(envelope, &ready)).await;
    let submitted = match asked {
        Ok(answer) => read(account, envelope, &answer),
        Err(CallFault::Said(kind)) => said(account, &kind, Vec::new()),
        Err(CallFault::Fault(Fault::Unknown(text) | Fault::Nonsense(text))) => Submitted::Unknown(text),
        Err(CallFault::Fault(fault)) => not_sent(&fault),
    };
    if let (Submitted::Refused { .. }, Imported::New(id)) = (&submitted, &ready.email) {
        // Nobody gets it, so nothing of it stays among the drafts. That it does is no trouble.
        let _ = set(account, json!({ "destroy": [id] }), "/notDestroyed").await;
    }
    submitted
}

async fn prepare(account: &JmapAccount, envelope: &Envelope, message: Bytes) -> Result<Ready, Fault> {
    if !account.session().await?.submits {
        return Err(Fault::Refused(format!("`{}` does not send mails by JMAP", account.server.host())));
    }
    let identity = identity(account, &envelope.from).await?;
    let drafts = with_role(account, FolderRole::Drafts).await?;
    let drafts = drafts.ok_or_else(|| Fault::Refused("the account has no folder for drafts".to_owned()))?;
    let sent = with_role(account, FolderRole::Sent).await?;
    let flags = Flags { seen: true, draft: true, ..Flags::default() };
    let email = import(account, &drafts, message, flags).await?;
    Ok(Ready { identity, drafts, sent, email })
}

/// As whom the server sends for this address: by its name, or as a sender that may use any.
async fn identity(account: &JmapAccount, from: &Address) -> Result<String, Fault> {
    let asked = account.read("Identity/get", json!({})).await;
    let answer = asked.map_err(|fault| fault.into_fault(account.server.host(), "say who may send"))?;
    let empty = Vec::new();
    let list = answer.get("list").and_then(Value::as_array).unwrap_or(&empty);
    let email =
        |identity: &Value| identity.get("email").and_then(Value::as_str).unwrap_or_default().to_owned();
    let any = format!("*@{}", from.domain());
    let fits: [&dyn Fn(&str) -> bool; 3] = [
        &|email| email.eq_ignore_ascii_case(from.as_str()),
        &|email| email.eq_ignore_ascii_case(&any),
        // Cyrus has one without an address, which checks nothing.
        &str::is_empty,
    ];
    let found = fits.iter().find_map(|fits| list.iter().find(|identity| fits(&email(identity))));
    let id = found.and_then(|identity| identity.get("id")).and_then(Value::as_str).filter(|id| is_id(id));
    id.map(str::to_owned).ok_or_else(|| {
        Fault::Refused(format!("`{}` does not let the account send as {from}", account.server.host()))
    })
}

fn submission(envelope: &Envelope, ready: &Ready) -> Value {
    let recipients: Vec<Value> = envelope.to.iter().map(|to| json!({ "email": to.as_str() })).collect();
    let mut patch = Map::from_iter([("keywords/$draft".to_owned(), Value::Null)]);
    if let Some(sent) = &ready.sent {
        patch.insert(format!("mailboxIds/{}", ready.drafts), Value::Null);
        patch.insert(format!("mailboxIds/{sent}"), Value::Bool(true));
    }
    json!({
        "create": { "s": {
            "identityId": ready.identity,
            "emailId": ready.email.id(),
            "envelope": { "mailFrom": { "email": envelope.from.as_str() }, "rcptTo": recipients },
        } },
        "onSuccessUpdateEmail": { "#s": patch },
    })
}

fn read(account: &JmapAccount, envelope: &Envelope, answer: &Value) -> Submitted {
    if let Some(created) = answer.pointer("/created/s") {
        let id = created.get("id").and_then(Value::as_str).unwrap_or_default();
        return Submitted::Accepted(format!("submission {}", helve_core::hidden::one_line(id, 80)));
    }
    let Some(error) = answer.pointer("/notCreated/s") else {
        return Submitted::Unknown(format!("`{}` does not say what became of it", account.server.host()));
    };
    let kind = error.get("type").and_then(Value::as_str).map_or_else(|| "no reason given".to_owned(), word);
    let named = error.get("invalidRecipients").and_then(Value::as_array).into_iter().flatten();
    let named: Vec<&str> = named.filter_map(Value::as_str).collect();
    let is_named = |to: &&Address| named.iter().any(|name| name.eq_ignore_ascii_case(to.as_str()));
    let recipients = envelope.to.iter().filter(is_named).cloned().collect();
    said(account, &kind, recipients)
}

/// What an error says of the mail. Only those of [`NEVER`] and [`LATER`] come before the server hands the mail on. After
/// any other, `serverFail` and `smtpProtocolError` among them, the mail may have gone out.
fn said(account: &JmapAccount, kind: &str, recipients: Vec<Address>) -> Submitted {
    let host = account.server.host();
    let refused = |temporary| {
        let why = format!("`{host}` does not send it ({kind})");
        Submitted::Refused { why, temporary, recipients }
    };
    match kind {
        kind if NEVER.contains(&kind) => refused(false),
        kind if LATER.contains(&kind) => refused(true),
        _ => Submitted::Unknown(format!("`{host}` failed while it sent the mail ({kind})")),
    }
}

/// A fault from before anything was handed over.
fn not_sent(fault: &Fault) -> Submitted {
    let temporary = matches!(fault, Fault::Unreachable(_) | Fault::Unknown(_));
    Submitted::Refused { why: format!("{fault}; nothing was sent"), temporary, recipients: Vec::new() }
}
