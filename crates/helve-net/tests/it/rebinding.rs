//! Names whose address changes, and redirects that lead inside.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::routing::get as on_get;
use helve_net::{Client, Lookup, NetError, NetPolicy, Request};
use tokio::io::AsyncWriteExt;

use crate::server::{client, get, raw, serve};

/// A name that answers with the next of these addresses each time, and how often it was asked.
fn changing(addresses: &'static [&'static str]) -> (Lookup, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |_| {
        let number = counter.fetch_add(1, Ordering::SeqCst);
        let address: IpAddr = addresses[number.min(addresses.len() - 1)].parse().unwrap();
        Box::pin(async move { Ok(vec![address]) })
    });
    (lookup, asked)
}

/// A server that ends every connection, and counts them.
async fn closing() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    raw(|mut stream| async move {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await;
    })
    .await
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_checked() {
    // The first answer is allowed; the second, which a careless client would connect to, is not.
    let (lookup, asked) = changing(&["127.0.0.1", "127.0.0.2"]);
    let (address, accepted) = closing().await;
    let policy = NetPolicy::allowing(["127.0.0.1"]).unwrap();
    let client = Client::with_lookup(policy, lookup).unwrap();
    let request = || Request::get(&format!("http://rebind.test:{}/", address.port())).unwrap();
    assert_eq!(client.fetch(request()).await.unwrap().text(), "ok");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one connection, one lookup");
    let error = client.fetch(request()).await.unwrap_err();
    assert!(
        matches!(&error, NetError::Forbidden { address, .. } if address.to_string() == "127.0.0.2"),
        "{error:?}"
    );
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_redirect_to_the_same_name_is_looked_up_and_checked_again() {
    let (address, accepted) = raw(|mut stream| async move {
        let head = "HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let _ = stream.write_all(head.as_bytes()).await;
    })
    .await;
    let (lookup, _) = changing(&["127.0.0.1", "169.254.169.254"]);
    let client = Client::with_lookup(NetPolicy::allowing(["127.0.0.1"]).unwrap(), lookup).unwrap();
    let request = Request::get(&format!("http://rebind.test:{}/", address.port())).unwrap();
    let error = client.fetch(request).await.unwrap_err();
    assert!(matches!(error, NetError::Forbidden { range: "link-local", .. }), "{error:?}");
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn no_redirect_leads_inside_in_any_notation() {
    let (inside, accepted) = closing().await;
    let port = inside.port();
    let forms = [
        "http://127.0.0.1",
        "http://127.1",
        "http://2130706433",
        "http://0x7f.1",
        "http://0x7f000001",
        "http://017700000001",
        "http://0177.0.0.1",
        "http://127.0.0.1.",
        "http://%31%32%37.0.0.1",
        "http://[::1]",
        "http://[::ffff:127.0.0.1]",
        "http://[::ffff:7f00:1]",
        "http://[64:ff9b::7f00:1]",
        "http://[::127.0.0.1]",
        "http://[::]",
        "http://0.0.0.0",
        "http://0",
        "http://localhost",
        "http://LOCALHOST.",
        "http://a.localhost",
        "//127.0.0.1",
        "//localhost",
        "\\\\127.0.0.1",
        "/\\127.0.0.1",
        "http:\\\\127.0.0.1",
        "http://a@127.0.0.1",
        "http://a:b@localhost",
        "HTTP://127.0.0.1",
        "https://127.0.0.1",
        "ftp://127.0.0.1",
        "file://127.0.0.1",
    ];
    let redirect = move |Path(number): Path<usize>| async move {
        (StatusCode::FOUND, [(header::LOCATION, format!("{}:{port}/", forms[number]))])
    };
    let address = serve(Router::new().route("/{number}", on_get(redirect))).await;
    // The server that redirects may be reached, and nothing else.
    let client = client([address.to_string().as_str()]);
    for (number, form) in forms.iter().enumerate() {
        let error = client.fetch(get(address, &format!("/{number}"))).await.unwrap_err();
        let refused =
            matches!(error, NetError::Forbidden { .. } | NetError::BadUrl { .. } | NetError::Redirect { .. });
        assert!(refused, "{form}: {error:?}");
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn redirects_in_a_circle_end() {
    let there = on_get(|| async { (StatusCode::FOUND, [(header::LOCATION, "/back")]) });
    let back = on_get(|| async { (StatusCode::FOUND, [(header::LOCATION, "/there")]) });
    let address = serve(Router::new().route("/there", there).route("/back", back)).await;
    let error = client(["127.0.0.1"]).fetch(get(address, "/there")).await.unwrap_err();
    assert!(error.to_string().contains("too many"), "{error}");
}

#[tokio::test]
async fn deny_and_only_hold_for_every_hop() {
    let (inside, accepted) = closing().await;
    let target = format!("http://other.test:{}/", inside.port());
    let redirect = on_get(move || async move { (StatusCode::FOUND, [(header::LOCATION, target)]) });
    let address = serve(Router::new().route("/", redirect)).await;
    let at = || Request::get(&format!("http://start.test:{}/", address.port())).unwrap();
    let everything = |change: &dyn Fn(&mut NetPolicy)| {
        let mut policy = NetPolicy::allowing(["127.0.0.0/8"]).unwrap();
        change(&mut policy);
        Client::with_lookup(policy, changing(&["127.0.0.1"]).0).unwrap()
    };
    assert_eq!(everything(&|_| ()).fetch(at()).await.unwrap().text(), "ok");
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
    let pattern = |text: &str| vec![text.parse().unwrap()];
    let with_port = format!("other.test:{}", inside.port());
    let network = format!("127.0.0.1:{}", inside.port());
    let closed = [
        everything(&|policy| policy.deny = pattern("other.test")),
        everything(&|policy| policy.deny = pattern(&with_port)),
        everything(&|policy| policy.deny = pattern(&network)),
        everything(&|policy| policy.only = pattern("start.test")),
        everything(&|policy| policy.only = pattern(&format!("127.0.0.1:{}", address.port()))),
    ];
    for client in closed {
        let error = client.fetch(at()).await.unwrap_err();
        assert!(matches!(error, NetError::Denied { .. }), "{error:?}");
        assert!(error.to_string().contains("other.test"), "{error}");
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    // With lists, too, and by name and by address: a check must not cost the connection.
    let accepted = Arc::new(AtomicUsize::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counter = Arc::clone(&accepted);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                use tokio::io::AsyncReadExt;
                let mut buffer = [0; 4_096];
                while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                }
            });
        }
    });
    let (lookup, asked) = changing(&["127.0.0.1"]);
    let mut policy = NetPolicy::allowing(["127.0.0.1"]).unwrap();
    policy.deny = vec!["evil.test".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
    policy.only =
        vec![format!("keep.test:{}", address.port()).parse().unwrap(), address.to_string().parse().unwrap()];
    let client = Client::with_lookup(policy, lookup).unwrap();
    for host in ["keep.test".to_owned(), "127.0.0.1".to_owned()] {
        let before = accepted.load(Ordering::SeqCst);
        for _ in 0..50 {
            let request = Request::get(&format!("http://{host}:{}/", address.port())).unwrap();
            assert_eq!(client.fetch(request).await.unwrap().text(), "ok");
        }
        assert_eq!(accepted.load(Ordering::SeqCst), before + 1, "{host}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
