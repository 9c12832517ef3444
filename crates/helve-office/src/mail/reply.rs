//! Replies and forwards: subject, recipients, thread and quotes.

use jiff::tz::TimeZone;

use super::compose::Thread;
use super::read::{Body, Correspondent, Mail};
use crate::text::{Address, Mailbox};

/// Prefixes of replies, in the languages that mail programs write them in.
const REPLY: [&str; 6] = ["re:", "aw:", "antw:", "sv:", "vs:", "odp:"];

/// Prefixes of forwards.
const FORWARD: [&str; 5] = ["fwd:", "fw:", "wg:", "tr:", "vb:"];

/// Who gets a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Whom the mail came from, or where they want answers.
    Sender,
    /// Everybody whom the mail went to as well.
    All,
}

/// The thread that a reply to a mail belongs to.
pub fn thread(original: &Mail) -> Thread {
    let mut references = match original.references.is_empty() {
        // RFC 5322 3.6.4: a parent without References has its own parent in In-Reply-To, if that is one.
        true if original.in_reply_to.len() == 1 => original.in_reply_to.clone(),
        true => Vec::new(),
        false => original.references.clone(),
    };
    references.extend(original.message_id.clone());
    Thread { in_reply_to: original.message_id.clone(), references }
}

/// The subject of a reply: `Re: ` once, whatever was there.
pub fn reply_subject(original: &str) -> String {
    prefixed("Re:", &REPLY, original)
}

/// What a subject is about, without prefixes of replies and forwards and in small letters, and whether it says that
/// it is a reply.
pub fn topic(subject: &str) -> (String, bool) {
    let lower = subject.to_lowercase();
    let mut rest = lower.trim();
    let mut is_reply = false;
    loop {
        let reply = REPLY.iter().find_map(|prefix| rest.strip_prefix(prefix));
        let Some(shorter) = reply.or_else(|| FORWARD.iter().find_map(|prefix| rest.strip_prefix(prefix)))
        else {
            return (rest.to_owned(), is_reply);
        };
        is_reply |= reply.is_some();
        rest = shorter.trim_start();
    }
}

/// The subject of a forward.
pub fn forward_subject(original: &str) -> String {
    prefixed("Fwd:", &FORWARD, original)
}

fn prefixed(prefix: &str, known: &[&str], original: &str) -> String {
    let original = original.trim();
    let lower = original.to_lowercase();
    if known.iter().any(|known| lower.starts_with(known)) {
        return original.to_owned();
    }
    let room = 998 - prefix.len() - 1;
    let end = original.char_indices().nth(room).map_or(original.len(), |(at, _)| at);
    format!("{prefix} {}", &original[..end]).trim_end().to_owned()
}

/// Who gets a reply: to and cc. The own addresses are left out, unless the mail was one's own: then it goes to those
/// whom that went to. Addresses that mail may not go to are left out too.
pub fn recipients(original: &Mail, own: &[Address], audience: Audience) -> (Vec<Mailbox>, Vec<Mailbox>) {
    let is_own = |mailbox: &Mailbox| own.iter().any(|own| own.is_same_mailbox(mailbox.address()));
    let mailboxes =
        |people: &[Correspondent]| people.iter().filter_map(Correspondent::mailbox).collect::<Vec<_>>();
    let wanted = if original.reply_to.is_empty() { &original.from } else { &original.reply_to };
    let (mut to, mut cc) = (mailboxes(wanted), Vec::new());
    if !to.is_empty() && to.iter().all(is_own) {
        to = mailboxes(&original.to);
        if audience == Audience::All {
            cc = mailboxes(&original.cc);
        }
    } else if audience == Audience::All {
        cc = mailboxes(&original.to);
        cc.extend(mailboxes(&original.cc));
    }
    let mut seen: Vec<Mailbox> = Vec::new();
    let mut once = |list: Vec<Mailbox>| -> Vec<Mailbox> {
        let mut kept = Vec::new();
        for mailbox in list {
            let known = seen.iter().any(|seen| seen.address().is_same_mailbox(mailbox.address()));
            if !known && !is_own(&mailbox) {
                seen.push(mailbox.clone());
                kept.push(mailbox);
            }
        }
        kept
    };
    (once(to), once(cc))
}

/// The text of a reply: what is said, and below it the original with `> ` before each line, as far as it fits.
pub fn quoted(said: &str, original: &Mail, zone: &TimeZone, bytes_max: usize) -> String {
    let page = original.page(0, bytes_max);
    let mut text = format!("{}\n\n{}\n", said.trim_end(), attribution(original, zone));
    for line in page.text.trim_end().lines() {
        text.push_str(if line.starts_with('>') { ">" } else { "> " });
        text.push_str(line);
        text.push('\n');
    }
    if page.next.is_some() {
        text.push_str("> […]\n");
    }
    text
}

/// The text of a forward: what is said, and below it the headers and the body of the original, as far as it fits.
pub fn forwarded(said: &str, original: &Mail, zone: &TimeZone, bytes_max: usize) -> String {
    let page = original.page(0, bytes_max);
    let list = |people: &[Correspondent]| people.iter().map(shown).collect::<Vec<_>>().join(", ");
    let mut text = format!("{}\n\n---------- Forwarded message ----------\n", said.trim_end());
    text.push_str(&format!("From: {}\n", list(&original.from)));
    if let Some(date) = written_at(original, zone) {
        text.push_str(&format!("Date: {date}\n"));
    }
    text.push_str(&format!("Subject: {}\nTo: {}\n", original.subject, list(&original.to)));
    if !original.cc.is_empty() {
        text.push_str(&format!("Cc: {}\n", list(&original.cc)));
    }
    text.push('\n');
    text.push_str(match original.body {
        Body::Text(_) => page.text,
        Body::TooManyParts => "[the body could not be read]",
    });
    if page.next.is_some() {
        text.push_str("\n[…]\n");
    }
    text
}

/// A text as HTML: escaped, with its lines. What a stranger wrote as HTML is never passed on as such.
pub fn as_html(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    format!("<div style=\"white-space: pre-wrap\">{escaped}</div>")
}

fn attribution(original: &Mail, zone: &TimeZone) -> String {
    let who = original.from.first().map_or_else(|| "somebody".to_owned(), shown);
    match written_at(original, zone) {
        Some(date) => format!("On {date}, {who} wrote:"),
        None => format!("{who} wrote:"),
    }
}

fn written_at(original: &Mail, zone: &TimeZone) -> Option<String> {
    original.date.map(|date| date.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M %:z").to_string())
}

fn shown(person: &Correspondent) -> String {
    match &person.name {
        Some(name) => format!("{name} <{}>", person.address),
        None => person.address.clone(),
    }
}
