//! An office with the embedded account behind a real runtime, for the tests of calendar and task tools.

use std::sync::Arc;

use helve::approvals::{Decider, Decision, Vouch};
use helve::{Call, Caller, Layer, Outcome, Pending, Registry, Runtime, Status, ToolError};
use helve_office::account::ObjectStore;
use helve_office::embedded::EmbeddedObjects;
use helve_office::import::{Imported, import_objects};
use helve_office::text::{Address, Mailbox};
use helve_office::tools::office_tools;
use helve_office::{Account, Office, OfficeSettings};
use helve_store::office::OfficeDb;
use jiff::tz::TimeZone;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct World {
    /// Removed with the world.
    _dir: TempDir,
    pub(crate) office: Arc<Office>,
    pub(crate) runtime: Runtime,
    pub(crate) store: EmbeddedObjects,
}

pub(crate) fn decider() -> Decider {
    Decider::vouched("ada", Vouch::LocalUser)
}

/// The embedded account with its own person.
pub(crate) fn account(store: &Arc<dyn ObjectStore>, owner: Option<&str>) -> Account {
    let address = Address::new("me@example.org").unwrap();
    Account {
        id: "local".to_owned(),
        kind: "embedded".to_owned(),
        person: Some(Mailbox::new(Some("Me Myself"), address).unwrap()),
        owner: owner.map(str::to_owned),
        mails: None,
        submit: None,
        objects: Some(Arc::clone(store)),
    }
}

pub(crate) fn runtime(office: &Arc<Office>) -> Runtime {
    let registry = Registry::default();
    registry.register_many(Layer::BuiltIn, office_tools(office)).unwrap();
    Runtime::builder().registry(registry).integrations(office.clone()).build()
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::owned(None).await
    }

    pub(crate) async fn owned(owner: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = OfficeDb::open(&dir.path().join("office.db")).unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let settings = OfficeSettings { zone, ..OfficeSettings::default() };
        let store = EmbeddedObjects::open(&db).await.unwrap();
        let office = Arc::new(Office::new(db, settings));
        let objects: Arc<dyn ObjectStore> = Arc::new(store.clone());
        office.set_accounts([Arc::new(account(&objects, owner))]);
        let runtime = runtime(&office);
        Self { _dir: dir, office, runtime, store }
    }

    /// The same with the runtime of another office.
    pub(crate) fn on(self, runtime: Runtime) -> Self {
        Self { runtime, ..self }
    }

    /// Reads events into the calendar, as an import does.
    pub(crate) async fn import(&self, lines: &str) -> Imported {
        let text = format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{}END:VCALENDAR\r\n", crate::crlf(lines));
        import_objects(&self.store, text.into()).await.unwrap()
    }

    /// An event with a UID and these lines.
    pub(crate) async fn event(&self, uid: &str, lines: &str) {
        let lines = format!("BEGIN:VEVENT\nUID:{uid}\n{}\nEND:VEVENT\n", lines.trim());
        let imported = self.import(&lines).await;
        assert_eq!(imported.events, 1, "{imported:?}");
    }

    /// The bytes of an object as they are stored.
    pub(crate) async fn stored(&self, href: &str) -> String {
        String::from_utf8(self.store.get(href).await.unwrap().bytes.to_vec()).unwrap()
    }

    pub(crate) async fn outcome(&self, tool: &str, arguments: Value) -> Outcome {
        self.runtime.call(Call::new(tool, arguments)).await
    }

    /// A call whose question is approved, if there is one.
    pub(crate) async fn approved(&self, tool: &str, arguments: Value) -> Outcome {
        let outcome = self.outcome(tool, arguments.clone()).await;
        let Status::Pending(pending) = &outcome.status else { return outcome };
        let id = pending.approval_id;
        self.runtime.approvals().decide(id, Decision::approve(), &decider()).await.unwrap();
        self.outcome(tool, arguments).await
    }

    /// What a person is asked about a call.
    pub(crate) async fn asked(&self, tool: &str, arguments: Value) -> (Pending, String) {
        let outcome = self.outcome(tool, arguments).await;
        let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
        let approval = self.runtime.approvals().get(pending.approval_id).await.unwrap().unwrap();
        (pending, approval.preview.unwrap_or_default())
    }

    /// A call that must work.
    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.approved(tool, arguments.clone()).await;
        match outcome.status {
            Status::Done(output) => output.value,
            other => panic!("{tool} {arguments}: {other:?}"),
        }
    }

    /// A call that must fail.
    pub(crate) async fn fails(&self, tool: &str, arguments: Value) -> ToolError {
        error(self.approved(tool, arguments).await)
    }

    /// Undoes a call.
    pub(crate) async fn undo(&self, outcome: &Outcome) -> Outcome {
        self.runtime.undo_run(outcome.call_id, Caller::local()).await.unwrap()
    }
}

pub(crate) fn error(outcome: Outcome) -> ToolError {
    match outcome.status {
        Status::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

/// Title, start and end of each event of an answer.
pub(crate) fn times(answer: &Value) -> Vec<String> {
    let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    let events = answer["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| format!("{} {}/{}", text(event, "title"), text(event, "start"), text(event, "end")))
        .collect()
}
