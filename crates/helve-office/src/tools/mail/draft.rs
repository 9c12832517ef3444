//! `draft_email`: a draft in the Drafts folder, new, changed or gone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use helve::run::Recalled;
use helve::{Annotations, Category, Context, Facet, Risk, Tool, ToolBuilder, ToolError};
use helve_store::office::{DraftWrite, MailRow};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::desk::{Desk, not_there, store};
use super::outgoing::key_of;
use super::plan::{Plan, Wanted, check_account, earlier};
use super::shown::{broken, id_of, version_of, wrong};
use crate::account::{Flags, FolderRole};
use crate::mail::compose_draft;
use crate::text::{MessageId, Recipients, cleaned_lines};
use crate::{Account, Office};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Whom it would go to: `ada@example.org` or `Ada <ada@example.org>`. At most 50 with cc and bcc. Of a
    /// draft or an answer: absent keeps those it has, and an empty list takes them away, here as in the other lists.
    #[serde(default)]
    #[schemars(length(max = 50))]
    to: Option<Vec<String>>,
    /// Who would get a copy.
    #[serde(default)]
    #[schemars(length(max = 50))]
    cc: Option<Vec<String>>,
    /// Who would get a copy that the others do not know of.
    #[serde(default)]
    #[schemars(length(max = 50))]
    bcc: Option<Vec<String>>,
    /// What it is about, on one line. A reply or forward has one by itself.
    #[schemars(length(min = 1, max = 998))]
    subject: Option<String>,
    /// What it says, as plain text. The mail that is answered or forwarded is quoted below it.
    #[schemars(length(max = 100_000))]
    body: Option<String>,
    /// The same as HTML, for programs that show it.
    #[schemars(length(min = 1, max = 100_000))]
    html: Option<String>,
    /// Files of other mails, by their handles from `read_email`. A forward has those of the mail by itself.
    #[serde(default)]
    #[schemars(length(max = 50))]
    attachments: Option<Vec<String>>,
    /// The id of a mail that this answers.
    #[schemars(length(min = 1, max = 100))]
    reply_to: Option<String>,
    /// Answer everybody whom that mail went to.
    #[serde(default)]
    reply_all: bool,
    /// The id of a mail that this forwards.
    #[schemars(length(min = 1, max = 100))]
    forward: Option<String>,
    /// The id of an earlier draft that this replaces. What is not given stays as it was there.
    #[schemars(length(min = 1, max = 100))]
    draft: Option<String>,
    /// The version of that draft that you mean.
    #[schemars(length(min = 1, max = 100))]
    version: Option<String>,
    /// Delete the earlier draft, and make none.
    #[serde(default)]
    delete: bool,
    /// The account to write from, by its name, where there are several.
    #[schemars(length(min = 1, max = 100))]
    account: Option<String>,
}

impl From<Input> for Wanted {
    fn from(input: Input) -> Self {
        Self {
            to: input.to,
            cc: input.cc,
            bcc: input.bcc,
            subject: input.subject,
            body: input.body,
            html: input.html,
            attachments: input.attachments,
            reply_to: input.reply_to,
            reply_all: input.reply_all,
            forward: input.forward,
            draft: input.draft,
            version: input.version,
            account: input.account,
        }
    }
}

/// What became of a draft.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Output {
    /// The draft's id, for `send_email` and for changing it. Absent where it was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Which state of it this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The account that holds the draft.
    account: String,
    /// The `Message-ID` of its head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// Whom it would go to.
    to: Vec<String>,
    /// Who would get a copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cc: Vec<String>,
    /// Who would get a copy that the others do not know of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bcc: Vec<String>,
    /// What it is about.
    subject: String,
    /// The text as it stands in the draft, quotes included; its beginning where it is long.
    body: String,
    /// How many files go with it.
    attachments: usize,
    /// The earlier draft that is gone now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
    /// What the caller should know besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
}

/// How much of a draft's text an answer has.
const BODY_CHARS_MAX: usize = 4_000;

