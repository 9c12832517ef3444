//! From a letter to the bytes that are sent or stored as a draft.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use lettre::message::header::{HeaderName, HeaderValue as RawHeader};
use lettre::message::{Mailbox as LettreMailbox, Message, MessageBuilder};

use super::encoded_word;
use super::parts::with_body;
use crate::text::{Address, FileName, HeaderValue, MailText, Mailbox, MessageId, Recipients, Subject};

/// How many ids a `References` header keeps: the first, which names the thread, and the last ones.
const REFERENCES_MAX: usize = 30;

/// Headers of a draft that other programs wrote, and that stay when it is changed or sent.
pub const KEPT_HEADERS: [&str; 4] = ["X-Priority", "X-MSMail-Priority", "Importance", "Priority"];

/// What cannot be composed although each part is right.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// The type of an attachment is none.
    #[error("`{0}` is no media type; give one such as `application/pdf`")]
    MediaType(String),
    /// An address is refused by the library that writes the message.
    #[error("the address `{0}` cannot be written")]
    Address(String),
    /// The message cannot be built.
    #[error("the message cannot be built")]
    Build(#[source] lettre::error::Error),
}

/// A file that goes with a mail.
#[derive(Debug, Clone)]
pub struct Attached {
    /// What it is called.
    pub name: FileName,
    /// Its media type.
    pub media_type: String,
    /// What the file holds.
    pub bytes: Vec<u8>,
    /// By what the HTML shows it, where it does: an image.
    pub content_id: Option<String>,
}

/// What a mail answers or continues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    /// The mail that is answered.
    pub in_reply_to: Option<MessageId>,
    /// The mails before it, oldest first, and itself.
    pub references: Vec<MessageId>,
}

/// Everything that a mail is made of, each part checked.
#[derive(Debug, Clone)]
pub struct Letter {
    /// The account's own address, never an argument of a call.
    pub from: Mailbox,
    /// Who gets it. A draft may have nobody yet.
    pub recipients: Option<Recipients>,
    /// Where answers are wanted, where that is somewhere else.
    pub reply_to: Vec<Mailbox>,
    /// Headers besides, of those in [`KEPT_HEADERS`].
    pub kept: Vec<(&'static str, HeaderValue)>,
    /// What it is about.
    pub subject: Subject,
    /// What it says.
    pub text: MailText,
    /// The same as HTML.
    pub html: Option<MailText>,
    /// What goes with it.
    pub attachments: Vec<Attached>,
    /// What it answers.
    pub thread: Thread,
    /// Its id. The caller stores it before the mail is sent, to find out later what became of it.
    pub message_id: MessageId,
    /// When it was written.
    pub date: Timestamp,
}

/// A mail, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    /// The message, with CRLF. It has no Bcc.
    pub bytes: Vec<u8>,
    /// Who sends it.
    pub sender: Address,
    /// Everybody who gets it, Bcc included.
    pub recipients: Vec<Address>,
}

/// Writes a letter.
pub fn compose(letter: &Letter) -> Result<Composed, ComposeError> {
    write(letter, Bcc::Hidden)
}

/// Writes a letter that stays a draft: it says who is to get a copy that the others do not know of, because there is no
/// envelope that could. INVARIANT: a draft's bytes are never sent; they are read and composed anew.
pub fn compose_draft(letter: &Letter) -> Result<Vec<u8>, ComposeError> {
    write(letter, Bcc::Written).map(|composed| composed.bytes)
}

/// Whether a message says who gets a copy that the others do not know of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bcc {
    Hidden,
    Written,
}

fn write(letter: &Letter, bcc: Bcc) -> Result<Composed, ComposeError> {
    let mut builder = Message::builder()
        .from(written(&letter.from)?)
        .date(SystemTime::UNIX_EPOCH + Duration::from_secs(letter.date.as_second().max(0).unsigned_abs()))
        .message_id(Some(letter.message_id.as_str().to_owned()));
    let mut recipients = Vec::new();
    if let Some(all) = &letter.recipients {
        builder = with_mailboxes(builder, "To", all.to());
        builder = with_mailboxes(builder, "Cc", all.cc());
        if bcc == Bcc::Written {
            builder = with_mailboxes(builder.keep_bcc(), "Bcc", all.bcc());
        }
        recipients = all.envelope().cloned().collect();
    }
    builder = with_mailboxes(builder, "Reply-To", &letter.reply_to);
    for (name, value) in letter.kept.iter().filter(|(name, _)| KEPT_HEADERS.contains(name)) {
        let name = HeaderName::new_from_ascii_str(name);
        builder = builder.raw_header(RawHeader::new(name, value.as_str().to_owned()));
    }
    builder = with_subject(builder, letter.subject.as_str());
    builder = with_thread(builder, &letter.thread);
    // The envelope is ours: lettre's would come from headers, where Bcc is not.
    let sender = lettre_address(letter.from.address())?;
    let envelope =
        lettre::address::Envelope::new(Some(sender.clone()), vec![sender]).map_err(ComposeError::Build)?;
    let message = with_body(builder.envelope(envelope), letter)?;
    Ok(Composed { bytes: message.formatted(), sender: letter.from.address().clone(), recipients })
}

fn lettre_address(address: &Address) -> Result<lettre::Address, ComposeError> {
    lettre::Address::new(address.local_part(), address.domain())
        .map_err(|_| ComposeError::Address(address.to_string()))
}

fn written(mailbox: &Mailbox) -> Result<LettreMailbox, ComposeError> {
    Ok(LettreMailbox::new(mailbox.name().map(str::to_owned), lettre_address(mailbox.address())?))
}

fn with_mailboxes(builder: MessageBuilder, name: &'static str, mailboxes: &[Mailbox]) -> MessageBuilder {
    if mailboxes.is_empty() {
        return builder;
    }
    let plain = mailboxes.iter().map(Mailbox::to_string).collect::<Vec<_>>().join(", ");
    with_encoded(builder, name, plain, encoded_word::encode_mailboxes(mailboxes))
}

/// A header whose value is encoded and folded already. INVARIANT: it was made of checked parts, so that no line of it
/// can be another header.
fn with_encoded(
    builder: MessageBuilder,
    name: &'static str,
    plain: String,
    encoded: String,
) -> MessageBuilder {
    let name = HeaderName::new_from_ascii_str(name);
    builder.raw_header(RawHeader::dangerous_new_pre_encoded(name, plain, encoded))
}

fn with_subject(builder: MessageBuilder, subject: &str) -> MessageBuilder {
    if !encoded_word::needs_encoding(subject) {
        return builder.subject(subject);
    }
    with_encoded(builder, "Subject", subject.to_owned(), encoded_word::encode(subject))
}

fn with_thread(builder: MessageBuilder, thread: &Thread) -> MessageBuilder {
    let mut builder = builder;
    if let Some(id) = &thread.in_reply_to {
        builder = builder.in_reply_to(id.as_str().to_owned());
    }
    let ids = &thread.references;
    let kept: Vec<&str> = match ids.split_first() {
        Some((first, rest)) if rest.len() >= REFERENCES_MAX => {
            let last = &rest[rest.len() + 1 - REFERENCES_MAX..];
            std::iter::once(first).chain(last).map(MessageId::as_str).collect()
        }
        _ => ids.iter().map(MessageId::as_str).collect(),
    };
    if kept.is_empty() {
        return builder;
    }
    // One id a line: each is short enough by itself.
    with_encoded(builder, "References", kept.join(" "), kept.join("\r\n "))
}
