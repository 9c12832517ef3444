//! What a caller has in front of them: their accounts, and the folders and mails in these.

use std::sync::Arc;

use bytes::Bytes;
use helve::{Context, ErrorCode, ToolError};
use helve_store::office::{CollectionRow, MailPage, MailRow, OfficeDb};
use jiff::Timestamp;

use super::shown::{broken, check_of, parse_id};
use crate::account::{Fault, Flags, FolderRole, MailStore, NewMail};
use crate::embedded::EmbeddedOutbox;
use crate::mail::Mail;
use crate::sync::{Indexing, tell_folders};
use crate::text::{Address, Mailbox, MessageId};
use crate::{Account, Office};

/// The largest mail that is read or written.
pub(super) const MAIL_BYTES_MAX: usize = 64 << 20;

/// The accounts with mails that a caller may use.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) office: Arc<Office>,
    pub(super) accounts: Vec<Arc<Account>>,
}

impl Desk {
    pub(super) fn of(office: &Arc<Office>, context: &Context) -> Self {
        let mut accounts = office.accounts_of(context.caller());
        accounts.retain(|account| account.mails.is_some());
        Self { office: Arc::clone(office), accounts }
    }

    pub(super) fn db(&self) -> &OfficeDb {
        self.office.db()
    }

    /// The account of this name.
    pub(super) fn account(&self, id: &str) -> Result<Arc<Account>, ToolError> {
        let found = self.accounts.iter().find(|account| account.id == id);
        found.cloned().ok_or_else(|| {
            let names = self.accounts.iter().map(|account| format!("`{}`", account.id)).collect::<Vec<_>>();
            let message = format!(
                "no mail account is connected under that name; there {}",
                match names.len() {
                    0 => "is none".to_owned(),
                    _ => format!("is {}", names.join(", ")),
                }
            );
            ToolError::new(ErrorCode::IntegrationMissing, message)
                .suggest("ask the user to run `helve connect mail`")
                .nothing_done()
        })
    }

    /// The account that mails are written from where the call names none: the only connected one, else the local
    /// one where there is none.
    pub(super) fn own_account(&self) -> Result<Arc<Account>, ToolError> {
        let mut connected = self.accounts.iter().filter(|account| account.kind != "embedded");
        match (connected.next(), connected.next()) {
            (Some(only), None) => Ok(Arc::clone(only)),
            (None, _) => self.accounts.first().cloned().ok_or_else(none_connected),
            (Some(_), Some(_)) => {
                let names = self.accounts.iter().map(|account| account.id.as_str()).collect::<Vec<_>>();
                let message = format!("several accounts are connected ({}); set `account`", names.join(", "));
                Err(super::shown::wrong("account", message))
            }
        }
    }

    /// A mail by its id, with its account. Another user's is not there.
    pub(super) async fn mail(&self, id: &str, field: &str) -> Result<(Arc<Account>, MailRow), ToolError> {
        let Some((number, check)) = parse_id(id) else {
            let message = format!("{field} is no id of a mail; they look like `m-12-1f0c9a3b`");
            return Err(super::shown::wrong(field, message)
                .suggest("take ids from `search_emails`, `list_drafts` or `read_email`"));
        };
        let row = self.db().mail(number).await.map_err(broken)?.filter(|row| check_of(row) == check);
        let account = row.as_ref().and_then(|row| self.accounts.iter().find(|one| one.id == row.account));
        match (account, row) {
            (Some(account), Some(row)) => Ok((Arc::clone(account), row)),
            _ => Err(not_there()),
        }
    }

    /// The whole message.
    pub(super) async fn fetch(&self, account: &Account, row: &MailRow) -> Result<Bytes, ToolError> {
        let bytes = store(account)?.fetch(&row.folder, &row.key, MAIL_BYTES_MAX).await;
        bytes.map_err(|fault| match fault {
            Fault::Gone(_) => not_there(),
            fault => fault.for_model(),
        })
    }

    /// The whole message, and what is in it, taken apart on a thread that may take its time.
    pub(super) async fn read(&self, account: &Account, row: &MailRow) -> Result<(Bytes, Mail), ToolError> {
        let bytes = self.fetch(account, row).await?;
        let shared = bytes.clone();
        let read = tokio::task::spawn_blocking(move || Mail::read(&shared)).await;
        let ended = |_| ToolError::new(ErrorCode::Stopping, "the process ends");
        let mail = read.map_err(ended)?.map_err(|error| {
            ToolError::unrecoverable("UNREADABLE", format!("the mail cannot be read: {error}")).nothing_done()
        })?;
        // A server that numbers its mails anew has another one under this key. A row without an id may be of a mail
        // whose beginning could not be read.
        let now = mail.message_id.as_ref().map(MessageId::as_str);
        match row.message_id.as_deref().is_none_or(|known| now == Some(known)) {
            true => Ok((bytes, mail)),
            false => Err(not_there()),
        }
    }

