//! The mail that is to be drafted or sent, made of what a caller asks for and of what it builds on: an earlier draft, a
//! mail that is answered or forwarded, files of other mails.

use std::sync::Arc;

use bytes::Bytes;
use helve::json::sha256_hex;
use helve::{CallId, ErrorCode, ToolError};
use helve_store::office::MailRow;
use jiff::Timestamp;

use super::desk::{Desk, sender};
use super::shown::{refused, version_of, wrong};
use crate::Account;
use crate::mail::reply::{self, Audience};
use crate::mail::{Attached, Attachment, Body, Correspondent, Letter, Mail, Thread};
use crate::text::{
    FileName, HeaderValue, MailText, Mailbox, MessageId, Problem, Recipients, Refusal, Subject,
};

/// How much all files of one mail may have together.
pub(super) const FILES_BYTES_MAX: usize = 25 << 20;

/// How many files one mail may have.
pub(super) const FILES_MAX: usize = 50;

/// How much of a mail is quoted in an answer to it.
const QUOTE_BYTES_MAX: usize = 20_000;

/// What a caller asks for. What is absent comes from the draft or the mail that it builds on; an empty list takes away.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) to: Option<Vec<String>>,
    pub(super) cc: Option<Vec<String>>,
    pub(super) bcc: Option<Vec<String>>,
    pub(super) subject: Option<String>,
    pub(super) body: Option<String>,
    pub(super) html: Option<String>,
    pub(super) attachments: Option<Vec<String>>,
    pub(super) reply_to: Option<String>,
    pub(super) reply_all: bool,
    pub(super) forward: Option<String>,
    pub(super) draft: Option<String>,
    pub(super) version: Option<String>,
    pub(super) account: Option<String>,
}

/// A draft that a mail builds on, as it was when it was looked at.
#[derive(Debug, Clone)]
pub(super) struct Base {
    pub(super) row: MailRow,
    pub(super) bytes: Bytes,
}

/// A file, with its hash.
#[derive(Debug, Clone)]
pub(super) struct Enclosed {
    pub(super) file: Attached,
    pub(super) sha256: String,
}

/// A mail with all its parts checked. It gets id and date when it is composed.
pub(super) struct Plan {
    pub(super) account: Arc<Account>,
    pub(super) from: Mailbox,
    pub(super) recipients: Option<Recipients>,
    pub(super) reply_to: Vec<Mailbox>,
    pub(super) kept: Vec<(&'static str, HeaderValue)>,
    pub(super) subject: Subject,
    pub(super) text: MailText,
    pub(super) html: Option<MailText>,
    pub(super) files: Vec<Enclosed>,
    pub(super) thread: Thread,
    pub(super) base: Option<Base>,
}

impl Plan {
    /// Looks at everything that the mail is made of.
    pub(super) async fn make(desk: &Desk, wanted: &Wanted) -> Result<Self, ToolError> {
        check_choice(wanted)?;
        let draft = match &wanted.draft {
            Some(id) => Some(earlier(desk, id, wanted.version.as_deref()).await?),
            None => None,
        };
        if let Some(draft) = &draft {
            check_account(draft, wanted.account.as_deref())?;
        }
        let original = match wanted.reply_to.as_ref().or(wanted.forward.as_ref()) {
            Some(id) => Some(original(desk, id, wanted).await?),
            None => None,
        };
        let account = match (&wanted.account, &draft, &original) {
            (Some(id), ..) => desk.account(id)?,
            (None, Some(draft), _) => Arc::clone(&draft.account),
            (None, None, Some(original)) => Arc::clone(&original.account),
            (None, None, None) => desk.own_account()?,
        };
        let from = sender(&account)?;
        let mut parts = Parts::of_draft(draft.as_ref()).await?;
        if let Some(original) = &original {
            parts.answer(original, wanted, &from, desk).await?;
        }
        parts.take(wanted);
        let mut files = parts.files;
        if let Some(handles) = &wanted.attachments {
            files = enclosed(desk, handles).await?;
        }
        check_files(files.iter().map(|file| file.file.bytes.len()))?;
        let recipients = match parts.to.len() + parts.cc.len() + parts.bcc.len() {
            0 => None,
            _ => {
                Some(Recipients::new(&parts.to, &parts.cc, &parts.bcc).map_err(|refusal| refused(&refusal))?)
            }
        };
        let subject = Subject::new(&parts.subject).map_err(|refusal| refused(&refusal))?;
        let text = MailText::new(&parts.text).map_err(|refusal| too_long(refusal, &parts.text, wanted))?;
        let html = parts.html.as_deref().map(MailText::new).transpose();
        let html = html.map_err(|refusal| refused(&refusal.named("html")))?;
        let base = draft.map(|draft| Base { row: draft.row, bytes: draft.bytes });
        let (thread, reply_to, kept) = (parts.thread, parts.reply_to, parts.kept);
        Ok(Self { account, from, recipients, reply_to, kept, subject, text, html, files, thread, base })
    }

