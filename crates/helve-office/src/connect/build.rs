//! From rows to accounts.

use std::sync::Arc;

use helve_net::NetPolicy;
use helve_store::office::{AccountRow, OfficeDb, OfficeError};

use super::logins::{mail_login, web_settings};
use super::{AccountSettings, Secrets};
use crate::Account;
use crate::account::{MailStore, Submit};
use crate::dav::DavAccount;
use crate::embedded::{self, EmbeddedMails, EmbeddedObjects, EmbeddedOutbox, LOCAL};
use crate::imap::ImapAccount;
use crate::jmap::JmapAccount;
use crate::smtp::SmtpSubmit;
use crate::text::{Address, Mailbox};

/// What accounts are made with.
pub struct Connect {
    /// Where secrets come from.
    pub secrets: Arc<dyn Secrets>,
    /// What holds for requests that go out: `[net]` of the configuration.
    pub net: NetPolicy,
    /// Who the person is in the account that needs no server.
    pub person: Option<Mailbox>,
}

/// An account that cannot be used now, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The account's name in the configuration.
    pub id: String,
    /// What is wrong, for people.
    pub trouble: String,
}

/// What an office has of its accounts.
#[derive(Default, Clone)]
pub(crate) struct Connected {
    /// Those that can be used, with the rows that they were made of.
    made: Vec<(AccountRow, Arc<Account>)>,
    pub(crate) accounts: Arc<[Arc<Account>]>,
    pub(crate) aside: Arc<[SetAside]>,
}

impl Connected {
    /// These and no others.
    pub(crate) fn of(accounts: Arc<[Arc<Account>]>) -> Self {
        Self { accounts, ..Self::default() }
    }
}

impl Connect {
    /// Every account of the file. One that has not changed since `before` stays the same, with its connections.
    pub(crate) fn all(&self, db: &OfficeDb, before: &Connected) -> Result<Connected, OfficeError> {
        let mut rows = db.accounts_now()?;
        if rows.iter().all(|row| row.id != LOCAL) {
            let local = embedded::account_row();
            db.make_account_now(&local, &embedded::folders(), &embedded::collections())?;
            rows.insert(0, local);
        }
        let (mut made, mut aside) = (Vec::new(), Vec::new());
        for row in rows {
            let kept = before.made.iter().find(|(known, _)| is_same(known, &row));
            match kept.map_or_else(|| self.account(db, &row).map(Arc::new), |(_, kept)| Ok(Arc::clone(kept)))
            {
                Ok(account) => made.push((row, account)),
                Err(trouble) => aside.push(SetAside { id: row.id, trouble }),
            }
        }
        let accounts = made.iter().map(|(_, account)| Arc::clone(account)).collect();
        Ok(Connected { made, accounts, aside: aside.into() })
    }

    fn account(&self, db: &OfficeDb, row: &AccountRow) -> Result<Account, String> {
        if row.kind == "embedded" {
            return Ok(self.embedded(db, row));
        }
        let reached: AccountSettings = serde_json::from_str(&row.settings).map_err(|_| {
            format!("its settings cannot be read; `helve office disconnect {}` and connect it again", row.id)
        })?;
        let person = person(row)?;
        self.connected(row, person, &reached)
    }

    fn embedded(&self, db: &OfficeDb, row: &AccountRow) -> Account {
        let own = self.person.as_ref().map(|person| person.address().clone());
        Account {
            id: row.id.clone(),
            kind: row.kind.clone(),
            person: self.person.clone(),
            owner: row.owner.clone(),
            mails: Some(Arc::new(EmbeddedMails::new(db, own))),
            submit: Some(Arc::new(EmbeddedOutbox)),
            objects: Some(Arc::new(EmbeddedObjects::new(db))),
        }
    }

    fn connected(
        &self,
        row: &AccountRow,
        person: Option<Mailbox>,
        reached: &AccountSettings,
    ) -> Result<Account, String> {
        let mut account = Account {
            id: row.id.clone(),
            kind: row.kind.clone(),
            person,
            owner: row.owner.clone(),
            mails: None,
            submit: None,
            objects: None,
        };
        match reached {
            AccountSettings::Mail(mail) => {
                let login = || mail_login(&self.secrets, &mail.login, &mail.auth);
                let ca_file = || mail.ca_file.clone();
                account.mails = Some(Arc::new(ImapAccount::new(mail.imap.server(ca_file()), login())));
                let submit = mail.smtp.as_ref().map(|smtp| SmtpSubmit::new(smtp.server(ca_file()), login()));
                account.submit = submit.map(|submit| Arc::new(submit) as Arc<dyn Submit>);
            }
            AccountSettings::Dav(dav) => {
                let settings = web_settings(&self.secrets, &dav.url, &dav.login, &dav.auth, &self.net);
                let dav =
                    DavAccount::new(&settings, dav.layout.clone()).map_err(|fault| fault.to_string())?;
                account.objects = Some(Arc::new(dav));
            }
            AccountSettings::Jmap(jmap) => {
                let settings = web_settings(&self.secrets, &jmap.session, &jmap.login, &jmap.auth, &self.net);
                let jmap = Arc::new(JmapAccount::new(&settings).map_err(|fault| fault.to_string())?);
                account.mails = Some(Arc::clone(&jmap) as Arc<dyn MailStore>);
                account.submit = Some(jmap);
            }
        }
        Ok(account)
    }
}

/// Whether an account made of one row is right for another: when it was synced does not matter.
fn is_same(one: &AccountRow, other: &AccountRow) -> bool {
    let AccountRow { id, kind, address, name, owner, settings, created_at, synced_at: _, trouble: _ } = one;
    *id == other.id
        && *kind == other.kind
        && *address == other.address
        && *name == other.name
        && *owner == other.owner
        && *settings == other.settings
        && *created_at == other.created_at
}

fn person(row: &AccountRow) -> Result<Option<Mailbox>, String> {
    let Some(address) = &row.address else { return Ok(None) };
    let address = Address::new(address).map_err(|error| error.to_string())?;
    Mailbox::new(row.name.as_deref(), address).map(Some).map_err(|error| error.to_string())
}
