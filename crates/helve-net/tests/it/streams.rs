//! Servers that send too much, too slowly, or nothing at all.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get as on_get;
use helve_net::{Client, NetError, NetPolicy, Redirects, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::{client, get, raw, serve};

const MIB: usize = 1 << 20;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    brotli::CompressorWriter::new(&mut packed, 4_096, 5, 22).write_all(bytes).unwrap();
    packed
}

#[tokio::test]
async fn why_an_exchange_broke_off_is_said() {
    let large = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(5_000)).into_bytes();
    let packed =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 20\r\n\r\nthis is not gzip at all";
    for (answer, wanted) in [
        (b"SSH-2.0-OpenSSH_9.0\r\n\r\n".to_vec(), "what it answers is not HTTP"),
        (large, "its headers are too large"),
        (b"HTTP/1.1 200 OK\r\ncontent-le".to_vec(), "it closed the connection before it had answered"),
        (packed.to_vec(), "its content cannot be unpacked"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345".to_vec(),
            "end of file before message length reached",
        ),
    ] {
        let (address, _) = raw(move |mut stream| {
            let answer = answer.clone();
            async move {
                // It may have seen enough before all was sent.
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        })
        .await;
        let error = client(["127.0.0.1"]).fetch(get(address, "/")).await.unwrap_err();
        assert!(error.to_string().contains(wanted), "{wanted}: {error} {error:?}");
    }
}

#[tokio::test]
async fn what_broke_off_never_comes_to_a_good_end() {
    let broken: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345";
    let packed: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let large: &[u8] =
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\n123456\r\n1\r\n7\r\n0\r\n\r\n";
    for (what, answer) in [("broken", broken), ("packed", packed), ("large", large)] {
        let (address, _) = raw(move |mut stream| async move {
            let _ = stream.write_all(answer).await;
        })
        .await;
        let client = client(["127.0.0.1"]);
        let limit = if what == "large" { 5 } else { 100 };
        let mut response = client.open(get(address, "/").response_bytes_max(limit)).await.unwrap();
        let first = loop {
            match response.chunk().await {
                Ok(chunk) => assert!(chunk.is_some(), "{what}: a good end"),
                Err(error) => break error,
            }
        };
        for _ in 0..3 {
            let again = response.chunk().await;
            assert!(again.is_err(), "{what}: first {first:?}, then {again:?}");
        }
    }
}

#[tokio::test]
async fn decompression_bombs_stop_at_the_limit() {
    let zeros = vec![0; 16 * MIB];
    let bombs = [("gzip", gzip(&zeros)), ("br", brotli(&zeros)), ("deflate", deflate(&zeros))];
    for (encoding, bomb) in bombs {
        assert!(bomb.len() < MIB, "{encoding}");
        let answer = on_get(move || async move { ([("content-encoding", encoding)], bomb).into_response() });
        let address = serve(Router::new().route("/", answer)).await;
        let client = client(["127.0.0.1"]);
        let mut response = client.open(get(address, "/").response_bytes_max(2 * MIB)).await.unwrap();
        let mut got = 0;
        let error = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    assert!(chunk.len() <= MIB, "{encoding}: a chunk of {} bytes", chunk.len());
                    got += chunk.len();
                }
                Ok(None) => panic!("{encoding}: the bomb went off after {got} bytes"),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, NetError::TooLarge { limit, .. } if limit == 2 * MIB),
            "{encoding}: {error:?}"
        );
        assert!(got <= 2 * MIB && got > MIB, "{encoding}: {got}");
    }
}

#[tokio::test]
async fn a_bomb_in_a_bomb_is_not_unpacked_twice() {
    let nested = gzip(&gzip(&vec![0; 16 * MIB]));
    let length = nested.len();
    let answer = move |encoding: &'static str| {
        let nested = nested.clone();
        on_get(move || async move { ([("content-encoding", encoding)], nested) })
    };
    let router = Router::new().route("/list", answer("gzip, gzip")).route("/once", answer("gzip"));
    let address = serve(router).await;
    let client = client(["127.0.0.1"]);
    // A list of encodings is left as it came, and says so; one encoding is unpacked once.
    let list = client.fetch(get(address, "/list")).await.unwrap();
    assert_eq!((list.body.len(), list.header("content-encoding")), (length, Some("gzip, gzip")));
    let once = client.fetch(get(address, "/once")).await.unwrap();
    assert!(once.body.len() < MIB && once.body.starts_with(&[0x1f, 0x8b]));
}

#[tokio::test]
async fn content_that_is_not_what_it_says_is_an_error() {
    let answer = on_get(|| async { ([("content-encoding", "gzip")], "this is not gzip") });
    let address = serve(Router::new().route("/", answer)).await;
    let error = client(["127.0.0.1"]).fetch(get(address, "/")).await.unwrap_err();
    assert!(matches!(error, NetError::Broken { .. }), "{error:?}");
}

