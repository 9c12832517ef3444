//! What changed in a folder since the last look.
//!
//! A first look lists all UIDs and hands mails on page by page, newest first. Later ones ask only for what the
//! numbers of the folder say can have changed:
//!
//! - new mails, where the next UID moved on;
//! - flags, where the server's count of changes did (CONDSTORE); a server without one is asked for all flags;
//! - mails that are gone, where there are fewer than we know. The UIDs that are left come as ranges (ESEARCH), so
//!   QRESYNC would save nothing: we must know which mails we handed on anyway, to be safe from servers that
//!   report four billion as gone.

use std::collections::HashMap;

use bytes::Bytes;
use jiff::Timestamp;

use super::command::Command;
use super::fetched::Fetched;
use super::messages::key;
use super::response::Value;
use super::session::{Folder, Session};
use super::state::State;
use super::uids::Uids;
use crate::account::{Fault, MailChanges, NewMail};

/// Most mails in a page.
const PAGE_MAILS: usize = 200;
/// Most bytes of mails in a page, but for a mail that has more by itself.
const PAGE_BYTES: u64 = 8 << 20;
/// Most bytes of one mail: enough to show and find it by.
const MAIL_BYTES: u64 = 256 << 10;
/// Most mails of a folder.
const FOLDER_MAILS_MAX: u64 = 1_000_000;
/// What the UIDs or flags of all those take.
const LISTING_BYTES_MAX: usize = 96 << 20;

/// One page of what changed in the folder that is open.
pub(super) async fn changes(
    session: &mut Session,
    folder: Folder,
    since: Option<&str>,
) -> Result<MailChanges, Fault> {
    let (mut state, reset) = State::resume(since, &folder);
    let mut page = MailChanges { reset, total: Some(folder.exists), ..MailChanges::default() };
    let is_settled = state.todo.is_empty();
    list_new(session, &folder, &mut state).await?;
    if is_settled {
        list_flags(session, &folder, &mut state, &mut page).await?;
        list_gone(session, &folder, &mut state, &mut page).await?;
    }
    hand_on(session, &folder, &mut state, &mut page).await?;
    page.more = !state.todo.is_empty();
    page.state = state.to_string();
    Ok(page)
}

async fn list_new(session: &mut Session, folder: &Folder, state: &mut State) -> Result<(), Fault> {
    if folder.exists == 0 || folder.next.is_some_and(|next| next <= state.next) {
        return Ok(());
    }
    let found = search(session, Command::new(format!("UID {}:*", state.next))).await?;
    // `*` is the last message, however old it is.
    let new = found.without(&state.known);
    let last = new.last().map_or(state.next, |last| last.saturating_add(1));
    state.next = last.max(folder.next.unwrap_or(0));
    state.todo = state.todo.with(&new);
    Ok(())
}

async fn list_flags(
    session: &mut Session,
    folder: &Folder,
    state: &mut State,
    page: &mut MailChanges,
) -> Result<(), Fault> {
    let changed = match folder.modseq {
        // Nothing is known yet, or nothing changed.
        Some(modseq) if state.known.is_empty() || modseq == state.modseq => Vec::new(),
        Some(_) if state.modseq > 0 => {
            flags(session, &format!("1:* (FLAGS) (CHANGEDSINCE {})", state.modseq)).await?
        }
        _ if state.known.is_empty() => Vec::new(),
        _ => {
            let found = flags(session, "1:* (FLAGS)").await?;
            let found: Vec<_> = found.into_iter().filter(|(uid, _)| state.known.contains(*uid)).collect();
            state.changed_flags(&found)
        }
    };
    state.modseq = folder.modseq.unwrap_or(0);
    let known = changed.into_iter().filter(|(uid, _)| state.known.contains(*uid));
    page.flags = known.map(|(uid, flags)| (key(folder, uid), flags)).collect();
    Ok(())
}

async fn flags(session: &mut Session, what: &str) -> Result<Vec<(u32, crate::account::Flags)>, Fault> {
    let answer = session.run(Command::new(format!("UID FETCH {what}")), LISTING_BYTES_MAX).await?;
    let data = answer.ok("the flags cannot be read")?;
    Ok(Fetched::all(data).filter_map(|fetched| Some((fetched.uid, fetched.flags?))).collect())
}

async fn list_gone(
    session: &mut Session,
    folder: &Folder,
    state: &mut State,
    page: &mut MailChanges,
) -> Result<(), Fault> {
    if folder.exists == state.known.len() + state.todo.len() {
        return Ok(());
    }
    let there = match folder.exists {
        0 => Uids::default(),
        _ => search(session, Command::new("ALL")).await?,
    };
    let gone = state.known.without(&there);
    page.gone = gone.iter().map(|uid| key(folder, uid)).collect();
    state.known = state.known.without(&gone);
    state.todo = there.without(&state.known);
    Ok(())
}

/// The UIDs of messages that match.
pub(super) async fn search(session: &mut Session, what: Command) -> Result<Uids, Fault> {
    let begin = match session.can("ESEARCH") {
        true => "UID SEARCH RETURN (ALL) ",
        false => "UID SEARCH ",
    };
    let answer = session.run(what.after(begin), LISTING_BYTES_MAX).await?;
    let data = answer.ok("the search was refused")?;
    let mut found = Uids::default();
    for values in &data {
        found = found.with(&searched(values)?);
    }
    match found.len() > FOLDER_MAILS_MAX {
        true => Err(Fault::Refused(format!("the folder has more than {FOLDER_MAILS_MAX} messages"))),
        false => Ok(found),
    }
}

