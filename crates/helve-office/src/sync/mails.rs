//! Mails: pulled into the file page by page.
//!
//! One page is one transaction, with the state behind it, so a sync that is cut short goes on where it was.

use helve_core::json::sha256_hex;
use helve_store::office::{
    CollectionRow, MailFlags, MailPage, MailPerson, NewCollection, NewMailRow, OfficeDb, OfficeError,
};
use jiff::{SignedDuration, Timestamp};

use crate::Account;
use crate::account::{Fault, Flags, Folder, FolderRole, MailChanges, MailStore, NewMail};
use crate::mail::{Body, Correspondent, Mail, reply};
use crate::text::{Address, cleaned};

/// How many pages of one folder are taken in one sync: a server that never comes to an end is left for the next.
const PAGES_MAX: usize = 100_000;

/// How many folders an account may have.
const FOLDERS_MAX: usize = 2_000;

/// How much of a mail can be found by its words: as much text as the beginning of a mail has that a sync fetches.
/// `search_emails` says so.
const TEXT_BYTES_MAX: usize = 256 << 10;

/// How many of a mail's people are kept.
const PEOPLE_MAX: usize = 100;

const PREVIEW_CHARS_MAX: usize = 160;

/// How far a sync is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailProgress {
    /// The folder at hand, as people know it.
    pub folder: String,
    /// Which one it is, counted from one.
    pub number: usize,
    /// Of how many.
    pub of: usize,
    /// How many new mails of it were taken so far.
    pub taken: usize,
    /// How many mails it has, where the server says.
    pub total: Option<u64>,
}

/// What a sync did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MailsSynced {
    /// Mails that are new.
    pub added: usize,
    /// Mails that are gone.
    pub gone: usize,
}

/// Brings the file up to date with an account's server. The embedded account is the file, and needs none.
pub async fn sync_mails(
    db: &OfficeDb,
    account: &Account,
    progress: &(dyn Fn(MailProgress) + Send + Sync),
) -> Result<MailsSynced, Fault> {
    let mut synced = MailsSynced::default();
    let Some(store) = account.mails.as_deref().filter(|_| account.kind != "embedded") else {
        return Ok(synced);
    };
    let mut rows = tell_folders(db, account, store).await?;
    // What is in other folders too is known by then, and counted there.
    rows.sort_by_key(|row| row.told.role.as_deref() == Some(FolderRole::Everything.as_str()));
    let of = rows.len();
    for (number, row) in rows.into_iter().enumerate() {
        let name = row.told.name.clone();
        let tell = |taken, total| {
            progress(MailProgress { folder: name.clone(), number: number + 1, of, taken, total });
        };
        pull(db, store, row, &mut synced, &tell).await?;
    }
    Ok(synced)
}

/// Takes over which folders an account has.
pub(crate) async fn tell_folders(
    db: &OfficeDb,
    account: &Account,
    store: &dyn MailStore,
) -> Result<Vec<CollectionRow>, Fault> {
    let folders = store.folders().await?;
    if folders.len() > FOLDERS_MAX {
        return Err(Fault::Nonsense(format!("the account has more than {FOLDERS_MAX} folders")));
    }
    let told = folders.into_iter().map(|folder: Folder| NewCollection {
        href: folder.path,
        name: cleaned(&folder.name, 200),
        role: folder.role.map(|role| role.as_str().to_owned()),
        writable: true,
        ..NewCollection::default()
    });
    db.tell_collections(&account.id, true, told.collect()).await.map_err(broken)
}

async fn pull(
    db: &OfficeDb,
    store: &dyn MailStore,
    row: CollectionRow,
    synced: &mut MailsSynced,
    tell: &(dyn Fn(usize, Option<u64>) + Send + Sync),
) -> Result<(), Fault> {
    let mut state = row.state.clone();
    let mut taken = 0;
    let role = FolderRole::ALL.into_iter().find(|role| row.told.role.as_deref() == Some(role.as_str()));
    let mut changes = store.changes(&row.told.href, state.as_deref()).await?;
    for _ in 0..PAGES_MAX {
        let (more, total, next) = (changes.more, changes.total, changes.state.clone());
        let is_stuck = more && state.as_deref() == Some(&next);
        // The next page is on its way while this one is read and written.
        let write = async { db.change_mails(row.id, read(changes, role).await?).await.map_err(broken) };
        let fetch = async {
            match more && !is_stuck {
                true => Ok(Some(store.changes(&row.told.href, Some(&next)).await)),
                false => Ok(None),
            }
        };
        // A page that cannot be written ends it at once; one that cannot be fetched, after this one is written.
        let (changed, fetched) = tokio::try_join!(write, fetch)?;
        synced.added += changed.added;
        synced.gone += changed.removed;
        taken += changed.added + changed.known;
        tell(taken, total);
        if is_stuck {
            return Err(Fault::Nonsense(
                "the server says that there is more, and never comes to it".to_owned(),
            ));
        }
        let Some(fetched) = fetched else { return Ok(()) };
        changes = fetched?;
        state = Some(next);
    }
    Ok(())
}

