//! One message: fetched, put into a folder, removed, found.

use bytes::Bytes;

use super::command::Command;
use super::fetched::{Fetched, flag_names};
use super::session::{Folder, Session};
use super::sync::search;
use super::uids::Uids;
use crate::account::{Fault, Flags};
use crate::text::{MessageId, SearchWords};
use crate::wire::crlf_lines;

/// Most messages with one ID that are looked at.
const SAME_ID_MAX: usize = 50;

/// The key of a message. It names the numbering as well: a key from before a folder was numbered anew must not
/// fetch or remove another message.
pub(super) fn key(folder: &Folder, uid: u32) -> String {
    format!("{}-{uid}", folder.validity)
}

/// The UID in a key, where it still means something.
pub(super) fn uid(folder: &Folder, key: &str) -> Result<u32, Fault> {
    let (validity, uid) = key.split_once('-').unwrap_or_default();
    let is_current = validity.parse() == Ok(folder.validity);
    let uid = uid.parse().ok().filter(|uid| *uid > 0 && is_current);
    uid.ok_or_else(gone)
}

fn gone() -> Fault {
    Fault::Gone("the message is no longer in this folder".to_owned())
}

/// A whole message.
pub(super) async fn fetch(session: &mut Session, uid: u32, bytes_max: usize) -> Result<Bytes, Fault> {
    let size = one(session, uid, "RFC822.SIZE", 64 << 10).await?.size.ok_or_else(gone)?;
    if size > bytes_max as u64 {
        return Err(Fault::Refused(format!("the message has {size} bytes; at most {bytes_max} are fetched")));
    }
    // Some servers count before they mend line ends.
    let answer_max = bytes_max.saturating_add(bytes_max / 8).saturating_add(64 << 10);
    let bytes = one(session, uid, "BODY.PEEK[]", answer_max).await?.bytes.ok_or_else(gone)?;
    match bytes.len() > bytes_max {
        true => {
            Err(Fault::Refused(format!("the message is longer than the {bytes_max} bytes that are fetched")))
        }
        false => Ok(bytes),
    }
}

async fn one(session: &mut Session, uid: u32, item: &str, bytes_max: usize) -> Result<Fetched, Fault> {
    let command = Command::new(format!("UID FETCH {uid} (UID {item})"));
    let data = session.run(command, bytes_max).await?.ok("the message cannot be read")?;
    Fetched::all(data).find(|fetched| fetched.uid == uid).ok_or_else(gone)
}

/// Puts a message into a folder. Its numbering and UID there, where the server says.
pub(super) async fn append(
    session: &mut Session,
    path: &str,
    message: &[u8],
    flags: Flags,
) -> Result<Option<String>, Fault> {
    if memchr::memchr(0, message).is_some() {
        return Err(Fault::Refused("the message has a NUL byte, which mail servers refuse".to_owned()));
    }
    let command = Command::new("APPEND").folder(path)?.then(&format!(" ({}) ", flag_names(flags)));
    let command = command.literal(crlf_lines(message).into());
    let answer = session.change(command).await?;
    let named = answer.done.coded("APPENDUID").and_then(|named| match named {
        [validity, uid, ..] => Some(format!("{}-{}", validity.number()?, uid.number()?)),
        _ => None,
    });
    answer.ok("the message was not put into the folder")?;
    Ok(named)
}

/// Removes one message and no other.
pub(super) async fn remove(session: &mut Session, uid: u32) -> Result<(), Fault> {
    let mark = Command::new(format!("UID STORE {uid} +FLAGS.SILENT (\\Deleted)"));
    session.change(mark).await?.ok("the message was not removed")?;
    if !session.can("UIDPLUS") {
        // A plain EXPUNGE would remove what others only marked.
        return Err(Fault::Marked(
            "the message is marked as deleted; this server cannot remove one message alone (UIDPLUS), so it goes \
             when a mail program empties the folder"
                .to_owned(),
        ));
    }
    let expunge = Command::new(format!("UID EXPUNGE {uid}"));
    session.change(expunge).await?.ok("the message is marked as deleted, but was not removed").map(drop)
}

/// The messages that have exactly this ID.
pub(super) async fn find(session: &mut Session, id: &MessageId) -> Result<Vec<u32>, Fault> {
    let found = search(session, Command::new("HEADER Message-ID").string(id.as_str())?).await?;
    let found = found.newest(SAME_ID_MAX);
    if found.is_empty() {
        return Ok(Vec::new());
    }
    // Servers search for parts, and some of them only for words.
    let command = Command::new(format!("UID FETCH {found} (UID BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])"));
    let data = session.run(command, 1 << 20).await?.ok("the messages cannot be read")?;
    let same = |fetched: &Fetched| fetched.bytes.as_deref().is_some_and(|header| names(header, id));
    Ok(Fetched::all(data)
        .filter(|fetched| found.contains(fetched.uid) && same(fetched))
        .map(|it| it.uid)
        .collect())
}

/// Whether `Message-ID: <…>`, perhaps folded, has this ID.
fn names(header: &[u8], id: &MessageId) -> bool {
    let header = String::from_utf8_lossy(header);
    header.split_once(':').is_some_and(|(_, value)| value.split_whitespace().any(|word| word == id.as_str()))
}

/// The messages that have all of these words somewhere, as the server sees it.
pub(super) async fn search_words(session: &mut Session, words: &SearchWords) -> Result<Uids, Fault> {
    let mut command = Command::new("CHARSET UTF-8");
    for word in words.words() {
        command = command.then(" TEXT").string(word)?;
    }
    search(session, command).await
}

/// The Message-ID in a message's headers.
pub(super) fn message_id(message: &[u8]) -> Option<MessageId> {
    let headers = memchr::memmem::find(message, b"\r\n\r\n").map_or(message, |end| &message[..end + 4]);
    let parsed = mail_parser::MessageParser::default().parse_headers(headers)?;
    parsed.message_id().and_then(|id| MessageId::new(id).ok())
}