pub(super) fn tool(office: &Arc<Office>) -> ToolBuilder {
    let (for_call, for_undo, for_recall) = (Arc::clone(office), Arc::clone(office), Arc::clone(office));
    Tool::function(
        "draft_email",
        "Writes a real draft into the Drafts folder of the user's account: a new mail, a reply or a forward with \
         threading and quotes. Replaces or deletes an earlier draft by its id. Nothing is sent. Returns the draft's id \
         and version.",
        move |input: Input, context: Context| {
            let desk = Desk::of(&for_call, &context);
            async move { answer(&desk, input, &context).await }
        },
    )
    .when_to_use(
        "When the user wants a mail prepared, or to see it before it goes out: \"draft a reply\", \"write something to \
         ...\". Prefer this to `send_email` unless the user says to send it. To change a draft, give its id as `draft`.",
    )
    .example_call(
        "Draft a mail to Ada about lunch",
        json!({ "to": ["ada@example.org"], "subject": "Lunch?", "body": "Hi Ada,\n\nlunch on Friday?\n" }),
    )
    .example_call(
        "Draft an answer to everybody: we accept",
        json!({ "reply_to": "m-12-1f0c9a3b", "reply_all": true, "body": "We accept.\n" }),
    )
    .example_call(
        "Prepare to forward that to Bob",
        json!({ "forward": "m-12-1f0c9a3b", "to": ["Bob <bob@example.org>"], "body": "For you to see.\n" }),
    )
    .example_call(
        "Make the draft shorter",
        json!({ "draft": "m-31-9c2e77d0", "version": "v-9c2e77d01b5a4f60", "body": "Lunch on Friday?\n" }),
    )
    .example_call("Throw that draft away", json!({ "draft": "m-31-9c2e77d0", "delete": true }))
    .integration("mail")
    .category(Category::Draft)
    .risk(Risk::Low)
    .annotations(Annotations { destructive: false, ..Annotations::default() })
    .timeout(Duration::from_secs(60))
    .facets([Facet::Mutates, Facet::ReadsPrivate, Facet::ReadsUntrusted])
    .undo_handled(move |_: Value, result: Value, context: Context| {
        let desk = Desk::of(&for_undo, &context);
        async move { undo(&desk, result).await }
    })
    .recall_handled(move |_: Value, context: Context| {
        let desk = Desk::of(&for_recall, &context);
        async move { recall(&desk, &context).await }
    })
}

async fn answer(desk: &Desk, input: Input, context: &Context) -> Result<Output, ToolError> {
    if input.delete {
        return delete(desk, &input, context).await;
    }
    let plan = Plan::make(desk, &input.into()).await?;
    let letter = plan.letter(Timestamp::now())?;
    let bytes = compose_draft(&letter).map_err(|error| {
        ToolError::unrecoverable("NOT_COMPOSED", error.to_string()).nothing_done().with_source(error)
    })?;
    // A quote may hold what acts on its reader. In the draft it stays as it is.
    let text: String = cleaned_lines(plan.text.as_str()).chars().take(BODY_CHARS_MAX).collect();
    let mut output = Output {
        id: None,
        version: None,
        account: plan.account.id.clone(),
        message_id: Some(letter.message_id.as_str().to_owned()),
        to: plan.addresses(Recipients::to),
        cc: plan.addresses(Recipients::cc),
        bcc: plan.addresses(Recipients::bcc),
        subject: plan.subject.to_string(),
        body: text,
        attachments: plan.files.len(),
        replaced: plan.base.as_ref().map(|base| id_of(&base.row)),
        remarks: Vec::new(),
    };
    let former = plan.base.as_ref().map(|base| (&base.row, base.bytes.clone()));
    note(desk, context, &output, former.as_ref()).await?;
    let flags = Flags { draft: true, seen: true, ..Flags::default() };
    let made = desk.add(&plan.account, FolderRole::Drafts, bytes.into(), flags, &letter.message_id).await?;
    // The new one is there: only now the former may go.
    complete(desk, &plan.account, made.as_ref(), former.map(|(row, _)| row.clone()), &mut output).await;
    note_answer(desk, context, &output).await;
    Ok(output)
}

/// Removes the former draft, and says where the new one is.
async fn complete(
    desk: &Desk,
    account: &Account,
    made: Option<&MailRow>,
    former: Option<MailRow>,
    output: &mut Output,
) {
    output.id = made.map(id_of);
    output.version = made.map(version_of);
    if made.is_none() {
        output.remarks.push("the draft is there; its id is known after the next sync".to_owned());
    }
    let Some(former) = former else { return };
    if let Err(error) = desk.remove(account, &former).await {
        let why = error.message();
        output.remarks.push(format!("the new draft is there; the earlier one could not be removed: {why}"));
        output.replaced = None;
    }
}

async fn delete(desk: &Desk, input: &Input, context: &Context) -> Result<Output, ToolError> {
    let Some(id) = &input.draft else {
        return Err(wrong("delete", "`delete` needs `draft`: the id of the draft that is to go"));
    };
    let found = earlier(desk, id, input.version.as_deref()).await?;
    check_account(&found, input.account.as_deref())?;
    let output = Output {
        id: None,
        version: None,
        account: found.account.id.clone(),
        message_id: None,
        to: Vec::new(),
        cc: Vec::new(),
        bcc: Vec::new(),
        subject: found.row.subject.clone(),
        body: String::new(),
        attachments: 0,
        replaced: Some(id_of(&found.row)),
        remarks: vec!["the draft was deleted".to_owned()],
    };
    note(desk, context, &output, Some(&(&found.row, found.bytes.clone()))).await?;
    desk.remove(&found.account, &found.row).await?;
    note_answer(desk, context, &output).await;
    Ok(output)
}

