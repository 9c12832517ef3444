//! The page on which people decide, in a real browser and by plain forms.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve::approvals::{Decider, Decision, Vouch};
use helve::identity::{Key, Purpose};
use helve::ports::{Journal, JournalError};
use helve::{
    ApprovalId, ApprovalQuery, ApprovalState, BoxFuture, Call, CallId, Caller, Context, Facet, Handler,
    Registry, Risk, Runtime, Status, Tool, ToolError,
};
use helve_mcp::server::McpServer;
use helve_server::records::{Record, RecordError, RecordQuery, Records};
use helve_server::{Door, HttpServer, ServerConfig, Tokens};
use helve_store::{AuditQuery, Store, StoreOptions};
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
    ) -> Option<BoxFuture<'static, Result<String, ToolError>>> {
        let text = format!("To:      {}\nSubject: {}", arguments["to"], arguments["subject"]);
        Some(Box::pin(async move { Ok(text.replace('"', "")) }))
    }
}

/// The record, as the command line provides it.
struct StoreRecords(Arc<Store>);

impl Records for StoreRecords {
    fn list(&self, asked: RecordQuery) -> BoxFuture<'_, Result<Vec<Record>, RecordError>> {
        Box::pin(async move {
            self.0.flush().await?;
            let mut query = AuditQuery::default();
            (query.principal, query.session, query.agent) = (asked.principal, asked.session, asked.agent);
            (query.before, query.limit) = (asked.before, asked.limit.unwrap_or(50));
            let found = self.0.audit().list(&query).map_err(|error| JournalError::new(error.to_string()))?;
            let records = found.iter().map(|call| Record {
                id: call.facts.call_id,
                principal: call.facts.caller.principal.clone(),
                is_run: false,
                body: serde_json::value::to_raw_value(call).unwrap(),
            });
            Ok(records.collect())
        })
    }

    fn show(&self, _: CallId) -> BoxFuture<'_, Result<Option<Record>, RecordError>> {
        Box::pin(async { Ok(None) })
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
    let server = HttpServer::bind(address, mcp, Door::Tokens(tokens), ServerConfig::default()).await.unwrap();
    let server = server.with_runtime(runtime.clone()).with_records(Arc::new(StoreRecords(store)));
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

    /// Signs in by form; the cookie, and the token that stands in every form.
    async fn sign_in(&self) -> (String, String) {
        let body = format!("code={}&next=/", self.code().await);
        let reply = self.form("/sign-in/form", "-", &body).await;
        assert_eq!((reply.status, reply.headers["location"].as_str()), (303, "/"), "{reply:?}");
        let cookie = reply.headers["set-cookie"].split(';').next().unwrap().to_owned();
        let page = self.get("/", &cookie).await;
        let token = page.body.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        (cookie, token.to_owned())
    }

    async fn get(&self, path: &str, cookie: &str) -> Reply {
        self.server.send(&format!("GET {path}"), &[("authorization", "-"), ("cookie", cookie)], "").await
    }

    async fn form(&self, path: &str, cookie: &str, body: &str) -> Reply {
        let media = ("content-type", "application/x-www-form-urlencoded");
        self.server
            .send(&format!("POST {path}"), &[("authorization", "-"), ("cookie", cookie), media], body)
            .await
    }
}