    /// The letter, with an id that no other has.
    pub(super) fn letter(&self, now: Timestamp) -> Result<Letter, ToolError> {
        let id =
            format!("{}.helve@{}", CallId::new(now).to_string().to_lowercase(), self.from.address().domain());
        let message_id = MessageId::new(&id).map_err(|refusal| refused(&refusal))?;
        Ok(Letter {
            from: self.from.clone(),
            recipients: self.recipients.clone(),
            reply_to: self.reply_to.clone(),
            kept: self.kept.clone(),
            subject: self.subject.clone(),
            text: self.text.clone(),
            html: self.html.clone(),
            attachments: self.files.iter().map(|file| file.file.clone()).collect(),
            thread: self.thread.clone(),
            message_id,
            date: now,
        })
    }

    pub(super) fn addresses(&self, list: fn(&Recipients) -> &[Mailbox]) -> Vec<String> {
        self.recipients
            .as_ref()
            .map_or_else(Vec::new, |all| list(all).iter().map(Mailbox::to_string).collect())
    }
}

/// A text that is refused. What stands below an answer counts as well, which its writer may not know.
fn too_long(refusal: Refusal, text: &str, wanted: &Wanted) -> ToolError {
    let said = wanted.body.as_deref().unwrap_or_default().chars().count();
    let is_answer = wanted.reply_to.is_some() || wanted.forward.is_some();
    match refusal.problem {
        Problem::TooLong { max, .. } if is_answer && said <= max => {
            let found = text.chars().count();
            let message = format!(
                "body has {said} characters, and {found} with the mail that is quoted below it; the limit is {max}"
            );
            wrong("body", message).suggest(format!("make body shorter by {} characters", found - max))
        }
        _ => refused(&refusal),
    }
}

fn check_choice(wanted: &Wanted) -> Result<(), ToolError> {
    if wanted.reply_to.is_some() && wanted.forward.is_some() {
        return Err(wrong("forward", "a mail answers or forwards; give `reply_to` or `forward`, not both"));
    }
    if wanted.reply_all && wanted.reply_to.is_none() {
        return Err(wrong("reply_all", "`reply_all` needs `reply_to`: the mail that is answered"));
    }
    if wanted.html.is_some() && wanted.body.is_none() && wanted.draft.is_some() {
        let message = "`html` alone would leave the draft's former text next to it; give `body` too";
        return Err(wrong("html", message));
    }
    if wanted.version.is_some() && wanted.draft.is_none() {
        return Err(wrong("version", "`version` is of a draft; give `draft` too"));
    }
    Ok(())
}

/// A mail that another builds on.
pub(super) struct OriginalMail {
    pub(super) account: Arc<Account>,
    pub(super) row: MailRow,
    pub(super) bytes: Bytes,
    pub(super) mail: Mail,
}

async fn found(desk: &Desk, id: &str, field: &str) -> Result<OriginalMail, ToolError> {
    let (account, row) = desk.mail(id, field).await?;
    let (bytes, mail) = desk.read(&account, &row).await?;
    Ok(OriginalMail { account, row, bytes, mail })
}

/// An earlier draft, as it is now.
pub(super) async fn earlier(desk: &Desk, id: &str, version: Option<&str>) -> Result<OriginalMail, ToolError> {
    let draft = found(desk, id, "draft").await?;
    if draft.row.folder_role.as_deref() != Some("drafts") {
        return Err(wrong("draft", "this mail is no draft; take an id from `list_drafts`"));
    }
    let now = version_of(&draft.row);
    match version {
        Some(version) if version != now => {
            let message = format!("the draft is at version {now} now");
            Err(ToolError::recoverable("CONFLICT", message)
                .suggest("read it again before you change it")
                .nothing_done())
        }
        _ => Ok(draft),
    }
}

/// A draft stays in its account: elsewhere its key is that of another mail.
pub(super) fn check_account(draft: &OriginalMail, account: Option<&str>) -> Result<(), ToolError> {
    match account {
        Some(account) if account != draft.account.id => {
            let message = format!("the draft is of the account `{}`, and stays there", draft.account.id);
            Err(wrong("account", message)
                .suggest("leave `account` out, or write a new draft without `draft`"))
        }
        _ => Ok(()),
    }
}

async fn original(desk: &Desk, id: &str, wanted: &Wanted) -> Result<OriginalMail, ToolError> {
    let field = if wanted.reply_to.is_some() { "reply_to" } else { "forward" };
    found(desk, id, field).await
}

/// The parts of a mail before they are checked.
#[derive(Default)]
struct Parts {
    to: Vec<String>,
    cc: Vec<String>,
    bcc: Vec<String>,
    reply_to: Vec<Mailbox>,
    kept: Vec<(&'static str, HeaderValue)>,
    subject: String,
    text: String,
    html: Option<String>,
    files: Vec<Enclosed>,
    thread: Thread,
}

impl Parts {
    /// What a draft says.
    async fn of_draft(draft: Option<&OriginalMail>) -> Result<Self, ToolError> {
        let Some(draft) = draft else { return Ok(Self::default()) };
        let mail = &draft.mail;
        let text = match &mail.body {
            Body::Text(text) => text.clone(),
            Body::TooManyParts => {
                let message = "the draft has so many parts that it cannot be taken over";
                return Err(ToolError::unrecoverable("UNREADABLE", message).nothing_done());
            }
        };
        let bytes = draft.bytes.clone();
        let html = tokio::task::spawn_blocking(move || Mail::html(&bytes)).await.map_err(|_| ending())?;
        Ok(Self {
            to: written(&mail.to),
            cc: written(&mail.cc),
            bcc: written(&mail.bcc),
            reply_to: mail.reply_to.iter().filter_map(Correspondent::mailbox).take(Recipients::MAX).collect(),
            kept: mail.kept.clone(),
            subject: mail.subject.clone(),
            text,
            html,
            files: enclose(draft, all_parts(mail), Shown::Still).await?,
            thread: Thread {
                in_reply_to: mail.in_reply_to.first().cloned(),
                references: mail.references.clone(),
            },
        })
    }

