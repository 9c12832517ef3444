//! The proxy: real programs through it, and programs that try to get around it.

use std::net::{IpAddr, SocketAddr};
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, Method, Uri};
use axum::routing::any;
use helve_net::proxy::{Passage, Proxy, ProxyLimits};
use helve_net::{HostPattern, Lookup, NetPolicy, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{raw, serve};

/// A proxy that runs, and what it was asked for.
struct Running {
    address: SocketAddr,
    passages: Arc<Mutex<Vec<Passage>>>,
    lookups: Arc<AtomicUsize>,
}

struct Setup {
    policy: NetPolicy,
    grants: Vec<String>,
    limits: ProxyLimits,
    /// What every name leads to.
    names: &'static str,
}

impl Setup {
    fn granting(grants: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            policy: NetPolicy::default(),
            grants: grants.into_iter().map(Into::into).collect(),
            limits: ProxyLimits::default(),
            names: "127.0.0.1",
        }
    }

    fn proxy(self) -> (Proxy, Arc<Mutex<Vec<Passage>>>, Arc<AtomicUsize>) {
        let (passages, lookups) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (seen, counter) = (Arc::clone(&passages), Arc::clone(&lookups));
        let address: IpAddr = self.names.parse().unwrap();
        let lookup: Lookup = Arc::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { Ok(vec![address]) })
        });
        let grants: Vec<HostPattern> = self.grants.iter().map(|grant| grant.parse().unwrap()).collect();
        let proxy = Proxy::new(Arc::new(self.policy), grants, self.limits)
            .with_lookup(lookup)
            .on_passage(move |passage| seen.lock().unwrap().push(passage.clone()));
        (proxy, passages, lookups)
    }

    async fn start(self) -> Running {
        let (proxy, passages, lookups) = self.proxy();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { proxy.serve(listener).await.unwrap() });
        Running { address, passages, lookups }
    }
}

impl Running {
    fn refused(&self) -> Vec<String> {
        let passages = self.passages.lock().unwrap();
        let denied = passages.iter().filter(|passage| passage.verdict == Verdict::Deny);
        denied.map(|passage| passage.target.clone()).collect()
    }

    /// Sends bytes as they are, and gives all that comes back.
    async fn say(&self, text: impl AsRef<[u8]>) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let _ = tokio::time::timeout(Duration::from_secs(20), read).await.expect("the proxy must hang up");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Says what arrived.
async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: String) -> String {
    let mut names: Vec<_> = headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    format!("{method} {uri} host={:?} [{}] {body}", headers["host"], names.join(" "))
}

async fn echo_server() -> SocketAddr {
    serve(Router::new().fallback(any(echo))).await
}