/// Where nothing moves under the keys: the script waits a moment after another question came up.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(450)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_signs_in_sees_what_hides_and_approves_with_the_keyboard_alone() {
    let desk = Arc::new(desk().await);
    let call = desk.call(json!({ "to": "ada@example.com\u{202e}moc.live", "subject": "tag\u{e0041}" }));
    desk.until_pending(1).await;
    let mut browser = desk.browser().await;
    assert_eq!(browser.eval("location.hash + location.pathname").await, json!("/"), "the code is not kept");
    let shown = browser.eval("document.querySelector('pre.args').textContent").await;
    assert!(shown.as_str().unwrap().contains(r"ada@example.com\u{202e}moc.live"), "{shown}");
    let marked =
        browser.eval("[...document.querySelectorAll('pre.args mark')].map((m) => m.textContent)").await;
    assert_eq!(marked, json!([r"\u{e0041}", r"\u{202e}"]));
    assert_eq!(
        browser.eval("/[\\u202e\\u{e0041}]/u.test(document.documentElement.outerHTML)").await,
        json!(false)
    );
    // A filter is text: the letters in it decide nothing.
    browser.press(&["/"]).await;
    browser.until("document.activeElement.id === 'filter'").await;
    browser.press(&["a", "d", "Escape"]).await;
    assert_eq!(desk.pending().await, 1);
    settle().await;
    browser.press(&["a"]).await;
    let reply = call.await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    browser.until("document.querySelectorAll('#rows .row').length === 0").await;
    assert_eq!(desk.sent().len(), 1, "exactly once");
    assert_eq!(desk.sent()[0]["to"], "ada@example.com\u{202e}moc.live");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_arguments_are_checked_and_compared_before_they_run() {
    let desk = Arc::new(desk().await);
    let call = desk.call(json!({ "to": "everybody@example.com", "subject": "Hello" }));
    desk.until_pending(1).await;
    let mut browser = desk.browser().await;
    settle().await;
    let replace = |text: &str| {
        format!(
            "(() => {{ const t = document.querySelector('textarea[name=edited]'); t.focus(); t.value = {}; }})()",
            json!(text)
        )
    };
    browser.press(&["e"]).await;
    browser.until("document.activeElement.name === 'edited'").await;
    browser.eval(&replace(r#"{"to": 7}"#)).await;
    browser.press(&["Ctrl+Enter"]).await;
    browser.until("/expected string/.test(document.querySelector('[role=alert]').textContent)").await;
    assert_eq!(
        browser.eval("document.activeElement.value").await,
        json!(r#"{"to": 7}"#),
        "what was typed stays"
    );
    browser.eval(&replace(r#"{"to": "ada@example.com", "subject": "Hello"}"#)).await;
    browser.press(&["Ctrl+Enter"]).await;
    browser.until("document.querySelector('.review ins')").await;
    let lines = browser
        .eval("[...document.querySelectorAll('.review del, .review ins')].map((l) => l.textContent)")
        .await;
    assert_eq!(lines, json!([r#"-   "to": "everybody@example.com""#, r#"+   "to": "ada@example.com""#]));
    browser.picture("review.png").await;
    assert_eq!((desk.pending().await, desk.sent().len()), (1, 0), "looking decides nothing");
    browser.until("document.activeElement.matches('button[data-first]')").await;
    browser.press(&["Enter"]).await;
    let reply = call.await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(desk.sent(), [json!({ "to": "ada@example.com", "subject": "Hello" })]);
    browser.until("document.querySelector('.ruling') && document.querySelector('pre.diff ins')").await;
    browser.picture("decided.png").await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_comes_back_with_its_reason_and_nothing_runs() {
    let desk = Arc::new(desk().await);
    let call = desk.call(json!({ "to": "eve@example.org" }));
    desk.until_pending(1).await;
    let mut browser = desk.browser().await;
    settle().await;
    browser.press(&["d"]).await;
    browser.until("document.activeElement.name === 'reason'").await;
    browser.write("Ask Ada first <script>alert(1)</script>").await;
    browser.press(&["Ctrl+Enter"]).await;
    let reply = call.await.unwrap();
    assert_eq!(reply.status, 403);
    assert!(reply.body.contains("Ask Ada first") && reply.body.contains("approval_denied"), "{reply:?}");
    assert_eq!(desk.sent(), Vec::<Value>::new());
    browser.go(&desk.server.url("/history")).await;
    browser.until("/Ask Ada first <script>/.test(document.querySelector('td.reason').textContent)").await;
    assert_eq!(browser.eval("document.querySelectorAll('main script').length").await, json!(0));
    browser.picture("history.png").await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// A page of somebody else, on another port of this machine.
async fn elsewhere(html: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{html}", html.len());
            // Browsers open connections that they then do not use.
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_decides_nothing() {
    let desk = desk().await;
    let id = desk.ask_mail("ada@example.com").await;
    let mut browser = desk.browser().await;
    let target = desk.server.url(&format!("/approvals/{id}/approve"));
    let form = format!(
        "<form method=post action='{target}'><input name=csrf value=guess></form><script>\
         fetch('{target}', {{ method: 'POST', mode: 'no-cors', credentials: 'include', \
         headers: {{ 'content-type': 'application/x-www-form-urlencoded' }}, body: 'csrf=guess' }})\
         .finally(() => document.forms[0].submit())</script>"
    );
    let (port, own) = (elsewhere(form).await, desk.server.url("/"));
    // Of the same site, whose cookies are sent along: refused. Of another, whose are not: a stranger,
    // who is led to the sign-in, and from there to the inbox.
    for (host, end) in [
        ("127.0.0.1", "/Forbidden/.test(document.body.innerText)"),
        ("localhost", "document.querySelector('main.inbox')"),
    ] {
        browser.go(&format!("http://{host}:{port}/")).await;
        browser.until(&format!("location.href.startsWith('{own}') && {end}")).await;
        assert_eq!((desk.state(id).await, desk.sent().len()), (ApprovalState::Pending, 0), "{host}");
    }
    // Nor can it show ours in a frame.
    let framed = elsewhere(format!("<iframe src='{}'></iframe>", desk.server.url("/"))).await;
    browser.go(&format!("http://127.0.0.1:{framed}/")).await;
    browser.until("document.querySelector('iframe')").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(browser.eval("document.querySelector('iframe').contentDocument").await, json!(null));
    // Whoever is signed in still is.
    browser.go(&desk.server.url("/")).await;
    browser.until("document.querySelectorAll('#rows .row').length === 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_from_outside_is_text() {
    let desk = desk().await;
    let evil =
        "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>'\"</textarea></pre>{}";
    let caller = Caller::agent(format!("bot {evil}")).session(evil);
    let mail = json!({ "to": evil, "subject": evil, "text": "x" });
    let id = desk.ask(caller.clone(), "mail/send", mail).await;
    desk.ask(caller, "files/delete", json!({ evil: evil })).await;
    let mut browser = desk.browser().await;
    browser.eval("document.querySelector('#rows .row:not([aria-current=true])').click()").await;
    browser.until(&format!("location.pathname === '/approvals/{id}'")).await;
    let check =
        "window.hacked === undefined && !document.querySelector('main img, main script, #detail script')";
    for selector in [".head", "pre.args", "pre.wrap", ".facts"] {
        let text = browser.eval(&format!("document.querySelector('{selector}').textContent")).await;
        assert!(text.as_str().unwrap().contains("<img src=x onerror="), "{selector}: {text}");
    }
    assert_eq!(browser.eval(check).await, json!(true));
    let decider = Decider::vouched(evil, Vouch::Key);
    desk.server.runtime.approvals().decide(id, Decision::deny(evil), &decider).await.unwrap();
    // Somebody else was faster, which is said while one looks.
    browser.until("document.querySelector('.ruling blockquote')").await;
    browser.until("/meanwhile/.test(document.querySelector('#toasts').textContent)").await;
    for path in ["/history", "/rules", &format!("/history?tool={}", "%3Cscript%3E"), "/?q=%3Cscript%3E%22"] {
        browser.go(&desk.server.url(path)).await;
        browser.until("document.readyState === 'complete' && document.querySelector('.bar')").await;
        assert_eq!(browser.eval(check).await, json!(true), "{path}");
    }
    browser.go(&desk.server.url("/live")).await;
    browser.until("document.querySelector('#live-state').textContent === 'connected'").await;
    let none = Call::new(evil, json!({})).by(Arc::new(Caller::agent("bot")));
    desk.server.runtime.call(none).await;
    browser.until("/<img src=x/.test(document.querySelector('#live').textContent)").await;
    assert_eq!(browser.eval(check).await, json!(true));
    assert_eq!(browser.complaints, Vec::<String>::new());
    // The policy is what it is thought to be: what is put in afterwards does not run either.
    browser
        .eval("(() => { const s = document.createElement('script'); s.textContent = 'window.hacked=1'; document.body.append(s); })()")
        .await;
    assert_eq!(browser.eval("window.hacked === undefined").await, json!(true));
    browser.tell("Runtime.evaluate", json!({ "expression": "1" })).await;
    assert!(
        browser.complaints.iter().any(|said| said.contains("Content Security Policy")),
        "{:?}",
        browser.complaints
    );
}

/// Questions as they come in a day's work.
async fn days_work(desk: &Desk) -> ApprovalId {
    let bot = || Caller::agent("reviewer").session("s-7");
    for page in ["https://example.com/terms", "https://intranet.example/prices", "https://example.org/a"] {
        let read = Call::new("web/fetch", json!({ "url": page })).by(Arc::new(bot()));
        assert!(matches!(desk.server.runtime.call(read).await.status, Status::Done(_)));
    }
    desk.ask(
        Caller::agent("janitor").session("nightly"),
        "files/delete",
        json!({ "path": "/srv/reports/2024" }),
    )
    .await;
    let slot = json!({ "event": "Board meeting", "from": "2026-11-17T09:00", "to": "2026-11-18T09:00" });
    desk.ask(Caller::agent("planner").session("s-12"), "calendar/move", slot).await;
    desk.ask(
        Caller::principal("grace"),
        "mail/send",
        json!({ "to": "team@example.com", "subject": "Lunch?" }),
    )
    .await;
    for n in 18..22 {
        let mail = json!({ "to": "billing@example.com", "subject": format!("Reminder {n}") });
        desk.ask(Caller::agent("dunning").session(format!("run-{n}")), "mail/send", mail).await;
    }
    let mail = json!({
        "to": "ada@example.com\u{202e}gro.live", "subject": "Invoice 17",
        "text": "Dear Ada,\nplease find the invoice attached.\n\nBest, R.",
    });
    desk.ask(bot(), "mail/send", mail).await
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_on_a_phone_in_the_dark_and_with_a_choice_of_colours() {
    let desk = desk().await;
    let id = days_work(&desk).await;
    let mut browser = desk.browser().await;
    browser.until("document.querySelectorAll('.earlier li').length === 3").await;
    browser.picture("light.png").await;
    let background = "getComputedStyle(document.body).backgroundColor";
    let light = browser.eval(background).await;
    browser.scheme("dark").await;
    assert_ne!(browser.eval(background).await, light);
    browser.picture("dark.png").await;
    browser.eval("document.querySelector('#theme').click()").await;
    browser.go(&desk.server.url("/rules")).await;
    browser.until("document.querySelector('.wide')").await;
    assert_eq!(browser.eval(background).await, light, "the choice is kept, whatever the system says");
    browser.eval("localStorage.clear()").await;
    browser.scheme("light").await;
    browser.size(360, 740).await;
    let fits = "document.documentElement.scrollWidth <= innerWidth && innerWidth === 360";
    for path in ["/", &format!("/approvals/{id}"), "/history", "/live", "/rules"] {
        browser.go(&desk.server.url(path)).await;
        browser.until(&format!("location.pathname === '{path}' && document.readyState === 'complete'")).await;
        let wide = browser.eval("[...document.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > 361).map((e) => e.outerHTML.slice(0, 90)).slice(0, 5)").await;
        assert_eq!(browser.eval(fits).await, json!(true), "{path} {wide}");
        let name = path.split('/').nth(1).unwrap_or_default();
        browser.picture(&format!("phone-{name}.png")).await;
    }
    browser.go(&desk.server.url("/")).await;
    browser.until("document.querySelectorAll('#rows .row').length === 8").await;
    assert_eq!(
        browser.eval("getComputedStyle(document.querySelector('#detail')).display").await,
        json!("none")
    );
    browser.eval("document.querySelector('#rows .row').click()").await;
    browser.until("getComputedStyle(document.querySelector('.list')).display === 'none'").await;
    for key in ["e", "s", "d"] {
        settle().await;
        browser.press(&[key]).await;
        browser.until(&format!("document.querySelector('details[data-key={key}]').open")).await;
        assert_eq!(browser.eval(fits).await, json!(true), "{key}");
        browser.picture(&format!("phone-act-{key}.png")).await;
        browser.press(&["Escape"]).await;
    }
    assert_eq!(desk.pending().await, 8);
    browser.tell("Network.clearBrowserCookies", json!({})).await;
    browser.go(&desk.server.url(&format!("/approvals/{id}"))).await;
    browser.until("location.pathname === '/sign-in' && document.activeElement.id === 'code'").await;
    assert_eq!(browser.eval(fits).await, json!(true));
    browser.picture("phone-sign-in.png").await;
    browser.write(&desk.code().await).await;
    browser.press(&["Enter"]).await;
    browser.until(&format!("location.pathname === '/approvals/{id}'")).await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_follows_what_happens_and_the_keys_move_in_it() {
    let desk = desk().await;
    let mut browser = desk.browser().await;
    browser.until("/Nobody waits/.test(document.querySelector('#detail').textContent)").await;
    browser.picture("empty.png").await;
    let first = desk.ask_mail("a@example.com").await;
    let second = desk.ask_mail("b@example.com").await;
    browser
        .until("document.querySelectorAll('#rows .row').length === 2 && document.title.startsWith('(2)')")
        .await;
    browser.press(&["j"]).await;
    browser.until(&format!("document.querySelector('article')?.dataset.id === '{second}'")).await;
    browser.press(&["j"]).await;
    browser.until(&format!("document.querySelector('article').dataset.id === '{first}'")).await;
    browser.press(&["ArrowUp"]).await;
    browser.until(&format!("document.querySelector('article').dataset.id === '{second}'")).await;
    browser.press(&["?"]).await;
    browser.until("document.querySelector('#keys').open").await;
    browser.picture("keys.png").await;
    browser.press(&["a", "Escape"]).await;
    browser.until("!document.querySelector('#keys').open").await;
    assert_eq!(desk.pending().await, 2, "behind the list of keys nothing is decided");
    settle().await;
    // Two presses in a hurry are one decision.
    browser.press(&["a", "a", "a"]).await;
    browser.until(&format!("document.querySelector('article').dataset.id === '{first}'")).await;
    assert_eq!(
        (desk.state(first).await, desk.state(second).await),
        (ApprovalState::Pending, ApprovalState::Approved)
    );
    settle().await;
    browser.press(&["s"]).await;
    browser.until("document.querySelector('details[data-key=s]').open").await;
    browser.picture("always.png").await;
    browser.eval("document.querySelectorAll('details[data-key=s] input[type=checkbox]').forEach((box) => box.value === '\"/to\"' || box.click())").await;
    browser.eval("document.querySelector('details[data-key=s] form').requestSubmit()").await;
    browser.until("document.querySelector('.ruling')").await;
    let rules = desk.server.runtime.approvals().rules(9).await.unwrap();
    assert_eq!(rules[0].same, helve::approval::Same::Fields(vec!["/to".to_owned()]));
    browser.go(&desk.server.url("/rules")).await;
    browser.until("document.querySelector('.cards form')").await;
    browser.picture("rules.png").await;
    browser.eval("document.querySelector('.cards form').requestSubmit()").await;
    browser.until("/No rule holds/.test(document.body.innerText)").await;
    assert!(desk.server.runtime.approvals().rules(9).await.unwrap()[0].revoked_at.is_some());
    assert_eq!(desk.sent().len(), 0);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_table_can_be_paused() {
    let desk = desk().await;
    let mut browser = desk.browser().await;
    browser.go(&desk.server.url("/live")).await;
    browser.until("document.querySelector('#live-state').textContent === 'connected'").await;
    let read = || Call::new("web/fetch", json!({})).by(Arc::new(Caller::agent("bot")));
    desk.server.runtime.call(read()).await;
    browser.until("document.querySelectorAll('#live tr').length === 1").await;
    browser.eval("document.querySelector('#live-pause').click()").await;
    desk.server.runtime.call(read()).await;
    desk.ask_mail("a@example.com").await;
    browser.until("document.querySelector('#live-pause').textContent === 'Go on (2)'").await;
    assert_eq!(browser.eval("document.querySelectorAll('#live tr').length").await, json!(1));
    browser.eval("document.querySelector('#live-pause').click()").await;
    browser.until("document.querySelectorAll('#live tr').length === 3").await;
    browser.picture("live.png").await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test]
async fn every_page_keeps_others_away() {
    let desk = desk().await;
    let id = desk.ask_mail("a@example.com").await;
    let (cookie, _) = desk.sign_in().await;
    let question = format!("/approvals/{id}");
    for path in [
        "/",
        &question,
        "/history",
        "/live",
        "/rules",
        "/sign-in",
        "/assets/page.js",
        "/assets/page.css",
        "/approvals/apr_x",
        "/history?state=x",
    ] {
        let reply = desk.get(path, &cookie).await;
        let policy = &reply.headers["content-security-policy"];
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path} {policy}"
        );
        assert!(
            policy.contains("frame-ancestors 'none'")
                && policy.contains("form-action 'self'")
                && !policy.contains("unsafe")
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.headers[name], value, "{path} {name}");
        }
        let inline = [" style=\"", "<style", " onclick", " onload", "javascript:"];
        assert!(path.starts_with("/assets") || !inline.iter().any(|bad| reply.body.contains(bad)), "{path}");
        assert!(
            !reply.body.contains("http://") && !reply.body.contains("https://") || path.ends_with(".js"),
            "{path}"
        );
    }
    // Strangers see the sign-in and its files, and nothing else. Those who call are strangers here.
    for path in ["/", &question, "/history", "/live", "/rules", "/changes"] {
        let reply = desk.get(path, "-").await;
        assert_eq!(reply.status, 303, "{path}");
        assert!(reply.headers["location"].starts_with("/sign-in"), "{reply:?}");
        let bearer = format!("Bearer {BOB}");
        let caller = desk.server.send(&format!("GET {path}"), &[("authorization", &bearer)], "").await;
        assert_eq!(caller.status, 303, "{path}");
    }
    assert_eq!(desk.get("/assets/../../Cargo.toml", "-").await.status, 401);
}

#[tokio::test]
async fn forms_decide_without_a_script_and_only_with_their_token() {
    let desk = desk().await;
    let (yes, no) = (desk.ask_mail("a@example.com").await, desk.ask_mail("b@example.com").await);
    let (cookie, token) = desk.sign_in().await;
    let page = desk.get("/", &cookie).await;
    assert!(page.body.contains(&format!("href=\"/approvals/{no}\"")) && page.body.contains("mail/send"));
    let approve = format!("/approvals/{yes}/approve");
    // Without the token, with another, twice, in the address, by GET, as another sort of body.
    for body in ["", "csrf=", "csrf=guess", &format!("csrf={token}&csrf={token}")] {
        assert_eq!(desk.form(&approve, &cookie, body).await.status, 403, "{body}");
    }
    let good = format!("csrf={token}");
    assert_eq!(desk.form(&format!("{approve}?{good}"), &cookie, "").await.status, 403);
    assert_eq!(desk.get(&format!("{approve}?{good}"), &cookie).await.status, 405);
    let plain = [("authorization", "-"), ("cookie", cookie.as_str()), ("content-type", "text/plain")];
    assert_eq!(desk.server.send(&format!("POST {approve}"), &plain, &good).await.status, 403);
    let media = ("content-type", "application/x-www-form-urlencoded");
    for foreign in [
        ("origin", "http://127.0.0.1:1"),
        ("origin", "null"),
        ("origin", "http://evil.example.com"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let headers = [plain[0], plain[1], media, foreign];
        assert_eq!(
            desk.server.send(&format!("POST {approve}"), &headers, &good).await.status,
            403,
            "{foreign:?}"
        );
    }
    // Without a cookie the token is worth nothing; with a caller's own secret neither.
    assert_eq!(desk.form(&approve, "-", &good).await.headers["location"], "/sign-in");
    let bearer = format!("Bearer {BOB}");
    let own = desk.server.send(&format!("POST {approve}"), &[("authorization", &bearer), media], &good).await;
    assert_eq!(own.status, 303, "{own:?}");
    assert_eq!((desk.state(yes).await, desk.sent().len()), (ApprovalState::Pending, 0));
    // The field opens no door of the API.
    let api = desk.form(&format!("/v1/approvals/{yes}/decision"), &cookie, &good).await;
    assert_eq!(api.status, 403);
    let decided = desk.form(&approve, &cookie, &good).await;
    assert_eq!(
        (decided.status, decided.headers["location"].as_str()),
        (303, format!("/approvals/{yes}").as_str())
    );
    assert_eq!(desk.state(yes).await, ApprovalState::Approved);
    let again = desk.form(&format!("/approvals/{yes}/deny"), &cookie, &good).await;
    assert_eq!(again.status, 409);
    assert!(again.body.contains("was approved by local user ada"), "{}", again.body);
    let denied =
        desk.form(&format!("/approvals/{no}/deny"), &cookie, &format!("{good}&reason=not+now")).await;
    assert_eq!(denied.status, 303);
    let page = desk.get(&format!("/approvals/{no}"), &cookie).await;
    assert!(page.body.contains("<blockquote>not now</blockquote>"), "{}", page.body);
    // An edit is shown first, by form as well.
    let third = desk.ask_mail("c@example.com").await;
    let edited = "edited=%7B%22to%22%3A%22d%40example.com%22%7D";
    let shown = desk.form(&format!("/approvals/{third}/edit"), &cookie, &format!("{good}&{edited}")).await;
    assert!(shown.status == 200 && shown.body.contains("<ins>"), "{shown:?}");
    assert_eq!(desk.state(third).await, ApprovalState::Pending);
    let approve = format!("/approvals/{third}/approve");
    assert_eq!(desk.form(&approve, &cookie, &format!("{good}&edited=%7B")).await.status, 422);
    assert_eq!(desk.form(&approve, &cookie, &format!("{good}&edited=%7B%22to%22%3A7%7D")).await.status, 422);
    assert_eq!(desk.state(third).await, ApprovalState::Pending);
    assert_eq!(desk.form(&approve, &cookie, &format!("{good}&{edited}")).await.status, 303);
    let outcome =
        desk.server.runtime.outcome_of(third, &Caller::agent("reviewer").session("s-7")).await.unwrap();
    assert!(matches!(outcome.status, Status::Done(_)), "{outcome:?}");
    assert_eq!(desk.sent(), [json!({ "to": "d@example.com" })]);
    let out = desk.form("/sign-out/form", &cookie, &good).await;
    assert_eq!(out.headers["location"], "/sign-in");
    assert_eq!(desk.get("/", &cookie).await.status, 303);
}

#[tokio::test]
async fn a_thousand_questions_come_in_pages() {
    let desk = desk().await;
    for n in 0..1_000 {
        desk.ask(Caller::agent("bot").session("s"), "files/delete", json!({ "path": format!("/tmp/{n}") }))
            .await;
    }
    let (cookie, _) = desk.sign_in().await;
    let first = desk.get("/", &cookie).await;
    assert_eq!(first.body.matches("class=\"row\"").count(), 50);
    assert!(first.body.contains("<b>1000</b> waiting"));
    let (mut seen, mut path) = (0, "/".to_owned());
    loop {
        let page = desk.get(&path, &cookie).await;
        seen += page.body.matches("class=\"row\"").count();
        let Some(older) = page.body.split("<a href=\"").find(|link| link.contains(">Older<")) else { break };
        path = older.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!(seen, 1_000);
    let filtered = desk.get("/?q=/tmp/77", &cookie).await;
    assert_eq!(filtered.body.matches("class=\"row\"").count(), 11);
}
