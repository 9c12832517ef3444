//! Folders of mails in the office file.

use std::sync::Arc;

use bytes::Bytes;
use helve_core::BoxFuture;
use helve_core::json::sha256_hex;
use helve_store::office::{
    AccountRow, CollectionRow, MailPage, NewCollection, NewMailRow, OfficeDb, OfficeError, Sameness,
};
use jiff::Timestamp;

use super::LOCAL;
use crate::account::{Fault, Flags, Folder, FolderRole, MailChanges, MailStore, NewMail};
use crate::sync::Indexing;
use crate::text::{Address, MessageId};

/// How many mails one page of changes has.
const PAGE: usize = 100;

/// The largest mail that the file takes.
const BYTES_MAX: usize = 64 << 20;

const FOLDERS: [(&str, FolderRole); 4] = [
    ("Inbox", FolderRole::Inbox),
    ("Drafts", FolderRole::Drafts),
    ("Sent", FolderRole::Sent),
    ("Archive", FolderRole::Archive),
];

/// The embedded account's mails. What is written here is in the file at once, index included, so it needs no sync.
#[derive(Clone)]
pub struct EmbeddedMails {
    db: OfficeDb,
    own: Option<Arc<Address>>,
}

impl EmbeddedMails {
    /// The mails in a file, of a person with this address. Account and folders are made on first use.
    pub fn new(db: &OfficeDb, own: Option<Address>) -> Self {
        Self { db: db.clone(), own: own.map(Arc::new) }
    }

    /// All folders, made where there are none.
    async fn rows(&self) -> Result<Vec<CollectionRow>, OfficeError> {
        let is_mail = |row: &CollectionRow| !(row.told.events || row.told.tasks || row.told.contacts);
        let mut rows = self.db.collections(Some(LOCAL)).await?;
        rows.retain(is_mail);
        if !rows.is_empty() {
            return Ok(rows);
        }
        if self.db.account(LOCAL).await?.is_none() {
            self.db.add_account(account_row()).await?;
        }
        self.db.tell_collections(LOCAL, true, folders()).await
    }

    async fn row(&self, folder: &str) -> Result<CollectionRow, Fault> {
        let rows = self.rows().await.map_err(broken)?;
        let found = rows.into_iter().find(|row| row.told.href == folder);
        found.ok_or_else(|| Fault::Gone("the local account has no such folder".to_owned()))
    }

    /// Puts messages into a folder, each once: one that the account has already, byte by byte, is left out. How many
    /// are new.
    pub(crate) async fn import(&self, role: FolderRole, mails: Vec<NewMail>) -> Result<usize, OfficeError> {
        let rows = self.rows().await?;
        let Some(row) = rows.iter().find(|row| row.told.role.as_deref() == Some(role.as_str())) else {
            return Ok(0);
        };
        let new = mails.iter().map(|mail| self.indexed(mail, role)).collect();
        let page = MailPage { new, known: Sameness::ByDigest, ..MailPage::default() };
        Ok(self.db.change_mails(row.id, page).await?.added)
    }

    fn indexed(&self, mail: &NewMail, role: FolderRole) -> NewMailRow {
        let indexing = Indexing { own: self.own.as_deref(), role: Some(role) };
        NewMailRow { raw: Some(mail.bytes.to_vec()), ..indexing.row(mail) }
    }
}

/// A name for a new mail in a folder.
pub(crate) fn new_key(bytes: &[u8]) -> String {
    let digest = sha256_hex(bytes);
    format!("{}-{}", Timestamp::now().as_microsecond(), &digest[..16])
}

fn account_row() -> AccountRow {
    AccountRow {
        id: LOCAL.to_owned(),
        kind: "embedded".to_owned(),
        address: None,
        name: None,
        owner: None,
        settings: "{}".to_owned(),
        created_at: Timestamp::now(),
        synced_at: None,
        trouble: None,
    }
}

/// The folders that the account has.
pub(crate) fn folders() -> Vec<NewCollection> {
    FOLDERS.map(collection).into()
}

fn collection((name, role): (&str, FolderRole)) -> NewCollection {
    NewCollection {
        href: name.to_owned(),
        name: name.to_owned(),
        role: Some(role.as_str().to_owned()),
        writable: true,
        ..NewCollection::default()
    }
}