    /// What an answer to a mail, or a forward of it, has by itself.
    async fn answer(
        &mut self,
        original: &OriginalMail,
        wanted: &Wanted,
        from: &Mailbox,
        desk: &Desk,
    ) -> Result<(), ToolError> {
        let (mail, zone) = (&original.mail, &desk.office.settings().zone);
        let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
        let mut said = wanted.body.as_deref().unwrap_or(&self.text).to_owned();
        said.retain(is_text);
        if wanted.forward.is_some() {
            self.subject = reply::forward_subject(&mail.subject);
            self.text = reply::forwarded(&said, mail, zone, QUOTE_BYTES_MAX);
            self.files = enclose(original, all_parts(mail), Shown::NoMore).await?;
        } else {
            let audience = if wanted.reply_all { Audience::All } else { Audience::Sender };
            let (to, cc) = reply::recipients(mail, &[from.address().clone()], audience);
            self.to = to.iter().map(Mailbox::to_string).collect();
            self.cc = cc.iter().map(Mailbox::to_string).collect();
            self.subject = reply::reply_subject(&mail.subject);
            self.text = reply::quoted(&said, mail, zone, QUOTE_BYTES_MAX);
            self.thread = reply::thread(mail);
        }
        // A stranger's mail may hold what no text has.
        self.text.retain(is_text);
        // The other version has the same below what is said. HTML of a former draft would say something else.
        let quote = self.text.strip_prefix(said.trim_end()).unwrap_or_default();
        self.html = wanted.html.as_ref().map(|html| format!("{html}\n{}", reply::as_html(quote)));
        Ok(())
    }

