//! The proxy of confined programs: whatever a program writes, only what was granted is reached, and a server behind it
//! sees one request at most, for the host that was checked. `PORT` in the input stands for the port that was granted.
#![no_main]

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve_net::proxy::{Proxy, ProxyLimits};
use helve_net::{HostPattern, Lookup, NetPolicy, Verdict};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

struct Net {
    runtime: Runtime,
    listener: TcpListener,
}

thread_local! {
    static NET: RefCell<Option<Net>> = const { RefCell::new(None) };
}

fuzz_target!(|input: &[u8]| {
    NET.with_borrow_mut(|net| {
        let Net { runtime, listener } = net.get_or_insert_with(Net::new);
        runtime.block_on(one(listener, input));
    });
});

impl Net {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        Self { runtime, listener }
    }
}

async fn one(listener: &TcpListener, input: &[u8]) {
    let port = listener.local_addr().expect("it is bound").port();
    let granted = format!("127.0.0.1:{port}");
    let passages = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&passages);
    let lookup: Lookup = Arc::new(|_| Box::pin(async { Err(io::ErrorKind::NotFound.into()) }));
    let grants: Vec<HostPattern> =
        vec![granted.parse().expect("a pattern"), "name.test".parse().expect("a pattern")];
    let limits = ProxyLimits { idle: Duration::from_secs(2), ..ProxyLimits::default() };
    let proxy = Proxy::new(Arc::new(NetPolicy::default()), grants, limits)
        .with_lookup(lookup)
        .on_passage(move |passage| seen.lock().expect("no panic").push(passage.clone()));

    let (mut program, inside) = tokio::io::duplex(64 << 10);
    let written = replace(input, b"PORT", port.to_string().as_bytes());
    let client = async {
        let _ = program.write_all(&written).await;
        let _ = program.shutdown().await;
        let mut answer = Vec::new();
        let _ = program.read_to_end(&mut answer).await;
    };
    let talk = async {
        tokio::join!(client, proxy.serve_stream(inside));
    };
    let mut arrived = Vec::new();
    tokio::pin!(talk);
    loop {
        tokio::select! {
            () = &mut talk => break,
            Ok((stream, _)) = listener.accept() => {
                arrived.push(tokio::select! { bytes = upstream(stream) => bytes, () = &mut talk => break });
            }
        }
    }
    let passages = passages.lock().expect("no panic");
    for passage in passages.iter().filter(|passage| passage.verdict == Verdict::Allow) {
        let is_granted = passage.target == granted || passage.target.starts_with("name.test:");
        assert!(is_granted, "`{}` was let through", passage.target);
    }
    assert!(arrived.len() <= passages.len(), "a connection that nobody asked for");
    // A tunnel carries what it is given; what is passed on is one request that we wrote.
    for request in arrived.iter().filter(|_| is_passed_on(&written)) {
        let text = String::from_utf8_lossy(request);
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let hosts: Vec<&str> =
            head.lines().filter(|line| line.to_ascii_lowercase().starts_with("host:")).collect();
        assert_eq!(hosts.len(), 1, "{head}");
        assert!(hosts[0].ends_with(&granted), "{head}");
        assert!(head.to_ascii_lowercase().contains("connection: close"), "{head}");
    }
}

/// What a server gets. It answers once and hangs up.
async fn upstream(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = vec![0; 64 << 10];
    let read = stream.read(&mut bytes).await.unwrap_or(0);
    bytes.truncate(read);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").await;
    bytes
}

/// Whether the first thing asked for is no tunnel.
fn is_passed_on(written: &[u8]) -> bool {
    let text = String::from_utf8_lossy(written);
    let start = text.trim_start_matches(['\r', '\n']);
    !start.starts_with("CONNECT ") && written.first() != Some(&5)
}

fn replace(input: &[u8], word: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.windows(word.len()).position(|window| window == word) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + word.len()..];
    }
    out.extend_from_slice(rest);
    out
}