#[expect(clippy::disallowed_methods, reason = "real clients are programs")]
async fn run_program(program: &str, args: &[&str], variables: &[(&str, String)]) -> Output {
    let mut command = tokio::process::Command::new(program);
    command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.envs(variables.iter().map(|(name, value)| (name, value))).kill_on_drop(true);
    tokio::time::timeout(Duration::from_secs(60), command.output()).await.unwrap().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn curl_gets_through_in_every_way() {
    let server = echo_server().await;
    let port = server.port();
    let setup = Setup::granting([server.to_string(), format!("api.test:{port}")]);
    let proxy = Setup { policy: NetPolicy::allowing(["api.test"]).unwrap(), ..setup }.start().await;
    let (plain, socks) = (format!("http://{}", proxy.address), format!("socks5h://{}", proxy.address));
    let by_name = format!("http://api.test:{port}/a?b=c");
    let ways: [&[&str]; 6] = [
        &["-x", &plain, &by_name],
        &["-x", &plain, "-p", &by_name],
        &["-x", &socks, &by_name],
        &["-x", &plain, "-d", "hello", &by_name],
        &["-x", &plain, "-H", "transfer-encoding: chunked", "-d", "hello", &by_name],
        &["-x", &plain, "-p", "-d", "hello", &by_name],
    ];
    for way in ways {
        let output = run_program("curl", &[&["-sS"], way].concat(), &[]).await;
        let expected = if way.contains(&"-d") { "POST /a?b=c" } else { "GET /a?b=c" };
        assert!(text(&output).starts_with(expected), "{way:?}: {}", text(&output));
        assert!(text(&output).contains(&format!("host=\"api.test:{port}\"")), "{way:?}: {}", text(&output));
        assert_eq!(text(&output).ends_with("hello"), way.contains(&"-d"), "{way:?}: {}", text(&output));
    }
    let by_address = format!("http://0x7f.1:{port}/");
    let output = run_program("curl", &["-sS", "-p", "-x", &plain, &by_address], &[]).await;
    assert!(text(&output).starts_with("GET / "), "{}", text(&output));
    assert_eq!(proxy.refused(), Vec::<String>::new());
}

#[tokio::test]
async fn curl_is_told_why_not() {
    let server = echo_server().await;
    let proxy = Setup::granting(["api.test:443"]).start().await;
    let plain = format!("http://{}", proxy.address);
    let url = format!("http://{server}/");
    let output = run_program("curl", &["-sS", "-i", "-x", &plain, &url], &[]).await;
    assert!(text(&output).starts_with("HTTP/1.1 403"), "{}", text(&output));
    assert!(text(&output).contains(&format!("grant `{server}`")), "{}", text(&output));
    // Also where the answer comes before the end of a long request.
    let folder = tempfile::tempdir().unwrap();
    for length in [600_000, 6_000_000] {
        let file = folder.path().join("content");
        std::fs::write(&file, vec![b'x'; length]).unwrap();
        let content = format!("@{}", file.display());
        let output =
            run_program("curl", &["-sS", "-i", "-x", &plain, "--data-binary", &content, &url], &[]).await;
        assert!(text(&output).contains("HTTP/1.1 403"), "{length}: {}", text(&output));
    }
    let output = run_program("curl", &["-sS", "-p", "-x", &plain, &url], &[]).await;
    assert!(text(&output).contains("403"), "{}", text(&output));
    let output =
        run_program("curl", &["-sS", "-x", &format!("socks5h://{}", proxy.address), &url], &[]).await;
    assert!(!output.status.success());
    assert_eq!(proxy.refused(), vec![server.to_string(); 5]);
}

#[tokio::test]
async fn python_gets_through_by_its_environment() {
    let server = echo_server().await;
    let proxy = Setup::granting([server.to_string()]).start().await;
    let script = "import sys, urllib.request as u\nprint(u.urlopen(sys.argv[1], timeout=20).read().decode())";
    let plain = format!("http://{}", proxy.address);
    let variables = [("http_proxy", plain.clone()), ("https_proxy", plain)];
    let output = run_program("python3", &["-c", script, &format!("http://{server}/x")], &variables).await;
    assert!(text(&output).starts_with("GET /x "), "{}", text(&output));
    let output = run_program("python3", &["-c", script, "http://169.254.169.254/"], &variables).await;
    assert!(text(&output).contains("403"), "{}", text(&output));
    // TLS goes through a tunnel; that the other side speaks none is told by Python, not by us.
    let output = run_program("python3", &["-c", script, &format!("https://{server}/")], &variables).await;
    assert!(text(&output).to_lowercase().contains("ssl"), "{}", text(&output));
    let output = run_program("python3", &["-c", script, "https://other.test/"], &variables).await;
    assert!(text(&output).contains("403"), "{}", text(&output));
    assert_eq!(proxy.refused(), ["169.254.169.254:80", "other.test:443"]);
}

#[tokio::test]
async fn a_grant_opens_exactly_what_it_says() {
    let server = echo_server().await;
    let port = server.port();
    // Grants, allow of the policy, where names lead, target, whether it is let through.
    type Case = (&'static [&'static str], &'static [&'static str], &'static str, &'static str, bool);
    let cases: &[Case] = &[
        (&["127.0.0.1:PORT"], &[], "127.0.0.1", "127.0.0.1:PORT", true),
        (&["127.0.0.1:PORT"], &[], "127.0.0.1", "2130706433:PORT", true),
        (&["127.0.0.1:PORT"], &[], "127.0.0.1", "[::ffff:127.0.0.1]:PORT", true),
        (&["127.0.0.1:PORT"], &[], "127.0.0.1", "localhost:PORT", true),
        (&["127.0.0.1:1"], &[], "127.0.0.1", "127.0.0.1:PORT", false),
        (&["127.0.0.2:PORT"], &[], "127.0.0.1", "127.0.0.1:PORT", false),
        (&["localhost:PORT"], &[], "127.0.0.1", "localhost:PORT", true),
        (&["localhost:PORT"], &[], "127.0.0.1", "LOCALHOST.:PORT", true),
        (&["localhost:PORT"], &[], "127.0.0.1", "127.0.0.1:PORT", false),
        (&["localhost:PORT"], &[], "127.0.0.1", "evil.localhost:PORT", false),
        (&["localhost:1"], &[], "127.0.0.1", "localhost:PORT", false),
        // A name opens nothing private, unless the policy does.
        (&["api.test:PORT"], &[], "127.0.0.1", "api.test:PORT", false),
        (&["*.test"], &[], "127.0.0.1", "api.test:PORT", false),
        (&["api.test:PORT"], &["api.test"], "127.0.0.1", "api.test:PORT", true),
        (&["api.test:PORT"], &["127.0.0.1"], "127.0.0.1", "api.test:PORT", true),
        (&["api.test:PORT"], &["127.0.0.1"], "127.0.0.1", "API.TEST.:PORT", true),
        (&["*.test"], &["127.0.0.1"], "127.0.0.1", "api.test:PORT", true),
        // Every host is every public one.
        (&["*"], &[], "127.0.0.1", "127.0.0.1:PORT", false),
        (&["*"], &[], "127.0.0.1", "api.test:PORT", false),
        (&["*"], &["*"], "127.0.0.1", "api.test:PORT", false),
        (&["*"], &[], "127.0.0.1", "localhost:PORT", false),
        (&["*"], &["127.0.0.1"], "127.0.0.1", "127.0.0.1:PORT", true),
        (&["*:PORT"], &["api.test"], "127.0.0.1", "api.test:PORT", true),
        (&["*:1"], &["api.test"], "127.0.0.1", "api.test:PORT", false),
        // What the policy allows is not granted by that.
        (&["other.test:PORT"], &["127.0.0.1"], "127.0.0.1", "api.test:PORT", false),
        (&["other.test:PORT"], &["127.0.0.1"], "127.0.0.1", "127.0.0.1:PORT", false),
        (&[], &["127.0.0.1"], "127.0.0.1", "127.0.0.1:PORT", false),
        // A name must be granted as such; where it leads may be granted as well.
        (&["127.0.0.0/8"], &[], "127.0.0.1", "api.test:PORT", false),
        (&["127.0.0.0/8", "api.test"], &[], "127.0.0.1", "api.test:PORT", true),
        (&["127.0.0.0/8", "api.test"], &[], "10.0.0.1", "api.test:PORT", false),
        (&["api.test:PORT"], &["*.test"], "169.254.169.254", "api.test:PORT", false),
    ];
    for (grants, allow, names, target, through) in cases {
        let with_port = |text: &&str| text.replace("PORT", &port.to_string());
        let mut setup = Setup::granting(grants.iter().map(with_port));
        setup.policy = NetPolicy::allowing(allow.iter().copied()).unwrap();
        setup.names = names;
        let (proxy, target) = (setup.start().await, with_port(target));
        let head = format!(
            "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        );
        let answer = proxy.say(head).await;
        let expected = if *through { "HTTP/1.1 200" } else { "HTTP/1.1 403" };
        assert!(answer.starts_with(expected), "{grants:?} {allow:?} {names} {target}: {answer}");
        assert_eq!(answer.contains("GET / "), *through, "{target}: {answer}");
        assert_eq!(proxy.refused().is_empty(), *through, "{target}");
    }
}

