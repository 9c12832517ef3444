//! What a call is labelled by is where it really goes: one entry of `net.allow` says nothing of other calls.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use helve::label::Label;
use helve::sessions::{LabelSettings, WhenMet};
use helve::{Call, Caller, ErrorCode, Outcome, Runtime, Settings, VolatileLedger};
use helve_net::{Client, Lookup, NetPolicy};
use helve_tools::web::client::LazyClient;
use helve_tools::{WebBackend, WebConfig, web_tools};
use serde_json::{Value, json};

use super::{Seen, backend, html, not_found, server};

/// Two servers on loopback: one that `net.allow` opens by its address, and one that stands for the public internet.
struct Bench {
    inside: SocketAddr,
    outside: SocketAddr,
    heard_inside: Arc<Mutex<Vec<Seen>>>,
    runtime: Runtime,
}

fn always_here() -> Lookup {
    Arc::new(|_| Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) }))
}

async fn bench(lookup: Lookup) -> Bench {
    bench_with(lookup, WhenMet::Ask).await
}

async fn bench_with(lookup: Lookup, when_met: WhenMet) -> Bench {
    let page = |seen: &Seen| match seen.uri.as_str() {
        "/robots.txt" => not_found(),
        _ => html("<p>the diary"),
    };
    let (inside, heard_inside) = server(page).await;
    let (outside, _) = server(move |seen| match seen.uri.as_str() {
        "/robots.txt" => not_found(),
        "/leads-inside" => {
            (StatusCode::FOUND, [("location", format!("http://{inside}/diary"))]).into_response()
        }
        "/leads-inside-by-name" => {
            let to = format!("http://intranet.example:{}/diary", inside.port());
            (StatusCode::FOUND, [("location", to)]).into_response()
        }
        _ => html("<p>news"),
    })
    .await;
    let policy = NetPolicy::allowing([inside.to_string().as_str()]).unwrap();
    let public = NetPolicy::allowing([format!("outside.example:{}", outside.port()).as_str()]).unwrap();
    let client = Client::with_lookup(policy, Arc::clone(&lookup)).unwrap();
    let client = LazyClient::from(client).with_public(Client::with_lookup(public, lookup).unwrap());
    let secret = format!(
        "[secrets]\nA = {{ env = 'OTHER_KEY', hosts = ['http://outside.example:{}'] }}",
        outside.port()
    );
    let config: WebConfig = toml::from_str(&secret).unwrap();
    let backend = WebBackend { variables: backend().variables, ..WebBackend::new(client) };
    let labels = LabelSettings { when_met, ..LabelSettings::default() };
    let mut builder = Runtime::builder()
        .ledger(Arc::new(VolatileLedger::default()))
        .settings(Settings { labels, ..Settings::default() });
    for tool in web_tools(&config, &backend).unwrap() {
        builder = builder.tool(tool).unwrap();
    }
    Bench { inside, outside, heard_inside, runtime: builder.build() }
}

fn bot(session: &str) -> Caller {
    Caller::agent("bot").session(session)
}

impl Bench {
    fn outside(&self, path: &str) -> String {
        format!("http://outside.example:{}{path}", self.outside.port())
    }

    fn intranet(&self) -> String {
        format!("http://intranet.example:{}/diary", self.inside.port())
    }

    /// A call in its own session, and whether that then holds private data.
    async fn call(&self, tool: &str, arguments: Value) -> (Outcome, bool) {
        static SESSIONS: AtomicUsize = AtomicUsize::new(0);
        let session = format!("s-{}", SESSIONS.fetch_add(1, Ordering::Relaxed));
        let outcome = self.call_in(&session, tool, arguments).await;
        (outcome, self.is_private(&session).await)
    }

    async fn call_in(&self, session: &str, tool: &str, arguments: Value) -> Outcome {
        self.runtime.call(Call::new(tool, arguments).by(bot(session))).await
    }

    async fn is_private(&self, session: &str) -> bool {
        let state = self.runtime.session(&bot(session)).await.unwrap().unwrap();
        assert!(state.labels().has(Label::Untrusted));
        state.labels().has(Label::Private)
    }

    fn has_heard(&self) -> bool {
        !self.heard_inside.lock().unwrap().is_empty()
    }
}

#[tokio::test]
async fn one_entry_labels_calls_that_go_there_and_no_others() {
    let bench = bench(always_here()).await;
    for tool in ["web-scrape", "http-get"] {
        let (outcome, private) = bench.call(tool, json!({ "url": bench.outside("/") })).await;
        assert!(outcome.is_success() && !private, "{tool}: {:?}", outcome.status);
        let by_address = format!("http://{}/diary", bench.inside);
        for url in [by_address, bench.intranet()] {
            let (outcome, private) = bench.call(tool, json!({ "url": url })).await;
            assert!(outcome.is_success() && private, "{tool} {url}: {:?}", outcome.status);
        }
    }
}

