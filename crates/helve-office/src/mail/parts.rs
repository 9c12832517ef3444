//! The parts of a letter: its text, its HTML with what is shown in it, and files.

use lettre::message::header::{ContentDisposition, ContentTransferEncoding, ContentType};
use lettre::message::{Attachment, Body, Message, MessageBuilder, MultiPart, SinglePart};

use super::compose::{Attached, ComposeError, Letter};
use crate::text::MailText;

/// No line of a mail has more bytes (RFC 5322 2.1.1).
const LINE_BYTES_MAX: usize = 998;

const CONTENT_ID_BYTES_MAX: usize = 200;

/// Puts all parts of a letter into a message.
pub(super) fn with_body(builder: MessageBuilder, letter: &Letter) -> Result<Message, ComposeError> {
    let is_inline = |file: &&Attached| file.content_id.is_some() && letter.html.is_some();
    let (inline, files): (Vec<_>, Vec<_>) = letter.attachments.iter().partition(is_inline);
    let text = || SinglePart::plain(letter.text.as_str().to_owned());
    let both = letter.html.as_ref().map(|html| alternative(text(), html, &inline)).transpose()?;
    let message = if files.is_empty() {
        match both {
            Some(both) => builder.multipart(both),
            None => builder.singlepart(text()),
        }
    } else {
        let mut mixed = match both {
            Some(both) => MultiPart::mixed().multipart(both),
            None => MultiPart::mixed().singlepart(text()),
        };
        for file in files {
            mixed = mixed.singlepart(part(file)?);
        }
        builder.multipart(mixed)
    };
    message.map_err(ComposeError::Build)
}

/// The text, and the same as HTML with the images that it shows.
fn alternative(text: SinglePart, html: &MailText, inline: &[&Attached]) -> Result<MultiPart, ComposeError> {
    let both = MultiPart::alternative().singlepart(text);
    let html = SinglePart::html(html.as_str().to_owned());
    if inline.is_empty() {
        return Ok(both.singlepart(html));
    }
    let mut related = MultiPart::related().singlepart(html);
    for file in inline {
        related = related.singlepart(part(file)?);
    }
    Ok(both.multipart(related))
}

fn part(file: &Attached) -> Result<SinglePart, ComposeError> {
    let kind = ContentType::parse(&file.media_type)
        .map_err(|_| ComposeError::MediaType(helve_core::hidden::one_line(&file.media_type, 60)))?;
    if file.media_type.starts_with("message/") {
        return Ok(message(file, kind));
    }
    let name = file.name.as_str().to_owned();
    let attachment = match file.content_id.as_ref().filter(|id| is_content_id(id)) {
        Some(id) => Attachment::new_inline_with_name(id.clone(), name),
        None => Attachment::new(name),
    };
    Ok(attachment.body(file.bytes.clone(), kind))
}

/// A message within a message goes as it is: the standard forbids to encode it (RFC 2046 5.2.1). One that mail servers
/// would not take so goes as a file.
fn message(file: &Attached, kind: ContentType) -> SinglePart {
    let lines = with_crlf(&file.bytes);
    let fits = lines.split(|byte| *byte == b'\n').all(|line| line.len() <= LINE_BYTES_MAX + 1);
    if !fits || memchr::memchr(0, &lines).is_some() {
        let file_of_bytes = ContentType::parse("application/octet-stream").unwrap_or(kind);
        return Attachment::new(file.name.as_str().to_owned()).body(file.bytes.clone(), file_of_bytes);
    }
    let encoding = match lines.is_ascii() {
        true => ContentTransferEncoding::SevenBit,
        false => ContentTransferEncoding::EightBit,
    };
    SinglePart::builder()
        .header(ContentDisposition::attachment(file.name.as_str()))
        .header(kind)
        .header(encoding)
        .body(Body::dangerous_pre_encoded(lines, encoding))
}

fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(bytes.len() + bytes.len() / 32);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                lines.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
                lines.extend_from_slice(b"\r\n");
            }
            None => lines.extend_from_slice(line),
        }
    }
    lines
}

/// Whether a text can be the id of a part, between `<` and `>`.
pub(super) fn is_content_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>');
    (1..=CONTENT_ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}