/// Writes down what is about to be done and what was there before, so that it can be undone and asked about.
async fn note(
    desk: &Desk,
    context: &Context,
    output: &Output,
    former: Option<&(&MailRow, Bytes)>,
) -> Result<(), ToolError> {
    let (principal, key) = key_of(context);
    let write = DraftWrite {
        principal,
        key,
        account: output.account.clone(),
        message_id: output.message_id.clone(),
        former: former.map(|(row, _)| row.id),
        former_bytes: former.map(|(_, bytes)| bytes.to_vec()),
        answer: text(output)?,
        done: false,
    };
    desk.db().note_draft(write, Timestamp::now()).await.map_err(|error| broken(error).nothing_done())
}

/// The answer is a convenience: without it, `recall` finds the draft by its Message-ID.
async fn note_answer(desk: &Desk, context: &Context, output: &Output) {
    let (principal, key) = key_of(context);
    if let Ok(answer) = text(output) {
        let _ = desk.db().end_draft(&principal, &key, answer).await;
    }
}

fn text(output: &Output) -> Result<String, ToolError> {
    serde_json::to_string(output)
        .map_err(|error| ToolError::failed("the answer cannot be written").with_source(error))
}

/// What became of a call that was cut short.
async fn recall(desk: &Desk, context: &Context) -> Result<Recalled, ToolError> {
    let (principal, key) = key_of(context);
    let Some(write) = desk.db().draft_write(&principal, &key).await.map_err(broken)? else {
        return Ok(Recalled::WillNotHappen);
    };
    let lost = |error| ToolError::failed("the answer was lost").with_source(error);
    let mut output: Output = serde_json::from_str(&write.answer).map_err(lost)?;
    if !write.done {
        let account = desk.account(&write.account)?;
        let former = match write.former {
            Some(number) => {
                desk.db().mail(number).await.map_err(broken)?.filter(|row| row.account == account.id)
            }
            None => None,
        };
        match &write.message_id {
            None if former.is_some() => return Ok(Recalled::WillNotHappen),
            None => {}
            Some(id) => {
                let Some(made) = find(desk, &account, id).await? else { return Ok(Recalled::DidNotHappen) };
                complete(desk, &account, Some(&made), former, &mut output).await;
            }
        }
        note_answer(desk, context, &output).await;
    }
    serde_json::to_value(output).map(Recalled::Happened).map_err(lost)
}

/// The draft with a Message-ID, as the server knows it now.
async fn find(desk: &Desk, account: &Account, id: &str) -> Result<Option<MailRow>, ToolError> {
    let Ok(id) = MessageId::new(id) else { return Ok(None) };
    let folder = desk.folder(account, FolderRole::Drafts).await?;
    let store = store(account)?;
    let keys = store.find(&folder.told.href, &id).await.map_err(|fault| fault.for_model())?;
    let Some(key) = keys.into_iter().next_back() else { return Ok(None) };
    let bytes = store.fetch(&folder.told.href, &key, super::desk::MAIL_BYTES_MAX).await;
    let bytes = bytes.map_err(|fault| fault.for_model())?;
    let flags = Flags { draft: true, seen: true, ..Flags::default() };
    desk.take_in(account, &folder, key, bytes, flags).await
}

/// Removes the draft that a call made, and puts the one back that it replaced. Done twice, it does no harm.
async fn undo(desk: &Desk, result: Value) -> Result<(), ToolError> {
    let lost = |error| ToolError::failed("the result cannot be read").with_source(error);
    let output: Output = serde_json::from_value(result).map_err(lost)?;
    let account = desk.account(&output.account)?;
    let write = desk
        .db()
        .draft_write_of(&output.account, output.message_id.as_deref(), output.replaced_number())
        .await;
    let write = write.map_err(broken)?;
    let made = match &output.message_id {
        Some(id) => find(desk, &account, id).await?,
        None => None,
    };
    if output.message_id.is_some() && made.is_none() && output.replaced.is_none() {
        return Ok(());
    }
    if output.replaced.is_some() {
        let bytes = write.and_then(|write| write.former_bytes).ok_or_else(|| {
            ToolError::failed("the draft that was replaced is not kept any more, so it cannot be put back")
        })?;
        put_back(desk, &account, bytes).await?;
    }
    match made {
        Some(made) => desk.remove(&account, &made).await,
        None => Ok(()),
    }
}

async fn put_back(desk: &Desk, account: &Account, bytes: Vec<u8>) -> Result<(), ToolError> {
    let id = crate::mail::Mail::read(&bytes).ok().and_then(|mail| mail.message_id);
    let id = id.ok_or_else(not_there)?;
    if find(desk, account, id.as_str()).await?.is_some() {
        return Ok(());
    }
    let flags = Flags { draft: true, seen: true, ..Flags::default() };
    desk.add(account, FolderRole::Drafts, bytes.into(), flags, &id).await.map(|_| ())
}

impl Output {
    /// Our number of the draft that was replaced.
    fn replaced_number(&self) -> Option<i64> {
        self.replaced.as_deref().and_then(super::shown::parse_id).map(|(number, _)| number)
    }
}
