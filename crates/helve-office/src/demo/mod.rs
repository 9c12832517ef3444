//! A small made-up data set for the account `local`, to try the tools before anything is connected.
//!
//! Each thing has its own id (`…@demo.helve.invalid`), so that removing finds exactly what loading made, and
//! nothing else.

mod mails;
mod objects;
mod write;

use bytes::Bytes;
use jiff::Zoned;

use crate::Account;
use crate::account::{Expected, Fault, Flags, Folder, FolderRole, Holds, MailStore, ObjectStore, PutFault};
use crate::text::MessageId;
use mails::{DemoMail, MAILS, Place};
use objects::{CONTACTS, EVENTS, TASKS};

/// What every id of the demo ends with. The domain can never be anybody's.
const DOMAIN: &str = "demo.helve.invalid";

/// How much there is, of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct DemoCount {
    /// How many mails.
    pub mails: usize,
    /// How many events.
    pub events: usize,
    /// How many tasks.
    pub tasks: usize,
    /// How many contacts.
    pub contacts: usize,
}

/// Puts the demo into an account, with dates around `now`. What is there already stays as it is.
pub async fn load(account: &Account, now: &Zoned) -> Result<DemoCount, Fault> {
    let mut count = DemoCount::default();
    let (mails, objects) = stores(account)?;
    let folders = mails.folders().await?;
    for mail in MAILS {
        let folder = folder_of(mail, &folders)?;
        if mails.find(&folder.path, &message_id(mail.id)).await?.is_empty() {
            let flags = Flags { seen: mail.seen, ..Flags::default() };
            let bytes = write::mail(mail, account, now).map_err(|error| Fault::Refused(error.to_string()))?;
            mails.append(&folder.path, Bytes::from(bytes), flags).await?;
            count.mails += 1;
        }
    }
    for event in EVENTS {
        count.events += put(objects, Kind::Event, event.id, write::event(event, account, now)).await?;
    }
    for task in TASKS {
        count.tasks += put(objects, Kind::Task, task.id, write::task(task, now)).await?;
    }
    for contact in CONTACTS {
        count.contacts += put(objects, Kind::Contact, contact.id, write::contact(contact)).await?;
    }
    Ok(count)
}

/// Takes the demo out of an account again.
pub async fn remove(account: &Account) -> Result<DemoCount, Fault> {
    let mut count = DemoCount::default();
    let (mails, objects) = stores(account)?;
    let folders = mails.folders().await?;
    for mail in MAILS {
        // The user may have moved it meanwhile.
        let id = message_id(mail.id);
        for folder in &folders {
            for key in mails.find(&folder.path, &id).await? {
                mails.remove(&folder.path, &key).await?;
                count.mails += 1;
            }
        }
    }
    for event in EVENTS {
        count.events += delete(objects, Kind::Event, event.id).await?;
    }
    for task in TASKS {
        count.tasks += delete(objects, Kind::Task, task.id).await?;
    }
    for contact in CONTACTS {
        count.contacts += delete(objects, Kind::Contact, contact.id).await?;
    }
    Ok(count)
}

fn stores(account: &Account) -> Result<(&dyn MailStore, &dyn ObjectStore), Fault> {
    match (&account.mails, &account.objects) {
        (Some(mails), Some(objects)) => Ok((&**mails, &**objects)),
        _ => Err(Fault::Refused(format!("`{}` has no place for a demo", account.id))),
    }
}

fn folder_of<'f>(mail: &DemoMail, folders: &'f [Folder]) -> Result<&'f Folder, Fault> {
    let role = match mail.place {
        Place::Inbox => FolderRole::Inbox,
        Place::Sent => FolderRole::Sent,
    };
    let found = folders.iter().find(|folder| folder.role == Some(role));
    found.ok_or_else(|| Fault::Gone(format!("there is no folder for {}", role.as_str())))
}

fn message_id(id: &str) -> MessageId {
    MessageId::new(&format!("<{id}@{DOMAIN}>")).expect("ids of the demo are plain")
}

