//! A message from outside, taken apart.

use jiff::Timestamp;
use mail_parser::decoders::html::html_to_text;
use mail_parser::{Address as Addresses, HeaderValue, Message, MessageParser, MimeHeaders, PartType};

use super::compose::KEPT_HEADERS;
use super::parts::is_content_id;
use crate::text::{Address, HeaderValue as Checked, Mailbox, MessageId, cleaned};

/// No larger message is read.
const BYTES_MAX: usize = 64 << 20;

/// A message with more parts is read without its body: parts lie in each other, and the reader's cost and the depth of
/// its tree grow with them.
const PARTS_MAX: usize = 500;

/// Parts times bytes: what the reader may have to go over.
const WORK_MAX: usize = 8 << 30;

/// How much of an HTML body is turned into text.
const HTML_BYTES_MAX: usize = 4 << 20;

const ADDRESSES_MAX: usize = 1_000;
const IDS_MAX: usize = 200;
const ATTACHMENTS_MAX: usize = 200;

/// Why a message cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The mail is larger than the limit.
    #[error("the mail has {found} bytes; the limit is {BYTES_MAX}")]
    TooLarge {
        /// How large it is.
        found: usize,
    },
    /// No header at all.
    #[error("this is no mail: it has no header")]
    NoMail,
}

/// A person in a header, as it was written. Only [`mailbox`](Self::mailbox) gives an address that mail may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correspondent {
    /// The name, on one line and without what acts on its reader.
    pub name: Option<String>,
    /// The address, on one line.
    pub address: String,
}

impl Correspondent {
    /// The checked mailbox, unless the address is none that mail may go to. A name that is refused is left out.
    pub fn mailbox(&self) -> Option<Mailbox> {
        let address = Address::new(&self.address).ok()?;
        let named = Mailbox::new(self.name.as_deref(), address.clone());
        named.or_else(|_| Mailbox::new(None, address)).ok()
    }
}

/// A file that came with a mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// What it is called, safe as a file name; made up where it has none.
    pub name: String,
    /// Its media type, as the sender says.
    pub media_type: String,
    /// How many bytes it has, decoded.
    pub bytes: usize,
    /// Which part of the message it is.
    pub part: u32,
    /// By what the HTML shows it, where it may.
    pub content_id: Option<String>,
}

/// The body, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The text; HTML is turned into it.
    Text(String),
    /// The message has so many parts that its body was left alone.
    TooManyParts,
}

/// A message, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The `Message-ID` of its head.
    pub message_id: Option<MessageId>,
    /// What it answers.
    pub in_reply_to: Vec<MessageId>,
    /// The thread before it, oldest first.
    pub references: Vec<MessageId>,
    /// Who wrote it.
    pub from: Vec<Correspondent>,
    /// Where answers are wanted.
    pub reply_to: Vec<Correspondent>,
    /// Who is meant.
    pub to: Vec<Correspondent>,
    /// Who got a copy.
    pub cc: Vec<Correspondent>,
    /// Who got a copy that the others do not know of. Only drafts say so.
    pub bcc: Vec<Correspondent>,
    /// What it is about, on one line and without what acts on its reader.
    pub subject: String,
    /// Its headers of those in [`KEPT_HEADERS`].
    pub kept: Vec<(&'static str, Checked)>,
    /// When it says that it was written.
    pub date: Option<Timestamp>,
    /// What it says.
    pub body: Body,
    /// What came with it.
    pub attachments: Vec<Attachment>,
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<'a> {
    /// The text of this part.
    pub text: &'a str,
    /// Where to read on, or `None` at the end.
    pub next: Option<usize>,
    /// How many bytes the whole body has.
    pub total: usize,
}

impl Mail {
    /// Reads a message. Broken ones are read as far as they go.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        if bytes.len() > BYTES_MAX {
            return Err(ReadError::TooLarge { found: bytes.len() });
        }
        let reads_body = is_sane(bytes);
        let parser = MessageParser::default();
        let message = match reads_body {
            true => parser.parse(bytes),
            false => parser.parse_headers(bytes),
        };
        let message = message.filter(|message| !message.headers().is_empty()).ok_or(ReadError::NoMail)?;
        Ok(Self {
            message_id: message.message_id().and_then(|id| MessageId::new(id).ok()),
            in_reply_to: ids(message.in_reply_to()),
            references: ids(message.references()),
            from: people(message.from()),
            reply_to: people(message.reply_to()),
            to: people(message.to()),
            cc: people(message.cc()),
            bcc: people(message.bcc()),
            subject: cleaned(message.subject().unwrap_or_default(), 990),
            kept: kept(&message),
            date: message.date().and_then(|date| Timestamp::from_second(date.to_timestamp()).ok()),
            body: if reads_body { Body::Text(body(&message)) } else { Body::TooManyParts },
            attachments: if reads_body { attachments(&message) } else { Vec::new() },
        })
    }

    /// A part of the body, from a place on, of so many bytes at most. It ends at the end of a line or a word where
    /// one is near.
    pub fn page(&self, from: usize, bytes_max: usize) -> Page<'_> {
        let text = match &self.body {
            Body::Text(text) => text.as_str(),
            Body::TooManyParts => "",
        };
        let from = text.floor_char_boundary(from.min(text.len()));
        let rest = &text[from..];
        // A character has four bytes at most; a page that has none would never end.
        let mut end = rest.floor_char_boundary(bytes_max.max(4).min(rest.len()));
        if end < rest.len() {
            let near = rest[..end].rfind('\n').or_else(|| rest[..end].rfind(' '));
            end = near.map(|at| at + 1).filter(|at| *at > end / 2).unwrap_or(end);
        }
        let next = from + end;
        Page { text: &rest[..end], next: (next < text.len()).then_some(next), total: text.len() }
    }

    /// The body as HTML, where the message has one and is not too much.
    pub fn html(message: &[u8]) -> Option<String> {
        if message.len() > BYTES_MAX || !is_sane(message) {
            return None;
        }
        let read = MessageParser::default().parse(message)?;
        read.html_body.iter().filter_map(|part| read.part(*part)).find_map(|part| match &part.body {
            PartType::Html(html) => Some(html.clone().into_owned()),
            PartType::Text(_)
            | PartType::Binary(_)
            | PartType::InlineBinary(_)
            | PartType::Message(_)
            | PartType::Multipart(_) => None,
        })
    }

    /// The bytes of an attachment, decoded, from the message that the mail was read from.
    pub fn attachment(message: &[u8], part: u32) -> Option<Vec<u8>> {
        Self::contents(message, &[part]).pop().flatten()
    }

    /// The bytes of several attachments, in the order asked for, from one reading of the message.
    pub fn contents(message: &[u8], parts: &[u32]) -> Vec<Option<Vec<u8>>> {
        let is_readable = message.len() <= BYTES_MAX && is_sane(message);
        let read = is_readable.then(|| MessageParser::default().parse(message)).flatten();
        let content = |part: &u32| Some(read.as_ref()?.part(*part)?.contents().to_vec());
        parts.iter().map(content).collect()
    }
}