#[tokio::test]
async fn an_answer_to_a_secret_is_private_wherever_it_comes_from() {
    let bench = bench(always_here()).await;
    let asked = json!({ "url": bench.outside("/"), "headers": { "X-Key": "${secret:A}" } });
    // How it ends does not matter: to the client of private calls, this stand-in for the internet is closed.
    assert!(bench.call("http-get", asked).await.1);
}

#[tokio::test]
async fn what_is_public_leads_nowhere_inside() {
    let bench = bench(always_here()).await;
    for tool in ["web-scrape", "http-get"] {
        for path in ["/leads-inside", "/leads-inside-by-name"] {
            let (outcome, private) = bench.call(tool, json!({ "url": bench.outside(path) })).await;
            let error = outcome.error().unwrap();
            assert_eq!(error.code(), ErrorCode::PermissionDenied, "{tool} {path}: {error}");
            assert!(
                error.message().contains("[net] allow opens; something public may not lead there"),
                "{error}"
            );
            assert!(!private && !bench.has_heard(), "{tool} {path}");
        }
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_after_it_was_judged_reaches_nothing_inside() {
    let asked = AtomicUsize::new(0);
    let lookup: Lookup = Arc::new(move |_| {
        let address = if asked.fetch_add(1, Ordering::SeqCst) == 0 { "203.0.114.9" } else { "127.0.0.1" };
        Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
    });
    let bench = bench(lookup).await;
    let (outcome, private) = bench.call("http-get", json!({ "url": bench.intranet() })).await;
    assert_eq!(outcome.error().unwrap().code(), ErrorCode::PermissionDenied);
    assert!(!private && !bench.has_heard());
}

#[tokio::test]
async fn a_private_page_is_not_remembered_for_a_call_that_counts_as_public() {
    let is_inside = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_inside);
    let lookup: Lookup = Arc::new(move |_| {
        let address = if switch.load(Ordering::SeqCst) { "127.0.0.1" } else { "203.0.114.9" };
        Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
    });
    // Without labels: with them, the second call would be asked about.
    let bench = bench_with(lookup, WhenMet::Off).await;
    let arguments = json!({ "url": bench.intranet(), "max_age_ms": 60_000 });
    let first = bench.call_in("s", "web-scrape", arguments.clone()).await;
    assert!(first.is_success(), "{:?}", first.status);
    let again = bench.call_in("s", "web-scrape", arguments.clone()).await;
    assert_eq!(again.into_result().unwrap()["cached"], true);
    is_inside.store(false, Ordering::SeqCst);
    let public =
        Call::new("web-scrape", arguments).by(bot("s")).timeout(std::time::Duration::from_millis(300));
    let outcome = bench.runtime.call(public).await;
    assert!(!outcome.is_success(), "it went where the name leads now: {:?}", outcome.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_label_is_there_before_anything_is_asked_for() {
    let seen_at_request = Arc::new(Mutex::new(None));
    let runtime: Arc<Mutex<Option<Runtime>>> = Arc::default();
    let (kept, asked) = (Arc::clone(&seen_at_request), Arc::clone(&runtime));
    let (inside, _) = server(move |_| {
        let runtime = asked.lock().unwrap().clone().unwrap();
        let session = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async { runtime.session(&bot("s")).await.unwrap() })
        });
        *kept.lock().unwrap() = session.map(|session| session.labels().has(Label::Private));
        html("<p>the diary")
    })
    .await;
    let client =
        Client::with_lookup(NetPolicy::allowing([inside.to_string().as_str()]).unwrap(), always_here());
    let labels = LabelSettings { when_met: WhenMet::Ask, ..LabelSettings::default() };
    let mut builder = Runtime::builder().settings(Settings { labels, ..Settings::default() });
    for tool in web_tools(&WebConfig::default(), &WebBackend::new(client.unwrap().into())).unwrap() {
        builder = builder.tool(tool).unwrap();
    }
    let built = builder.build();
    *runtime.lock().unwrap() = Some(built.clone());
    let url = format!("http://intranet.example:{}/", inside.port());
    let outcome = built.call(Call::new("http-get", json!({ "url": url })).by(bot("s"))).await;
    assert!(outcome.is_success(), "{:?}", outcome.status);
    assert_eq!(*seen_at_request.lock().unwrap(), Some(true));
}