/// The kinds of objects.
#[derive(Clone, Copy)]
enum Kind {
    Event,
    Task,
    Contact,
}

impl Kind {
    fn is_in(self, holds: Holds) -> bool {
        match self {
            Self::Event => holds.events,
            Self::Task => holds.tasks,
            Self::Contact => holds.contacts,
        }
    }

    fn uid(self, id: &str) -> String {
        let kind = match self {
            Self::Event => "event",
            Self::Task => "task",
            Self::Contact => "contact",
        };
        format!("{kind}-{id}@{DOMAIN}")
    }
}

async fn put(objects: &dyn ObjectStore, kind: Kind, id: &str, bytes: Vec<u8>) -> Result<usize, Fault> {
    let href = href(objects, kind, id).await?;
    match objects.put(&href, Bytes::from(bytes), Expected::Nothing).await {
        Ok(_) => Ok(1),
        // It was loaded before.
        Err(PutFault::Conflict) => Ok(0),
        Err(PutFault::Fault(fault)) => Err(fault),
    }
}

async fn delete(objects: &dyn ObjectStore, kind: Kind, id: &str) -> Result<usize, Fault> {
    let href = href(objects, kind, id).await?;
    let found = match objects.get(&href).await {
        Ok(found) => found,
        Err(Fault::Gone(_)) => return Ok(0),
        Err(fault) => return Err(fault),
    };
    match objects.delete(&href, &found.version).await {
        Ok(()) => Ok(1),
        Err(PutFault::Conflict) => Err(Fault::Refused("it is being changed right now; try again".to_owned())),
        Err(PutFault::Fault(fault)) => Err(fault),
    }
}

async fn href(objects: &dyn ObjectStore, kind: Kind, id: &str) -> Result<String, Fault> {
    let collections = objects.collections().await?;
    let found = collections.iter().find(|one| one.writable && kind.is_in(one.holds));
    let found = found.ok_or_else(|| Fault::Gone("there is no collection for it".to_owned()))?;
    Ok(objects.new_href(&found.href, &kind.uid(id)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::ical::Document;
    use crate::mail::Mail;

    fn nobody() -> Account {
        Account {
            id: "local".to_owned(),
            kind: "embedded".to_owned(),
            person: None,
            owner: None,
            mails: None,
            submit: None,
            objects: None,
        }
    }

    #[test]
    fn everything_of_the_demo_can_be_written_and_read_on_any_day() {
        for day in ["2026-11-18", "2027-02-28", "2028-02-29", "2026-03-29"] {
            let now: Zoned = format!("{day}T08:00[Europe/Berlin]").parse().unwrap();
            for mail in MAILS {
                let bytes = write::mail(mail, &nobody(), &now).unwrap();
                let read = Mail::read(&bytes).unwrap();
                assert_eq!(read.subject, mail.subject);
            }
            let events = EVENTS.iter().map(|event| write::event(event, &nobody(), &now));
            let tasks = TASKS.iter().map(|task| write::task(task, &now));
            for bytes in events.chain(tasks).chain(CONTACTS.iter().map(write::contact)) {
                let text = String::from_utf8(bytes).unwrap();
                let read = Document::parse(text.as_bytes()).unwrap();
                assert_eq!(read.print(), text.as_bytes());
                assert!(text.lines().all(|line| line.len() <= 76), "{text}");
            }
        }
    }

    #[test]
    fn no_two_things_of_the_demo_have_one_id() {
        let mails: Vec<_> = MAILS.iter().map(|mail| mail.id).collect();
        let events: Vec<_> = EVENTS.iter().map(|event| event.id).collect();
        let tasks: Vec<_> = TASKS.iter().map(|task| task.id).collect();
        for ids in [&mails, &events, &tasks] {
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
        }
        let answered = MAILS.iter().filter_map(|mail| mail.answers);
        assert!(answered.into_iter().all(|id| mails.contains(&id)));
        assert_eq!((mails.len(), events.len(), tasks.len(), CONTACTS.len()), (25, 15, 10, 8));
    }
}