/// Whether a message can be read as a whole at a cost that is known.
fn is_sane(bytes: &[u8]) -> bool {
    let parts = count_parts(bytes);
    parts <= PARTS_MAX && parts.saturating_mul(bytes.len()) <= WORK_MAX
}

/// No message has more parts than this: each part that is no plain text says its type. Counted before the message is
/// read, because the reader puts messages into messages without end, and such a tree cannot even be dropped.
fn count_parts(bytes: &[u8]) -> usize {
    const WORD: &[u8] = b"content-type";
    let mut count = 0;
    let mut rest = bytes;
    while let Some(at) = memchr::memchr2(b'c', b'C', rest) {
        rest = &rest[at..];
        let here = rest.get(..WORD.len()).is_some_and(|word| word.eq_ignore_ascii_case(WORD));
        count += usize::from(here);
        rest = &rest[1..];
    }
    count
}

fn ids(value: &HeaderValue<'_>) -> Vec<MessageId> {
    let checked = |text: &str| MessageId::new(text).ok();
    match value {
        HeaderValue::Text(text) => checked(text).into_iter().collect(),
        HeaderValue::TextList(list) => list.iter().take(IDS_MAX).filter_map(|text| checked(text)).collect(),
        _ => Vec::new(),
    }
}

fn people(addresses: Option<&Addresses<'_>>) -> Vec<Correspondent> {
    let Some(addresses) = addresses else { return Vec::new() };
    let with_address = addresses.iter().filter_map(|person| {
        let name = person.name.as_deref().map(|name| cleaned(name, 200)).filter(|name| !name.is_empty());
        Some(Correspondent { name, address: cleaned(person.address.as_deref()?, 320) })
    });
    with_address.take(ADDRESSES_MAX).collect()
}

fn kept(message: &Message<'_>) -> Vec<(&'static str, Checked)> {
    let value = |name: &'static str| {
        let raw = message.header_raw(name)?;
        Some((name, Checked::new(raw.trim()).ok()?))
    };
    KEPT_HEADERS.into_iter().filter_map(value).collect()
}

/// The parts that are meant to be read, one after the other.
fn body(message: &Message<'_>) -> String {
    let parts = message.text_body.iter().filter_map(|part| message.part(*part));
    let texts = parts.filter_map(|part| match &part.body {
        PartType::Text(text) => Some(text.replace("\r\n", "\n")),
        PartType::Html(html) => Some(html_to_text(&html[..html.floor_char_boundary(HTML_BYTES_MAX)])),
        PartType::Binary(_) | PartType::InlineBinary(_) | PartType::Message(_) | PartType::Multipart(_) => {
            None
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn attachments(message: &Message<'_>) -> Vec<Attachment> {
    let parts = message.attachments.iter().filter_map(|id| Some((*id, message.part(*id)?)));
    parts
        .take(ATTACHMENTS_MAX)
        .map(|(id, part)| {
            let media_type = part.content_type().map_or_else(
                || "application/octet-stream".to_owned(),
                |kind| format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or("octet-stream")),
            );
            let name = part.attachment_name().map(safe_name).filter(|name| !name.is_empty());
            Attachment {
                name: name.unwrap_or_else(|| format!("attachment-{id}")),
                media_type: cleaned(&media_type, 100).to_ascii_lowercase(),
                bytes: part.contents().len(),
                part: id,
                content_id: part.content_id().filter(|id| is_content_id(id)).map(str::to_owned),
            }
        })
        .collect()
}

/// A name without a path, a dot in front or anything that acts on its reader.
fn safe_name(name: &str) -> String {
    let name = cleaned(name, 200);
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let last = last.trim_start_matches('.');
    last[..last.floor_char_boundary(250)].trim().to_owned()
}
