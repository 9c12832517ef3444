//! The page on which people decide, in a real browser and by plain forms.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

mod deciding;
mod hostile;
mod looks;
mod origin;
mod seen;

use std::time::Duration;

use helve::approvals::{Decider, Decision, Vouch};
use helve::identity::{Key, Purpose};
use helve::ports::{Journal, JournalError};
use helve::{
    ApprovalId, ApprovalQuery, ApprovalState, BoxFuture, Call, CallId, Caller, Context, Facet, Handler,
    Preview, Registry, Risk, Runtime, Status, Tool, ToolError,
};
use helve_mcp::server::McpServer;
use helve_server::records::{Record, RecordError, RecordQuery, Records};
use helve_server::{ApiOptions, Door, HttpOptions, HttpServer, Tokens};
use helve_store::{AuditQuery, CallRecord, Shown, Store, StoreOptions};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::browser::Browser;
use crate::harness::{BOB, Reply, Server};

/// A server with a mailer that notes what it sent, on a real journal.
struct Desk {
    server: Server,
    sent: Arc<Mutex<Vec<Value>>>,
    _folder: tempfile::TempDir,
}

struct Mailer(Arc<Mutex<Vec<Value>>>);

impl Handler for Mailer {
    fn call(&self, arguments: Value, _: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        self.0.lock().unwrap().push(arguments);
        Box::pin(async { Ok(json!({ "number": 1 })) })
    }

    fn preview(
        &self,
        arguments: &Value,
        _: Context,
    ) -> Option<BoxFuture<'static, Result<Preview, ToolError>>> {
        let text = format!("To:      {}\nSubject: {}", arguments["to"], arguments["subject"]);
        Some(Box::pin(async move { Ok(text.replace('"', "").into()) }))
    }
}

/// The record, as the command line provides it.
pub(crate) struct StoreRecords(pub(crate) Arc<Store>);

impl Records for StoreRecords {
    fn list(&self, asked: RecordQuery) -> BoxFuture<'_, Result<Vec<Record>, RecordError>> {
        Box::pin(async move {
            self.0.flush().await?;
            let mut query = AuditQuery::default();
            (query.principal, query.session, query.agent) = (asked.principal, asked.session, asked.agent);
            (query.before, query.limit) = (asked.before, asked.limit.unwrap_or(50));
            let found = self.0.audit().list(&query).map_err(|error| JournalError::new(error.to_string()))?;
            Ok(found.iter().map(record).collect())
        })
    }

    fn show(&self, id: CallId) -> BoxFuture<'_, Result<Option<Record>, RecordError>> {
        Box::pin(async move {
            self.0.flush().await?;
            match self
                .0
                .audit()
                .show(&id.to_string())
                .map_err(|error| JournalError::new(error.to_string()))?
            {
                Shown::Call(call) => Ok(Some(record(&call))),
                Shown::Ambiguous(_) | Shown::Nothing => Ok(None),
            }
        })
    }
}

fn record(call: &CallRecord) -> Record {
    Record {
        id: call.facts.call_id,
        principal: call.facts.caller.principal.clone(),
        body: serde_json::value::to_raw_value(call).unwrap(),
    }
}

fn tools(sent: &Arc<Mutex<Vec<Value>>>) -> Vec<Tool> {
    let text = || json!({ "type": "string" });
    let mail = json!({
        "type": "object", "required": ["to"], "additionalProperties": false,
        "properties": { "to": text(), "subject": text(), "text": text() },
    });
    let any = json!({ "type": "object" });
    let asks = |name: &str, risk: Risk, schema: Value| {
        Tool::builder(name)
            .description("Does something that stays.")
            .input_schema(schema)
            .risk(risk)
            .requires_approval()
            .shared_handler(Arc::new(Mailer(Arc::clone(sent))))
    };
    let read = Tool::builder("web/fetch")
        .description("Reads a page.")
        .input_schema(any.clone())
        .read_only()
        .handler(|_, _| async { Ok(json!("text")) });
    [
        asks("mail/send", Risk::High, mail).facets([Facet::Egress, Facet::Mutates]),
        asks("files/delete", Risk::Critical, any.clone()),
        asks("calendar/move", Risk::Medium, any).facets([Facet::Mutates]),
        read,
    ]
    .map(|tool| tool.build().unwrap())
    .into()
}

async fn desk() -> Desk {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("journal.db"), StoreOptions::default()).unwrap());
    let sent = Arc::default();
    let registry = Registry::default();
    registry.register_many(helve::Layer::Project, tools(&sent)).unwrap();
    let runtime = Runtime::builder().registry(registry.clone()).ledger(Arc::clone(&store) as _).build();
    let mcp = McpServer::from_runtime(runtime.clone());
    let tokens = Tokens::one(BOB, Arc::new(Caller::agent("reviewer").session("s-7")));
    let address = "127.0.0.1:0".parse().unwrap();
    let api = ApiOptions { runtime: runtime.clone(), records: Some(Arc::new(StoreRecords(store))) };
    let options = HttpOptions { api: Some(api), ..HttpOptions::new(mcp, Door::Tokens(tokens)) };
    let server = HttpServer::bind(address, options).await.unwrap();
    let address = server.address().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    Desk { server: Server { address, registry, runtime }, sent, _folder: folder }
}

