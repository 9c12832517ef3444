//! The office: the file, the accounts, and how they are to be used.

use std::sync::{Arc, PoisonError, RwLock};

use helve::Caller;
use helve_store::office::OfficeDb;
use jiff::tz::TimeZone;

use crate::account::{MailStore, ObjectStore, Submit};
use crate::text::Mailbox;

/// What operators set.
#[derive(Debug, Clone)]
pub struct OfficeSettings {
    /// The zone in which times are told where nobody names another.
    pub zone: TimeZone,
    /// Domains that mail may go to. Empty: any.
    pub recipient_domains: Vec<String>,
}

impl Default for OfficeSettings {
    fn default() -> Self {
        Self { zone: TimeZone::system(), recipient_domains: Vec::new() }
    }
}

/// An account that is connected, with what its servers offer.
pub struct Account {
    /// A short name, such as `work`.
    pub id: String,
    /// How it is reached: `embedded`, `mail`, `dav`, `jmap`.
    pub kind: String,
    /// Who the person is there. What is sent comes from here, and never from an argument.
    pub person: Option<Mailbox>,
    /// The principal whose account it is; everybody's where it is absent.
    pub owner: Option<String>,
    /// Its mails.
    pub mails: Option<Arc<dyn MailStore>>,
    /// Its way out for mails.
    pub submit: Option<Arc<dyn Submit>>,
    /// Its calendars, task lists and address books.
    pub objects: Option<Arc<dyn ObjectStore>>,
}

impl Account {
    /// Whether this caller may use it.
    pub fn is_for(&self, caller: &Caller) -> bool {
        self.owner.is_none() || self.owner == caller.principal
    }
}

/// What all office tools share.
pub struct Office {
    db: OfficeDb,
    settings: OfficeSettings,
    accounts: RwLock<Arc<[Arc<Account>]>>,
}

impl Office {
    /// An office without accounts.
    pub fn new(db: OfficeDb, settings: OfficeSettings) -> Self {
        Self { db, settings, accounts: RwLock::new(Arc::new([])) }
    }

    /// The file.
    pub fn db(&self) -> &OfficeDb {
        &self.db
    }

    /// What operators set.
    pub fn settings(&self) -> &OfficeSettings {
        &self.settings
    }

    /// Takes over which accounts are connected.
    pub fn set_accounts(&self, accounts: impl IntoIterator<Item = Arc<Account>>) {
        *self.accounts.write().unwrap_or_else(PoisonError::into_inner) = accounts.into_iter().collect();
    }

    /// Every account that is connected.
    pub fn accounts(&self) -> Arc<[Arc<Account>]> {
        Arc::clone(&self.accounts.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The accounts that this caller may use. Every tool begins here: what is not in this list is not there.
    pub fn accounts_of(&self, caller: &Caller) -> Vec<Arc<Account>> {
        self.accounts().iter().filter(|account| account.is_for(caller)).cloned().collect()
    }
}