/// `SEARCH 1 2 3`, or `ESEARCH (TAG "h1") UID ALL 1:3`.
fn searched(values: &[Value]) -> Result<Uids, Fault> {
    let odd = || Fault::Nonsense("the answer to a search is no list of messages".to_owned());
    match values.split_first() {
        Some((first, rest)) if first.is("SEARCH") => {
            let uid = |value: &Value| value.number().and_then(|uid| u32::try_from(uid).ok());
            // A count of changes may follow, in parentheses.
            let numbers = rest.iter().filter(|value| value.list().is_none());
            numbers.map(|value| uid(value).ok_or_else(odd)).collect()
        }
        Some((first, rest)) if first.is("ESEARCH") => {
            let all = rest.iter().position(|value| value.is("ALL")).and_then(|at| rest.get(at + 1));
            all.map_or(Ok(Uids::default()), |all| all.word().and_then(Uids::parse).ok_or_else(odd))
        }
        _ => Ok(Uids::default()),
    }
}

/// Fetches the newest mails that are still to come, as many as a page takes.
async fn hand_on(
    session: &mut Session,
    folder: &Folder,
    state: &mut State,
    page: &mut MailChanges,
) -> Result<(), Fault> {
    let asked = state.todo.newest(PAGE_MAILS);
    if asked.is_empty() {
        return Ok(());
    }
    let items = "(UID FLAGS INTERNALDATE RFC822.SIZE)";
    let answer = session.run(Command::new(format!("UID FETCH {asked} {items}")), 4 << 20).await?;
    let mut listed: Vec<Fetched> = Fetched::all(answer.ok("the messages cannot be listed")?).collect();
    listed.retain(|fetched| asked.contains(fetched.uid) && fetched.flags.is_some());
    listed.sort_by_key(|fetched| std::cmp::Reverse(fetched.uid));
    listed.dedup_by_key(|fetched| fetched.uid);

    let fits = fitting(&listed);
    let missing = asked.without(&listed.iter().map(|fetched| fetched.uid).collect());
    let taken: Uids = listed[..fits].iter().map(|fetched| fetched.uid).collect();
    let mut bodies = bodies(session, &taken).await?;
    page.new = listed.into_iter().take(fits).map(|fetched| new_mail(folder, fetched, &mut bodies)).collect();
    state.known = state.known.with(&taken);
    // Those that were not listed went away meanwhile.
    state.todo = state.todo.without(&taken).without(&missing);
    Ok(())
}

/// How many of them a page takes, at least one.
fn fitting(listed: &[Fetched]) -> usize {
    let mut bytes = 0;
    let fits = listed.iter().take_while(|fetched| {
        bytes += fetched.size.unwrap_or(MAIL_BYTES).min(MAIL_BYTES);
        bytes <= PAGE_BYTES
    });
    fits.count().max(1).min(listed.len())
}

fn new_mail(folder: &Folder, fetched: Fetched, bodies: &mut HashMap<u32, Bytes>) -> NewMail {
    let bytes = bodies.remove(&fetched.uid).unwrap_or_default();
    NewMail {
        key: key(folder, fetched.uid),
        flags: fetched.flags.unwrap_or_default(),
        received: fetched.received.unwrap_or(Timestamp::UNIX_EPOCH),
        size: fetched.size.unwrap_or(bytes.len() as u64),
        bytes,
    }
}

/// The beginnings of messages. One that the server cannot read, such as its own broken file, is left out and
/// does not keep the others from us.
async fn bodies(session: &mut Session, uids: &Uids) -> Result<HashMap<u32, Bytes>, Fault> {
    if uids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut found = some_bodies(session, uids).await?;
    let missing: Vec<u32> = uids.iter().filter(|uid| !found.contains_key(uid)).collect();
    for uid in missing.into_iter().filter(|_| uids.len() > 1) {
        found.extend(some_bodies(session, &std::iter::once(uid).collect()).await?);
    }
    Ok(found)
}

async fn some_bodies(session: &mut Session, uids: &Uids) -> Result<HashMap<u32, Bytes>, Fault> {
    let command = Command::new(format!("UID FETCH {uids} (UID BODY.PEEK[]<0.{MAIL_BYTES}>)"));
    let bytes_max = (uids.len() * (MAIL_BYTES + 4096)).min(2 * PAGE_BYTES + MAIL_BYTES);
    let answer = session.run(command, usize::try_from(bytes_max).unwrap_or(usize::MAX)).await?;
    // A server that has no time now would leave mails without a word in the index, and nobody asks for them again.
    if ["UNAVAILABLE", "INUSE", "LIMIT"].iter().any(|name| answer.done.coded(name).is_some()) {
        answer.ok("the messages cannot be read now")?;
        return Ok(HashMap::new());
    }
    let all = Fetched::all(answer.data).filter(|fetched| uids.contains(fetched.uid));
    Ok(all.filter_map(|fetched| Some((fetched.uid, fetched.bytes?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_at_least_one_mail_and_not_much_more_than_its_bytes() {
        let mail = |size| Fetched { uid: 1, size: Some(size), ..Fetched::default() };
        assert_eq!(fitting(&[mail(50 << 20)]), 1);
        assert_eq!(fitting(&vec![mail(50 << 20); 200]), 32);
        assert_eq!(fitting(&vec![mail(1000); 200]), 200);
        assert_eq!(fitting(&[]), 0);
    }
}
