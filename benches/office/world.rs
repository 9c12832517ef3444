//! The office as users have it: a file, an account behind IMAP, the embedded one, and a runtime with a durable journal.

use std::sync::Arc;

use helve::{Call, Caller, Layer, Registry, Runtime, Tool};
use helve_office::account::MailStore;
use helve_office::embedded::{EmbeddedMails, EmbeddedObjects, EmbeddedOutbox, LOCAL};
use helve_office::sync::{MailsSynced, sync_mails};
use helve_office::text::Mailbox;
use helve_office::tools::office_tools;
use helve_office::{Account, Office, OfficeSettings};
use helve_store::office::{AccountRow, OfficeDb};
use helve_store::{Store, StoreOptions};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::measure::{Took, timed_async};

pub(crate) struct World {
    /// Removed with the world.
    _dir: TempDir,
    db: OfficeDb,
    runtime: Runtime,
    work: Arc<Account>,
    pub(crate) objects: EmbeddedObjects,
}

impl World {
    /// Its own file with nothing in it yet.
    pub(crate) async fn new(server: impl MailStore) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = OfficeDb::open(&dir.path().join("office.db")).unwrap();
        let objects = EmbeddedObjects::open(&db).await.unwrap();
        let me = Mailbox::parse("Alice <alice@example.test>").unwrap();
        let local = Account {
            id: LOCAL.to_owned(),
            kind: "embedded".to_owned(),
            mails: Some(Arc::new(EmbeddedMails::new(&db, Some(me.address().clone())))),
            submit: Some(Arc::new(EmbeddedOutbox)),
            objects: Some(Arc::new(objects.clone())),
            person: Some(me.clone()),
            owner: None,
        };
        assert!(db.add_account(row()).await.unwrap());
        let work = Arc::new(Account {
            id: "work".to_owned(),
            kind: "mail".to_owned(),
            mails: Some(Arc::new(server)),
            submit: None,
            objects: None,
            person: Some(me),
            owner: None,
        });
        let settings = OfficeSettings { zone: TimeZone::UTC, ..OfficeSettings::default() };
        let office = Arc::new(Office::new(db.clone(), settings));
        office.set_accounts([Arc::new(local), Arc::clone(&work)]);
        let registry = Registry::default();
        registry.register_many(Layer::BuiltIn, office_tools(&office)).unwrap();
        // Small, and on disk before and after: what another tool than the office's does.
        let small = Tool::builder("remember")
            .description("Changes something small.")
            .input_schema(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }))
            .instant()
            .handler(|arguments, _| async move { Ok(json!({ "n": arguments["n"] })) });
        registry.register(Layer::BuiltIn, small.build().unwrap()).unwrap();
        let store = Arc::new(Store::open(&dir.path().join("helve.db"), StoreOptions::default()).unwrap());
        let runtime = Runtime::builder().registry(registry).ledger(store).integrations(office).build();
        Self { _dir: dir, db, runtime, work, objects }
    }

    /// Takes over all mails of the server.
    pub(crate) async fn sync(&self) -> MailsSynced {
        sync_mails(&self.db, &self.work, &|_| ()).await.unwrap()
    }

    /// A call as users make it, on a worker. How long it took.
    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> (Took, Value) {
        let runtime = self.runtime.clone();
        let work = async move {
            let call = Call::new(tool, arguments).by(Caller::local());
            timed_async(async { runtime.call(call).await.into_result().unwrap() }).await
        };
        tokio::spawn(work).await.unwrap()
    }
}

fn row() -> AccountRow {
    AccountRow {
        id: "work".to_owned(),
        kind: "mail".to_owned(),
        address: Some("alice@example.test".to_owned()),
        name: None,
        owner: None,
        settings: "{}".to_owned(),
        created_at: Timestamp::now(),
        synced_at: None,
        trouble: None,
    }
}
