//! HTTP/2 over TLS, as with servers out there. Which certificates are trusted is a matter of the
//! process, so the client runs in one of its own.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use helve_net::{Client, NetPolicy, Request};
use hyper::service::service_fn;
use hyper::{Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const URL: &str = "HELVE_TEST_HTTP2_URL";

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    versions: Mutex<Vec<Version>>,
}

#[tokio::test]
async fn one_http2_connection_serves_many_requests_at_once() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trusted.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let seen = Arc::new(Seen::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&seen)));

    #[expect(clippy::disallowed_methods, reason = "the client needs an environment of its own")]
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "http2::client_of_its_own", "--ignored", "--nocapture"]);
    child.env(URL, url).env("SSL_CERT_FILE", &file).kill_on_drop(true);
    let output = child.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(seen.connections.load(Ordering::SeqCst), 1);
    assert_eq!(*seen.versions.lock().unwrap(), [Version::HTTP_2; 61]);
}

async fn serve(listener: tokio::net::TcpListener, tls: TlsAcceptor, seen: Arc<Seen>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        seen.connections.fetch_add(1, Ordering::SeqCst);
        let (tls, seen) = (tls.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            let stream = tls.accept(stream).await.unwrap();
            let service = service_fn(|request: hyper::Request<hyper::body::Incoming>| {
                seen.versions.lock().unwrap().push(request.version());
                async { Ok::<_, Infallible>(Response::new("ok".to_owned())) }
            });
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[tokio::test]
#[ignore = "the other half of the test above"]
async fn client_of_its_own() {
    let Ok(url) = std::env::var(URL) else { return };
    let client = Client::new(NetPolicy::allowing(["localhost"]).unwrap()).unwrap();
    let fetch = || async {
        let response = client.fetch(Request::get(&url).unwrap()).await.unwrap();
        assert_eq!(response.text(), "ok");
    };
    fetch().await;
    for _ in 0..3 {
        let twenty: [_; 20] = std::array::from_fn(|_| {
            let (client, url) = (client.clone(), url.clone());
            tokio::spawn(async move { client.fetch(Request::get(&url).unwrap()).await.unwrap().status })
        });
        for one in twenty {
            assert_eq!(one.await.unwrap().as_u16(), 200);
        }
    }
}