#[tokio::test]
async fn deny_and_only_stand_above_grants() {
    let server = echo_server().await;
    for change in [
        (|policy: &mut NetPolicy| policy.deny = vec!["127.0.0.0/8".parse().unwrap()]) as fn(&mut NetPolicy),
        |policy| policy.only = vec!["api.test".parse().unwrap()],
    ] {
        let mut setup = Setup::granting([server.to_string()]);
        change(&mut setup.policy);
        let proxy = setup.start().await;
        let answer = proxy.say(format!("CONNECT {server} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("[net]"), "{answer}");
    }
}

#[tokio::test]
async fn what_is_not_granted_is_not_looked_up() {
    let proxy = Setup::granting(["api.test:443", "127.0.0.0/8"]).start().await;
    for target in ["secret-data.evil.test:443", "api.test:80", "api.test.evil.test:443"] {
        let answer = proxy.say(format!("CONNECT {target} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    assert_eq!(proxy.lookups.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_request_is_written_anew() {
    let server = echo_server().await;
    let proxy = Setup::granting([server.to_string()]).start().await;
    let head = format!(
        "GET http://{server}/a/../b?c#d HTTP/1.1\r\nHost: {server}\r\nProxy-Authorization: Basic eA==\r\n\
         Proxy-Connection: keep-alive\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\nX-Kept: 1\r\n\
         TE: trailers\r\nUpgrade: websocket\r\nKeep-Alive: 1\r\n\r\n"
    );
    let answer = proxy.say(head).await;
    assert!(
        answer.contains(&format!("GET /b?c host={:?} [connection host x-kept] ", server.to_string())),
        "{answer}"
    );
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn hostile_heads_reach_nobody() {
    let (server, accepted) = raw(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    })
    .await;
    let proxy = Setup::granting([server.to_string(), "api.test".to_owned()]).start().await;
    let long = "a".repeat(100_000);
    let many: String = (0..5_000).map(|number| format!("x-{number}: y\r\n")).collect();
    let heads = [
        // Not what a proxy is asked.
        "GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nhost: {server}\r\n\r\n"),
        "OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        format!("GET https://{server}/ HTTP/1.1\r\nhost: {server}\r\n\r\n"),
        format!("GET ftp://{server}/ HTTP/1.1\r\nhost: {server}\r\n\r\n"),
        "GET file:///etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        // A host that is not the target.
        format!("GET http://{server}/ HTTP/1.1\r\nhost: other.test\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\nhost: {server}\r\nhost: {server}\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\nhost: {server}@other.test\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\n\r\n"),
        format!("CONNECT {server} HTTP/1.1\r\nhost: other.test:1\r\n\r\n"),
        // Names and passwords in the target.
        format!("GET http://a:b@{server}/ HTTP/1.1\r\nhost: {server}\r\n\r\n"),
        format!("CONNECT a@{server} HTTP/1.1\r\n\r\n"),
        format!("CONNECT api.test@{server} HTTP/1.1\r\n\r\n"),
        // Targets that are none.
        "CONNECT / HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT 127.0.0.1 HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT 127.0.0.1: HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT 127.0.0.1:0 HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT 127.0.0.1:+80 HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT 127.0.0.1:65536 HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT [::1 HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT [fe80::1%25lo]:80 HTTP/1.1\r\n\r\n".to_owned(),
        "CONNECT :80 HTTP/1.1\r\n\r\n".to_owned(),
        format!("CONNECT {server}\0 HTTP/1.1\r\n\r\n"),
        format!("CONNECT {server} api.test:80 HTTP/1.1\r\n\r\n"),
        // Requests within requests.
        format!("CONNECT {server} HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello"),
        format!("CONNECT {server} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!(
            "POST http://{server}/ HTTP/1.1\r\nhost: {server}\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"
        ),
        format!("POST http://{server}/ HTTP/1.1\r\nhost: {server}\r\ncontent-length: +1\r\n\r\nx"),
        format!("POST http://{server}/ HTTP/1.1\r\nhost: {server}\r\ntransfer-encoding: gzip\r\n\r\nx"),
        format!(
            "POST http://{server}/ HTTP/1.1\r\nhost: {server}\r\ntransfer-encoding: chunked, gzip\r\n\r\nx"
        ),
        format!("GET http://{server}/ HTTP/1.1\r\nhost : {server}\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\n host: {server}\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\nhost: {server}\r\nx: a\rb\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\nhost: {server}\r\nx: a\0b\r\n\r\n"),
        format!("GET http://{server}/ HTTP/9.9\r\nhost: {server}\r\n\r\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        // Too much.
        format!("GET http://{server}/{long} HTTP/1.1\r\nhost: {server}\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\nhost: {server}\r\nx: {long}\r\n\r\n"),
        format!("GET http://{server}/ HTTP/1.1\r\nhost: {server}\r\n{many}\r\n"),
        format!("CONNECT {long}:80 HTTP/1.1\r\n\r\n"),
        // Other protocols.
        "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03\r\n\r\n".to_owned(),
        "\x04\x01\x00\x50\x7f\x00\x00\x01\x00\r\n\r\n".to_owned(),
        "SSH-2.0-x\r\n\r\n".to_owned(),
        "\r\n\r\n\r\n\0\0\0".to_owned(),
    ];
    for head in heads {
        let answer = proxy.say(&head).await;
        let shown: String = head.chars().take(120).collect();
        assert!(!answer.starts_with("HTTP/1.1 2"), "{shown:?}: {answer}");
        assert_eq!(accepted.load(Ordering::SeqCst), 0, "{shown:?}: {answer}");
    }
}

#[tokio::test]
async fn nothing_behind_a_request_is_a_second_one() {
    let server = echo_server().await;
    let proxy = Setup::granting([server.to_string()]).start().await;
    let one = format!("GET http://{server}/first HTTP/1.1\r\nhost: {server}\r\n\r\n");
    let second = format!("GET http://{server}/second HTTP/1.1\r\nhost: {server}\r\n\r\n");
    let forbidden = "GET http://169.254.169.254/second HTTP/1.1\r\nhost: 169.254.169.254\r\n\r\n".to_owned();
    let chunked = format!(
        "POST http://{server}/first HTTP/1.1\r\nhost: {server}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{second}"
    );
    let both = format!(
        "POST http://{server}/first HTTP/1.1\r\nhost: {server}\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{second}"
    );
    let short = format!(
        "POST http://{server}/first HTTP/1.1\r\nhost: {server}\r\ncontent-length: 2\r\n\r\nab{second}"
    );
    let named_away = format!(
        "POST http://{server}/first HTTP/1.1\r\nhost: {server}\r\nconnection: content-length\r\ncontent-length: {}\r\n\r\n{second}",
        second.len()
    );
    for text in [one.clone() + &second, one + &forbidden, chunked, both, short] {
        let answer = proxy.say(&text).await;
        assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{text:?}: {answer}");
        assert!(!answer.contains("/second "), "{text:?}: {answer}");
    }
    // Here it is the content, and arrives as that.
    let answer = proxy.say(&named_away).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    assert!(answer.contains("POST /first ") && answer.contains(&second), "{answer}");
    let refused = "GET http://10.0.0.1/ HTTP/1.1\r\nhost: 10.0.0.1\r\n\r\n".to_owned()
        + &format!("GET http://{server}/second HTTP/1.1\r\nhost: {server}\r\n\r\n");
    let answer = proxy.say(refused).await;
    assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("/second "), "{answer}");
}

#[tokio::test]
async fn a_refusal_is_heard_by_those_who_send_first_and_listen_later() {
    let proxy = Setup::granting(["api.test:443"]).start().await;
    let content = "x".repeat(900_000);
    for head in ["POST http://10.0.0.1/ HTTP/1.1\r\nhost: 10.0.0.1\r\n", "POST / HTTP/1.1\r\nhost: x\r\n"] {
        let answer = proxy.say(format!("{head}content-length: {}\r\n\r\n{content}", content.len())).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{head}: {answer}");
    }
}

#[tokio::test]
async fn socks_is_spoken_and_checked() {
    let server = echo_server().await;
    let [high, low] = server.port().to_be_bytes();
    let mut setup = Setup::granting([server.to_string(), format!("api.test:{}", server.port())]);
    setup.policy = NetPolicy::allowing(["api.test"]).unwrap();
    let proxy = setup.start().await;
    let get = b"GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let ask = |request: &[u8]| [&[5, 1, 0][..], request, get].concat();
    let name = |name: &str| [&[5, 1, 0, 3, name.len() as u8][..], name.as_bytes(), &[high, low]].concat();
    let through = [
        vec![5, 1, 0, 1, 127, 0, 0, 1, high, low],
        name("api.test"),
        name("127.0.0.1"),
        name("0x7f.1"),
        [&[5, 1, 0, 4][..], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1], &[high, low]].concat(),
    ];
    for request in through {
        let answer = proxy.say(ask(&request)).await;
        assert!(answer.starts_with("\x05\0\x05\0") && answer.contains("GET /x "), "{request:?}: {answer:?}");
    }
    let refused = [
        (2, vec![5, 1, 0, 1, 127, 0, 0, 2, high, low]),
        (2, vec![5, 1, 0, 1, 169, 254, 169, 254, 0, 80]),
        (2, name("evil.test")),
        (2, name("localhost.evil.test")),
        (8, name("a b")),
        (8, name("")),
        (8, name("[::1")),
        (8, vec![5, 1, 0, 1, 127, 0, 0, 1, 0, 0]),
        (8, vec![5, 1, 0, 9, 127, 0, 0, 1, high, low]),
        (7, vec![5, 2, 0, 1, 127, 0, 0, 1, high, low]),
        (7, vec![5, 3, 0, 1, 127, 0, 0, 1, high, low]),
    ];
    for (code, request) in refused {
        // Without what would be behind it: an answer that was sent is lost when unread input is.
        let answer = proxy.say([&[5, 1, 0][..], &request].concat()).await;
        assert!(answer.starts_with(&format!("\x05\0\x05{}", char::from(code))), "{request:?}: {answer:?}");
    }
    assert_eq!(proxy.say([5, 1, 2]).await.as_bytes(), "\x05\u{fffd}".as_bytes());
    assert_eq!(proxy.say([5, 1, 0, 4, 1, 0, 1]).await.as_bytes().get(2), None);
}

#[tokio::test]
async fn silence_and_floods_end() {
    let (silent, _) = raw(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let mut setup = Setup::granting([silent.to_string()]);
    setup.limits.idle = Duration::from_millis(200);
    let proxy = setup.start().await;
    // Nothing at all, half a head, half a greeting, a server that does not answer, an idle tunnel.
    proxy.say("").await;
    proxy.say("GET http://").await;
    proxy.say([5]).await;
    proxy.say(format!("GET http://{silent}/ HTTP/1.1\r\nhost: {silent}\r\n\r\n")).await;
    proxy.say(format!("CONNECT {silent} HTTP/1.1\r\n\r\nhello")).await;

    let (endless, _) =
        raw(|mut stream| async move { while stream.write_all(&[b'x'; 65_536]).await.is_ok() {} }).await;
    let mut setup = Setup::granting([endless.to_string()]);
    setup.limits.connection_bytes = Some(1 << 20);
    let proxy = setup.start().await;
    let flood = proxy.say(format!("CONNECT {endless} HTTP/1.1\r\n\r\nhello")).await;
    assert!(flood.starts_with("HTTP/1.1 200") && flood.len() <= 1 << 20, "{}", flood.len());
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let server = echo_server().await;
    let mut setup = Setup::granting([server.to_string()]);
    setup.limits.connections = 1;
    let proxy = setup.start().await;
    let mut first = TcpStream::connect(proxy.address).await.unwrap();
    first.write_all(format!("CONNECT {server} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    first.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let mut second = TcpStream::connect(proxy.address).await.unwrap();
    second.write_all(format!("CONNECT {server} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let waits = tokio::time::timeout(Duration::from_millis(300), second.read_exact(&mut answer)).await;
    assert!(waits.is_err());
    drop(first);
    second.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test]
async fn any_kind_of_stream_is_served_and_tunnels_close_in_halves() {
    let (server, _) = raw(|mut stream| async move {
        // Answers only once the client has said all it has to say.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        let _ = stream.write_all(b"goodbye").await;
    })
    .await;
    let (proxy, ..) = Setup::granting([server.to_string()]).proxy();
    let (mut ours, theirs) = tokio::io::duplex(1_024);
    tokio::spawn(async move { proxy.serve_stream(theirs).await });
    ours.write_all(format!("CONNECT {server} HTTP/1.1\r\n\r\nhello").as_bytes()).await.unwrap();
    let mut head = [0; 12];
    ours.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    ours.shutdown().await.unwrap();
    let mut rest = String::new();
    ours.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with("\r\n\r\ngoodbye"), "{rest:?}");
}

#[tokio::test]
async fn a_dropped_proxy_ends_its_tunnels() {
    let server = echo_server().await;
    let (proxy, ..) = Setup::granting([server.to_string()]).proxy();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { proxy.serve(listener).await });
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("CONNECT {server} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    serving.abort();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok());
}