#[tokio::test]
async fn an_endless_body_stops_at_the_limit() {
    let (address, _) = raw(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
        while stream.write_all(&[b'x'; 65_536]).await.is_ok() {}
    })
    .await;
    let error = client(["127.0.0.1"]).fetch(get(address, "/").response_bytes_max(MIB)).await.unwrap_err();
    assert!(matches!(error, NetError::TooLarge { limit: MIB, .. }), "{error:?}");
}

#[tokio::test]
async fn an_endless_chunked_body_and_endless_trailers_stop_too() {
    for part in [&b"1\r\nx\r\n"[..], b"0;extension=aaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
        let (address, _) = raw(move |mut stream| async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            while stream.write_all(part).await.is_ok() {}
        })
        .await;
        let request = get(address, "/").response_bytes_max(10_000).timeout(Duration::from_secs(20));
        let error = client(["127.0.0.1"]).fetch(request).await.unwrap_err();
        assert!(matches!(error, NetError::TooLarge { .. } | NetError::Broken { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn huge_heads_are_refused() {
    let one = format!("x-long: {}\r\n", "y".repeat(8 * MIB));
    let many: String = (0..100_000).map(|number| format!("x-{number}: y\r\n")).collect();
    for headers in [one, many] {
        let (address, _) = raw(move |mut stream| {
            let head = format!("HTTP/1.1 200 OK\r\n{headers}content-length: 0\r\n\r\n");
            async move {
                let _ = stream.write_all(head.as_bytes()).await;
            }
        })
        .await;
        let error = client(["127.0.0.1"]).fetch(get(address, "/")).await.unwrap_err();
        assert!(matches!(error, NetError::Broken { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let (silent, _) = raw(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let (half, _) = raw(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let client = client(["127.0.0.1"]);
    for address in [silent, half] {
        let error = client.fetch(get(address, "/").timeout(Duration::from_millis(200))).await.unwrap_err();
        assert!(matches!(error, NetError::Timeout { .. }), "{error:?}");
    }
    // What came before is there to be used: the deadline is of the whole, not of the wait.
    let mut response = client.open(get(half, "/").timeout(Duration::from_millis(200))).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "half");
    assert!(matches!(response.chunk().await, Err(NetError::Timeout { .. })));
}

#[tokio::test]
async fn events_are_read_as_they_come() {
    let (more, mut next) = tokio::sync::mpsc::channel::<()>(1);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4_096]).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}data: 1\n\n").as_bytes()).await.unwrap();
        next.recv().await.unwrap();
        stream.write_all(b"data: 2\n\n").await.unwrap();
    });
    let mut response = client(["127.0.0.1"]).open(get(address, "/")).await.unwrap();
    assert_eq!(response.headers["content-type"], "text/event-stream");
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: 1\n\n");
    // The second is sent only now that the first was read.
    more.send(()).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "data: 2\n\n");
    assert_eq!(response.chunk().await.unwrap(), None);
}

#[tokio::test]
async fn the_policys_bounds_hold_for_requests_without_their_own() {
    let answer = on_get(|| async { "x".repeat(5_000) });
    let address = serve(Router::new().route("/", answer)).await;
    let bounded = |change: fn(&mut NetPolicy)| {
        let mut policy = NetPolicy::allowing(["127.0.0.1"]).unwrap();
        change(&mut policy);
        Client::new(policy).unwrap()
    };
    let small = bounded(|policy| policy.response_bytes = 4_999);
    let error = small.fetch(get(address, "/")).await.unwrap_err();
    assert!(matches!(error, NetError::TooLarge { limit: 4_999, .. }), "{error:?}");
    assert!(small.fetch(get(address, "/").response_bytes_max(5_000)).await.is_ok());

    let (silent, _) = raw(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let hasty = bounded(|policy| policy.timeout_ms = 50);
    let error = hasty.fetch(get(silent, "/")).await.unwrap_err();
    assert!(matches!(error, NetError::Timeout { .. }), "{error:?}");

    let (turning, hops) = raw(|mut stream| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .await;
    })
    .await;
    let staying = bounded(|policy| policy.redirects = 0);
    let error = staying.fetch(get(turning, "/")).await.unwrap_err();
    assert!(matches!(error, NetError::Redirect { .. }), "{error:?}");
    assert_eq!(hops.load(Ordering::SeqCst), 1);
    let stopped: Request = get(turning, "/").redirects(Redirects::Stop);
    assert_eq!(staying.fetch(stopped).await.unwrap().status.as_u16(), 302);
}