fn role_of(row: &CollectionRow) -> Option<FolderRole> {
    FolderRole::ALL.into_iter().find(|role| row.told.role.as_deref() == Some(role.as_str()))
}

/// The file is local: what does not work now may work in a moment, and nothing was done.
fn broken(error: OfficeError) -> Fault {
    Fault::Unreachable(error.to_string())
}

fn gone() -> Fault {
    Fault::Gone("the mail is not there any more".to_owned())
}

impl MailStore for EmbeddedMails {
    fn folders(&self) -> BoxFuture<'_, Result<Vec<Folder>, Fault>> {
        Box::pin(async move {
            let rows = self.rows().await.map_err(broken)?;
            let folder =
                |row: CollectionRow| Folder { role: role_of(&row), path: row.told.href, name: row.told.name };
            Ok(rows.into_iter().map(folder).collect())
        })
    }

    // The file keeps no history, so a reader who has come to the end begins anew.
    fn changes<'a>(
        &'a self,
        folder: &'a str,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<MailChanges, Fault>> {
        Box::pin(async move {
            let row = self.row(folder).await?;
            let behind: Option<i64> = since.and_then(|since| since.parse().ok());
            let found = self.db.mails_behind(row.id, behind.unwrap_or(0), PAGE).await.map_err(broken)?;
            let more = found.len() == PAGE;
            let last = found.last().filter(|_| more).map(|(mail, _)| mail.id.to_string());
            let new = found.into_iter().map(|(mail, raw)| NewMail {
                key: mail.key,
                flags: Flags {
                    seen: mail.flags.seen,
                    answered: mail.flags.answered,
                    flagged: mail.flags.flagged,
                    draft: mail.flags.draft,
                },
                received: mail.date,
                size: mail.size,
                bytes: raw.unwrap_or_default().into(),
            });
            Ok(MailChanges {
                reset: behind.is_none(),
                new: new.collect(),
                state: last.unwrap_or_default(),
                more,
                ..MailChanges::default()
            })
        })
    }

    fn fetch<'a>(
        &'a self,
        folder: &'a str,
        key: &'a str,
        bytes_max: usize,
    ) -> BoxFuture<'a, Result<Bytes, Fault>> {
        Box::pin(async move {
            let row = self.row(folder).await?;
            let raw = self.db.raw_mail(row.id, key).await.map_err(broken)?.ok_or_else(gone)?;
            match raw.len() > bytes_max {
                true => {
                    Err(Fault::Refused(format!("the mail has {} bytes; the limit is {bytes_max}", raw.len())))
                }
                false => Ok(raw.into()),
            }
        })
    }

    fn append<'a>(
        &'a self,
        folder: &'a str,
        message: Bytes,
        flags: Flags,
    ) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        Box::pin(async move {
            if message.len() > BYTES_MAX {
                return Err(Fault::Refused(format!(
                    "the local account takes mails of {BYTES_MAX} bytes at most"
                )));
            }
            let row = self.row(folder).await?;
            let key = new_key(&message);
            let size = message.len() as u64;
            let mail = NewMail { key: key.clone(), flags, received: Timestamp::now(), size, bytes: message };
            let indexing = Indexing { own: self.own.as_deref(), role: role_of(&row) };
            let new = NewMailRow { raw: Some(mail.bytes.to_vec()), ..indexing.row(&mail) };
            let page = MailPage { new: vec![new], ..MailPage::default() };
            self.db.change_mails(row.id, page).await.map_err(broken)?;
            Ok(Some(key))
        })
    }

    fn remove<'a>(&'a self, folder: &'a str, key: &'a str) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let row = self.row(folder).await?;
            let page = MailPage { gone: vec![key.to_owned()], ..MailPage::default() };
            self.db.change_mails(row.id, page).await.map_err(broken)?;
            Ok(())
        })
    }

    fn find<'a>(&'a self, folder: &'a str, id: &'a MessageId) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        Box::pin(async move {
            let row = self.row(folder).await?;
            self.db.mail_keys(row.id, id.as_str()).await.map_err(broken)
        })
    }
}