    /// The folders that the caller may search.
    pub(super) async fn folders(&self, account: Option<&Account>) -> Result<Vec<CollectionRow>, ToolError> {
        let mut found =
            self.db().collections(account.map(|account| account.id.as_str())).await.map_err(broken)?;
        found.retain(|row| is_mail(row) && self.accounts.iter().any(|account| account.id == row.account));
        Ok(found)
    }

    /// The folder of an account that is for something.
    pub(super) async fn folder(
        &self,
        account: &Account,
        role: FolderRole,
    ) -> Result<CollectionRow, ToolError> {
        let is_it = |row: &CollectionRow| is_mail(row) && row.told.role.as_deref() == Some(role.as_str());
        let known = self.db().collections(Some(&account.id)).await.map_err(broken)?;
        if let Some(row) = known.into_iter().find(is_it) {
            return Ok(row);
        }
        let told =
            tell_folders(self.db(), account, store(account)?).await.map_err(|fault| fault.for_model())?;
        told.into_iter().find(is_it).ok_or_else(|| {
            let message = format!("the account `{}` has no folder for {}", account.id, role.as_str());
            ToolError::unrecoverable("NO_FOLDER", message).nothing_done()
        })
    }

    /// Puts a message into a folder, there and in the index. None: it is there, and the server does not say where.
    pub(super) async fn add(
        &self,
        account: &Account,
        role: FolderRole,
        bytes: Bytes,
        flags: Flags,
        id: &MessageId,
    ) -> Result<Option<MailRow>, ToolError> {
        let folder = self.folder(account, role).await?;
        let store = store(account)?;
        let appended = store.append(&folder.told.href, bytes.clone(), flags).await;
        let key = match appended.map_err(|fault| fault.for_model())? {
            Some(key) => Some(key),
            None => {
                store.find(&folder.told.href, id).await.ok().and_then(|keys| keys.into_iter().next_back())
            }
        };
        match key {
            Some(key) => self.take_in(account, &folder, key, bytes, flags).await,
            None => Ok(None),
        }
    }

    /// Takes a message that is on the server into the index, so that it has an id before the next sync.
    pub(super) async fn take_in(
        &self,
        account: &Account,
        folder: &CollectionRow,
        key: String,
        bytes: Bytes,
        flags: Flags,
    ) -> Result<Option<MailRow>, ToolError> {
        if account.kind != "embedded" {
            let role =
                FolderRole::ALL.into_iter().find(|role| folder.told.role.as_deref() == Some(role.as_str()));
            let size = bytes.len() as u64;
            let mail = NewMail { key: key.clone(), flags, received: Timestamp::now(), size, bytes };
            let row = Indexing { own: None, role }.row(&mail);
            let page = MailPage { new: vec![row], ..MailPage::default() };
            self.db().change_mails(folder.id, page).await.map_err(broken)?;
        }
        self.db().mail_by_key(folder.id, &key).await.map_err(broken)
    }

    /// Takes a message out of its folder, there and in the index. One that the server can only mark as deleted goes from
    /// the index as well: it is no draft any more that could be sent or changed.
    pub(super) async fn remove(&self, account: &Account, row: &MailRow) -> Result<(), ToolError> {
        let removed = store(account)?.remove(&row.folder, &row.key).await;
        if matches!(removed, Ok(()) | Err(Fault::Marked(_))) {
            let page = MailPage { gone: vec![row.key.clone()], ..MailPage::default() };
            self.db().change_mails(row.collection, page).await.map_err(broken)?;
        }
        removed.map_err(|fault| fault.for_model())
    }
}

pub(super) fn is_mail(row: &CollectionRow) -> bool {
    !(row.told.events || row.told.tasks || row.told.contacts)
}

pub(super) fn store(account: &Account) -> Result<&dyn MailStore, ToolError> {
    account.mails.as_deref().ok_or_else(none_connected)
}

/// Who an account's mails come from. The local account may not know; what it holds goes nowhere.
pub(super) fn sender(account: &Account) -> Result<Mailbox, ToolError> {
    let nobody = || {
        let address = Address::new(EmbeddedOutbox::NOBODY).ok()?;
        Mailbox::new(None, address).ok().filter(|_| account.kind == "embedded")
    };
    account.person.clone().or_else(nobody).ok_or_else(|| {
        let message = format!("the account `{}` has no address to write from", account.id);
        ToolError::new(ErrorCode::IntegrationMissing, message)
            .suggest("ask the user to run `helve connect mail` again")
            .nothing_done()
    })
}

pub(super) fn not_there() -> ToolError {
    ToolError::recoverable("NOT_FOUND", "there is no such mail, or not any more")
        .suggest("look for it with `search_emails` or `list_drafts`; ids change when a draft is changed or a mail is moved")
        .nothing_done()
}

fn none_connected() -> ToolError {
    ToolError::new(ErrorCode::IntegrationMissing, "no mail account is connected")
        .suggest("ask the user to run `helve connect mail`")
        .nothing_done()
}