impl Desk {
    /// Asks about a call, and waits for nobody.
    async fn ask(&self, caller: Caller, tool: &str, arguments: Value) -> ApprovalId {
        let outcome = self.server.runtime.call(Call::new(tool, arguments).by(Arc::new(caller))).await;
        let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
        pending.approval_id
    }

    async fn ask_mail(&self, to: &str) -> ApprovalId {
        let mail =
            json!({ "to": to, "subject": "Invoice 17", "text": "Dear Ada,\nplease find it attached." });
        self.ask(Caller::agent("reviewer").session("s-7"), "mail/send", mail).await
    }

    /// A call over HTTP that waits for a person; its answer comes later.
    fn call(self: &Arc<Self>, arguments: Value) -> tokio::task::JoinHandle<Reply> {
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            let body = json!({ "tool": "mail/send", "arguments": arguments, "wait_ms": 60_000 }).to_string();
            let bearer = format!("Bearer {BOB}");
            let mut open = desk.server.open("POST /v1/calls", &[("authorization", &bearer)], &body).await;
            open.until("\r\n\r\n").await;
            let status = open.read.split(' ').nth(1).unwrap().parse().unwrap();
            open.until("}").await;
            Reply { status, headers: HashMap::new(), body: open.read.clone() }
        })
    }

    async fn pending(&self) -> usize {
        self.server.runtime.approvals().list(ApprovalQuery::pending()).await.unwrap().len()
    }

    async fn until_pending(&self, count: usize) {
        for _ in 0..200 {
            if self.pending().await == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("never {count} questions");
    }

    async fn state(&self, id: ApprovalId) -> ApprovalState {
        self.server.runtime.approvals().get(id).await.unwrap().unwrap().state
    }

    fn sent(&self) -> Vec<Value> {
        self.sent.lock().unwrap().clone()
    }

    /// A code, as `helve keys sign-in` makes it.
    async fn code(&self) -> String {
        let (key, text) = Key::generate("ada", Purpose::SignIn, "tester", Timestamp::now());
        self.server.runtime.keys().create_key(Box::new(key), Caller::local()).await.unwrap();
        text.reveal().to_owned()
    }

    /// A browser in which somebody has followed the link with the code.
    async fn browser(&self) -> Browser {
        let mut browser = Browser::start().await;
        let code = self.code().await;
        browser.go(&self.server.url(&format!("/sign-in#{code}"))).await;
        browser.until("document.querySelector('main.inbox')").await;
        browser
    }

    /// Signs in by form; the sign-in, and the token that stands in every form.
    async fn sign_in(&self) -> (SignIn, String) {
        let body = format!("code={}&next=/", self.code().await);
        let reply = self.form("/sign-in/form", &STRANGER, &body).await;
        assert_eq!(reply.status, 303, "{reply:?}");
        let place = reply.headers["location"].strip_suffix('/').unwrap().to_owned();
        let cookie = reply.headers["set-cookie"].split(';').next().unwrap().to_owned();
        let ada = SignIn { place: place.into(), cookie: cookie.into() };
        let page = self.get("/", &ada).await;
        let token = page.body.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        (ada, token.to_owned())
    }

    async fn get(&self, path: &str, by: &SignIn) -> Reply {
        let line = format!("GET {}{path}", by.place);
        self.server.send(&line, &[("authorization", "-"), ("cookie", &by.cookie)], "").await
    }

    async fn form(&self, path: &str, by: &SignIn, body: &str) -> Reply {
        let media = ("content-type", "application/x-www-form-urlencoded");
        let line = format!("POST {}{path}", by.place);
        self.server.send(&line, &[("authorization", "-"), ("cookie", &by.cookie), media], body).await
    }
}

/// A sign-in as a browser keeps it: a cookie, and the place that it is for.
struct SignIn {
    place: Cow<'static, str>,
    cookie: Cow<'static, str>,
}

/// Somebody who has not signed in.
const STRANGER: SignIn = SignIn { place: Cow::Borrowed(""), cookie: Cow::Borrowed("-") };

/// The path that a browser shows, without the place of the sign-in.
const PATH: &str = "location.pathname.replace(/^\\/~[0-9a-f]{64}/, '')";

/// Waits until keys count: the script takes none for a moment after another question came up, so that
/// nothing moves under them.
async fn settle(browser: &mut Browser) {
    browser.until("shownAt > 0 && Date.now() - shownAt >= 350").await;
}