    /// What the caller says goes before what is there.
    fn take(&mut self, wanted: &Wanted) {
        for (list, given) in
            [(&mut self.to, &wanted.to), (&mut self.cc, &wanted.cc), (&mut self.bcc, &wanted.bcc)]
        {
            if let Some(given) = given {
                list.clone_from(given);
            }
        }
        if let Some(subject) = &wanted.subject {
            self.subject.clone_from(subject);
        }
        let is_answer = wanted.reply_to.is_some() || wanted.forward.is_some();
        if is_answer {
            return;
        }
        if let Some(body) = &wanted.body {
            self.text.clone_from(body);
            // HTML of the former words would say something else.
            self.html = None;
        }
        if let Some(html) = &wanted.html {
            self.html = Some(html.clone());
        }
    }
}

/// People of a draft as a caller would write them. What is no address is refused later, by its place.
fn written(people: &[Correspondent]) -> Vec<String> {
    people
        .iter()
        .map(|one| one.mailbox().map_or_else(|| one.address.clone(), |mailbox| mailbox.to_string()))
        .collect()
}

/// Files of other mails, by their handles. A mail whose files stand together is read once.
async fn enclosed(desk: &Desk, handles: &[String]) -> Result<Vec<Enclosed>, ToolError> {
    let (mut files, mut sizes) = (Vec::new(), Vec::new());
    let mut last: Option<(String, OriginalMail, Vec<u32>)> = None;
    for (i, handle) in handles.iter().enumerate() {
        let field = format!("attachments[{i}]");
        let read = handle.split_once('/').and_then(|(id, part)| Some((id, part.parse::<u32>().ok()?)));
        let Some((id, part)) = read else {
            return Err(wrong(&field, format!("{field} is no handle; they look like `m-12-1f0c9a3b/2`"))
                .suggest("take handles from `attachments` of `read_email`"));
        };
        let (_, mail, parts) = match last.take() {
            Some(same) if same.0 == id => last.insert(same),
            former => {
                if let Some((_, mail, parts)) = former {
                    files.extend(enclose(&mail, parts, Shown::NoMore).await?);
                }
                last.insert((id.to_owned(), found(desk, id, &field).await?, Vec::new()))
            }
        };
        let listed = mail.mail.attachments.iter().find(|file| file.part == part);
        let listed = listed.ok_or_else(|| wrong(&field, format!("the mail has no file under {field}")))?;
        sizes.push(listed.bytes);
        check_files(sizes.iter().copied())?;
        parts.push(part);
    }
    if let Some((_, mail, parts)) = last {
        files.extend(enclose(&mail, parts, Shown::NoMore).await?);
    }
    Ok(files)
}

/// Whether the HTML that shows a file goes along with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Still,
    NoMore,
}

impl Enclosed {
    fn alone(mut self) -> Self {
        self.file.content_id = None;
        self
    }
}

fn all_parts(mail: &Mail) -> Vec<u32> {
    mail.attachments.iter().map(|file| file.part).collect()
}

/// Files of a mail. Their number and sizes are checked before any is taken out, in one reading of the mail, on a thread
/// that may take its time.
async fn enclose(found: &OriginalMail, parts: Vec<u32>, shown: Shown) -> Result<Vec<Enclosed>, ToolError> {
    let listed = |part: &u32| found.mail.attachments.iter().find(|file| file.part == *part).cloned();
    let listed: Vec<Attachment> = parts.iter().filter_map(listed).collect();
    check_files(listed.iter().map(|file| file.bytes))?;
    if listed.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = found.bytes.clone();
    let work = move || {
        let parts: Vec<u32> = listed.iter().map(|file| file.part).collect();
        let contents = Mail::contents(&bytes, &parts);
        let enclosed =
            listed.iter().zip(contents).filter_map(|(file, content)| enclosed_file(file, content?));
        enclosed.map(|file| if shown == Shown::Still { file } else { file.alone() }).collect()
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| ending())
}

fn ending() -> ToolError {
    ToolError::new(ErrorCode::Stopping, "the process ends").nothing_done()
}

fn enclosed_file(file: &Attachment, content: Vec<u8>) -> Option<Enclosed> {
    let part = file.part;
    let name = FileName::new(&file.name).or_else(|_| FileName::new(&format!("attachment-{part}"))).ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '+' | '.' | '_');
    let media_type = match file.media_type.chars().all(is_plain) {
        true => file.media_type.clone(),
        false => "application/octet-stream".to_owned(),
    };
    let sha256 = sha256_hex(&content);
    let content_id = file.content_id.clone();
    Some(Enclosed { file: Attached { name, media_type, bytes: content, content_id }, sha256 })
}

fn check_files(sizes: impl Iterator<Item = usize>) -> Result<(), ToolError> {
    let (count, bytes) = sizes.fold((0, 0_usize), |(count, sum), size| (count + 1, sum.saturating_add(size)));
    let limit = |what: String| Err(ToolError::new(ErrorCode::ValidationFailed, what).nothing_done());
    match () {
        () if count > FILES_MAX => limit(format!("{count} files; the limit is {FILES_MAX}")),
        () if bytes > FILES_BYTES_MAX => {
            limit(format!("the files have {bytes} bytes together; the limit is {FILES_BYTES_MAX}"))
        }
        () => Ok(()),
    }
}
