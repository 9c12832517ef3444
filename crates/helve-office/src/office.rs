//! The office: the file, the accounts, and how they are to be used.

use std::sync::{Arc, PoisonError, RwLock};

use helve::Caller;
use helve_store::office::OfficeDb;
use jiff::tz::TimeZone;

use crate::account::{MailStore, ObjectStore, Submit};
use crate::connect::{Connect, Connected, SetAside};
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
    /// Where its mails are. Absent: it has none.
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
    connect: Option<Connect>,
    /// None until the first use.
    connected: RwLock<Option<Connected>>,
}

impl Office {
    /// An office without accounts.
    pub fn new(db: OfficeDb, settings: OfficeSettings) -> Self {
        Self { db, settings, connect: None, connected: RwLock::new(Some(Connected::default())) }
    }

    /// An office with the accounts of its file, which are read when first asked for.
    pub fn open(db: OfficeDb, settings: OfficeSettings, connect: Connect) -> Self {
        Self { db, settings, connect: Some(connect), connected: RwLock::new(None) }
    }

    /// The office file, which keeps what was read of all accounts.
    pub fn db(&self) -> &OfficeDb {
        &self.db
    }

    /// What operators set.
    pub fn settings(&self) -> &OfficeSettings {
        &self.settings
    }

    /// Takes over which accounts are connected.
    pub fn set_accounts(&self, accounts: impl IntoIterator<Item = Arc<Account>>) {
        let connected = Connected::of(accounts.into_iter().collect());
        *self.connected.write().unwrap_or_else(PoisonError::into_inner) = Some(connected);
    }

    /// Every account that is connected.
    pub fn accounts(&self) -> Arc<[Arc<Account>]> {
        self.connected().accounts
    }

    /// Accounts that cannot be used now, and why.
    pub fn set_aside(&self) -> Arc<[SetAside]> {
        self.connected().aside
    }

    /// Reads from the file again which accounts there are.
    pub fn reload(&self) -> Arc<[Arc<Account>]> {
        let before = self.connected.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.read_accounts(&before.unwrap_or_default()).accounts
    }

    fn connected(&self) -> Connected {
        if let Some(connected) = &*self.connected.read().unwrap_or_else(PoisonError::into_inner) {
            return connected.clone();
        }
        self.read_accounts(&Connected::default())
    }

    /// What the file says now. Where it cannot be read, what was known stays, and the next who asks reads again.
    fn read_accounts(&self, before: &Connected) -> Connected {
        let Some(connect) = &self.connect else { return before.clone() };
        match connect.all(&self.db, before) {
            Ok(connected) => {
                *self.connected.write().unwrap_or_else(PoisonError::into_inner) = Some(connected.clone());
                connected
            }
            Err(error) => {
                tracing::warn!(%error, "the office's accounts cannot be read");
                before.clone()
            }
        }
    }

    /// The accounts that this caller may use. Every tool begins here: what is not in this list is not there.
    pub fn accounts_of(&self, caller: &Caller) -> Vec<Arc<Account>> {
        self.accounts().iter().filter(|account| account.is_for(caller)).cloned().collect()
    }
}