/// Takes a page of messages apart, on a thread that may take its time.
async fn read(changes: MailChanges, role: Option<FolderRole>) -> Result<MailPage, Fault> {
    let work = move || {
        let indexing = Indexing { own: None, role };
        MailPage {
            reset: changes.reset,
            new: changes.new.iter().map(|mail| indexing.row(mail)).collect(),
            flags: changes.flags.into_iter().map(|(key, flags)| (key, marks(flags))).collect(),
            gone: changes.gone,
            state: Some(changes.state),
            synced_at: (!changes.more).then(Timestamp::now),
            ..MailPage::default()
        }
    };
    let ended = |_| Fault::Unreachable("the process ends".to_owned());
    tokio::task::spawn_blocking(work).await.map_err(ended)
}

/// How mails of a folder become rows.
pub(crate) struct Indexing<'a> {
    /// The account's own address, where `From` can be believed: in what the person imports. On a server anybody may have
    /// written it, and only the folder says who wrote a mail.
    pub(crate) own: Option<&'a Address>,
    /// What the folder is for.
    pub(crate) role: Option<FolderRole>,
}

impl Indexing<'_> {
    /// What is kept of a mail. Of one that cannot be read, that it is there.
    pub(crate) fn row(&self, new: &NewMail) -> NewMailRow {
        let row = NewMailRow {
            key: new.key.clone(),
            date: new.received,
            flags: marks(new.flags),
            unsent: new.flags.draft || self.role == Some(FolderRole::Drafts),
            size: new.size,
            digest: sha256_hex(&new.bytes),
            ..NewMailRow::default()
        };
        match Mail::read(&new.bytes) {
            Ok(mail) => self.read_row(&mail, row),
            Err(error) => NewMailRow { preview: format!("({error})"), ..row },
        }
    }

    fn read_row(&self, mail: &Mail, row: NewMailRow) -> NewMailRow {
        let body = match &mail.body {
            Body::Text(text) => text.as_str(),
            Body::TooManyParts => "(the mail has so many parts that its body was not read)",
        };
        let (topic, is_reply) = reply::topic(&mail.subject);
        let related = mail.references.iter().chain(&mail.in_reply_to).map(|id| id.as_str().to_owned());
        NewMailRow {
            message_id: mail.message_id.as_ref().map(|id| id.as_str().to_owned()),
            related: related.collect(),
            topic,
            is_reply,
            people: people(mail),
            own: self.is_own(mail),
            date: written_at(mail, row.date),
            attachments: u32::try_from(mail.attachments.len()).unwrap_or(u32::MAX),
            preview: cleaned(&body[..body.floor_char_boundary(2_000)], PREVIEW_CHARS_MAX),
            body: body[..body.floor_char_boundary(TEXT_BYTES_MAX)].to_owned(),
            subject: mail.subject.clone(),
            ..row
        }
    }

    fn is_own(&self, mail: &Mail) -> bool {
        let is_mine = |person: &Correspondent| {
            self.own.is_some_and(|own| own.as_str().eq_ignore_ascii_case(&person.address))
        };
        match self.role {
            Some(FolderRole::Sent) => true,
            Some(FolderRole::Inbox | FolderRole::Junk | FolderRole::Trash | FolderRole::Drafts) => false,
            Some(FolderRole::Archive | FolderRole::Everything) | None => mail.from.iter().any(is_mine),
        }
    }
}

/// When a mail was written. One from the future would stand above all others for good.
fn written_at(mail: &Mail, received: Timestamp) -> Timestamp {
    let latest = received.saturating_add(SignedDuration::from_hours(24)).unwrap_or(received);
    mail.date.filter(|date| *date <= latest).unwrap_or(received)
}

fn people(mail: &Mail) -> Vec<MailPerson> {
    let lists = [("from", &mail.from), ("to", &mail.to), ("cc", &mail.cc), ("bcc", &mail.bcc)];
    let all = lists.into_iter().flat_map(|(role, people)| people.iter().map(move |person| (role, person)));
    all.take(PEOPLE_MAX)
        .map(|(role, person)| MailPerson {
            role: role.to_owned(),
            name: person.name.clone(),
            address: person.address.clone(),
        })
        .collect()
}

fn marks(flags: Flags) -> MailFlags {
    MailFlags { seen: flags.seen, answered: flags.answered, flagged: flags.flagged, draft: flags.draft }
}

fn broken(error: OfficeError) -> Fault {
    Fault::Unreachable(error.to_string())
}
