use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::HeaderMap;
use axum::routing::{get as on_get, post as on_post};
use helve_net::{Client, Method, NetError, NetPolicy, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::server::{client, client_with_dns, get, raw, serve};

async fn error(client: &Client, request: Request) -> NetError {
    client.fetch(request).await.expect_err("the request must fail")
}

#[tokio::test]
async fn a_listed_host_is_reached_and_answers() {
    let echo = on_post(|headers: HeaderMap, body: String| async move {
        ([("x-seen", headers["x-sent"].clone())], format!("got {body}"))
    });
    let address = serve(Router::new().route("/", echo)).await;
    let mut request = get(address, "/").body("hello");
    request.method = Method::POST;
    request.headers.insert("x-sent", "1".parse().unwrap());
    let response = client(["127.0.0.1"]).fetch(request).await.unwrap();
    assert_eq!((response.status.as_u16(), &*response.text()), (200, "got hello"));
    assert_eq!(response.header("x-seen"), Some("1"));
    assert_eq!(response.content_type(), "text/plain");
}

#[tokio::test]
async fn an_unlisted_loopback_server_is_never_contacted() {
    let hits = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&hits);
    let count = on_get(move || async move { seen.fetch_add(1, Ordering::SeqCst).to_string() });
    let address = serve(Router::new().route("/", count)).await;
    let port = address.port();
    let strict = Client::new(NetPolicy::default()).unwrap();
    for host in ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "[::ffff:127.0.0.1]"] {
        let request = Request::get(&format!("http://{host}:{port}/?key=hunter2")).unwrap();
        let error = error(&strict, request).await;
        assert!(matches!(error, NetError::Forbidden { .. }), "{host}: {error:?}");
        assert!(error.to_string().contains("[net] allow"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert_eq!(hits.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_port_of_an_entry_holds_for_names_too() {
    let address = serve(Router::new().route("/", on_get(|| async { "ok" }))).await;
    let other = serve(Router::new().route("/", on_get(|| async { "ok" }))).await;
    let client = client_with_dns(&[&format!("api.test:{}", address.port())], &["127.0.0.1"]);
    let at = |port: u16| Request::get(&format!("http://api.test:{port}/")).unwrap();
    assert_eq!(client.fetch(at(address.port())).await.unwrap().text(), "ok");
    assert!(matches!(error(&client, at(other.port())).await, NetError::Forbidden { .. }));
}

#[tokio::test]
async fn a_name_with_one_forbidden_address_is_refused() {
    let client = client_with_dns(&["127.0.0.1"], &["127.0.0.1", "10.0.0.1"]);
    let request = Request::get("http://rebind.test:9/").unwrap();
    let error = error(&client, request).await;
    assert!(
        matches!(&error, NetError::Forbidden { address, .. } if address.to_string() == "10.0.0.1"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_request_cannot_name_another_host_or_length() {
    let client = client_with_dns(&["127.0.0.1"], &["127.0.0.1"]);
    for name in ["host", "Content-Length", "transfer-encoding", "connection", "upgrade", "te"] {
        let mut request = Request::get("http://a.test:9/").unwrap();
        request.headers.insert(name.parse::<helve_net::HeaderName>().unwrap(), "5".parse().unwrap());
        let upgraded = client.upgrade(request.clone(), "websocket").await.unwrap_err();
        assert!(matches!(upgraded, NetError::BadHeader { .. }), "{name}: {upgraded:?}");
        let error = error(&client, request).await;
        assert!(matches!(error, NetError::BadHeader { .. }), "{name}: {error:?}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let ports =
        on_get(|ConnectInfo(peer): ConnectInfo<std::net::SocketAddr>| async move { peer.port().to_string() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service =
        Router::new().route("/", ports).into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    let client = client(["127.0.0.1"]);
    let first = client.fetch(get(address, "/")).await.unwrap().text().into_owned();
    let second = client.fetch(get(address, "/")).await.unwrap().text().into_owned();
    assert_eq!(first, second);
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_is_replaced() {
    let closed = Arc::new(Notify::new());
    let tell = Arc::clone(&closed);
    let (address, accepted) = raw(move |mut stream| {
        let tell = Arc::clone(&tell);
        async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            drop(stream);
            tell.notify_one();
        }
    })
    .await;
    let client = client(["127.0.0.1"]);
    for round in 1..=3 {
        let mut request = get(address, "/").body("change");
        request.method = Method::POST;
        assert_eq!(client.fetch(request).await.unwrap().text(), "ok");
        assert_eq!(accepted.load(Ordering::SeqCst), round);
        closed.notified().await;
        // The kernel knows of the close; before this goes on, tokio asks it for news.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_names_one_host() {
    let told = on_get(|headers: axum::http::HeaderMap| async move {
        let hosts = headers.get_all("host").iter().map(|host| host.to_str().unwrap().to_owned());
        hosts.collect::<Vec<_>>().join(", ")
    });
    let address = serve(Router::new().route("/", told)).await;
    let client = client(["127.0.0.1"]);
    assert_eq!(client.fetch(get(address, "/")).await.unwrap().text(), address.to_string());
    let mut named = get(address, "/");
    named.headers.insert("host", "shop.example".parse().unwrap());
    assert!(matches!(error(&client, named).await, NetError::BadHeader { .. }));
}

#[tokio::test]
async fn what_nobody_reads_is_not_taken_for_the_next_answer() {
    let long = on_get(|| async { "x".repeat(1 << 20) });
    let short = on_get(|| async { "short" });
    let next = on_get(|| async { "next" });
    let router = Router::new().route("/long", long).route("/short", short).route("/next", next);
    let address = serve(router).await;
    let client = client(["127.0.0.1"]);
    for path in ["/long", "/short", "/next", "/long"] {
        let mut opened = client.open(get(address, path)).await.unwrap();
        if path == "/next" {
            assert!(opened.chunk().await.unwrap().is_some());
        }
        drop(opened);
        assert_eq!(client.fetch(get(address, "/next")).await.unwrap().text(), "next", "after {path}");
    }
}

#[tokio::test]
async fn many_at_once_have_each_their_own_answer() {
    let echo = on_post(|body: String| async move {
        tokio::time::sleep(Duration::from_millis(body.len() as u64 % 7)).await;
        body
    });
    let address = serve(Router::new().route("/", echo)).await;
    let client = client(["127.0.0.1"]);
    for _ in 0..3 {
        let asked = (0..50).map(|number: usize| {
            let (client, text) = (client.clone(), format!("{number} {}", "y".repeat(number * 997)));
            let mut request = get(address, "/").body(text.clone());
            request.method = Method::POST;
            tokio::spawn(async move { assert_eq!(client.fetch(request).await.unwrap().text(), text) })
        });
        for asked in asked.collect::<Vec<_>>() {
            asked.await.unwrap();
        }
    }
}

#[tokio::test]
async fn large_responses_are_refused_announced_or_not() {
    let plain = on_get(|| async { "x".repeat(100_000) });
    // 40 bytes of gzip that unpack to 10,000 zeros.
    let bomb = on_get(|| async { ([("content-encoding", "gzip")], ZEROS_GZIP) });
    let address = serve(Router::new().route("/plain", plain).route("/bomb", bomb)).await;
    let client = client(["127.0.0.1"]);
    for path in ["/plain", "/bomb"] {
        let request = get(address, path).response_bytes_max(9_999);
        let error = error(&client, request).await;
        assert!(matches!(error, NetError::TooLarge { limit: 9_999, .. }), "{path}: {error:?}");
    }
    let unpacked = client.fetch(get(address, "/bomb").response_bytes_max(10_000)).await.unwrap();
    assert_eq!(*unpacked.body, [b'0'; 10_000]);
}

#[tokio::test]
async fn the_deadline_covers_a_body_that_trickles() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4_096]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let started = std::time::Instant::now();
    let error = error(&client(["127.0.0.1"]), get(address, "/").timeout(Duration::from_millis(100))).await;
    assert!(matches!(error, NetError::Timeout { .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn failures_are_told_apart() {
    let address = serve(Router::new()).await;
    let client = client(["127.0.0.1", "localhost"]);
    let closed = Request::get("http://127.0.0.1:1/?token=hunter2").unwrap();
    let closed = error(&client, closed).await;
    assert!(matches!(closed, NetError::Connect { .. }), "{closed:?}");
    assert!(!format!("{closed:?}").contains("hunter2"), "{closed:?}");
    let plain = Request::get(&format!("https://{address}/")).unwrap();
    let plain = error(&client, plain).await;
    assert!(matches!(plain, NetError::Tls { .. }), "{plain:?}");
    let unknown = error(&client, Request::get("http://no-such-host.invalid/").unwrap()).await;
    assert!(matches!(unknown, NetError::Dns { .. }), "{unknown:?}");
    assert!(matches!(Request::get("not a url"), Err(NetError::BadUrl { .. })));
    let nobody = client_with_dns(&[], &[]);
    let nobody = error(&nobody, Request::get("http://empty.test/").unwrap()).await;
    assert!(matches!(nobody, NetError::Dns { .. }), "{nobody:?}");
}

const ZEROS_GZIP: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xed, 0xc1, 0x01, 0x0d, 0x00, 0x00, 0x00,
    0xc2, 0xa0, 0x4a, 0xef, 0x9f, 0xce, 0x1c, 0x6e, 0x40, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0xc0, 0xbf, 0x01, 0x69, 0x58, 0x18, 0x0a, 0x10, 0x27, 0x00, 0x00,
];
