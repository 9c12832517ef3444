//! Collectors that are down, slow, busy or hostile: calls run all the same.

use std::time::Duration;

use axum::http::StatusCode;
use helve::Call;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::collector::{Collector, LONG, runtime, telemetry};

fn call() -> Call {
    Call::new("greet", json!({ "name": "Ada" }))
}

#[tokio::test]
async fn a_collector_that_is_down_is_no_business_of_a_call() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let runtime = runtime(&telemetry(address, |options| options), |builder| builder);
    for _ in 0..3 {
        assert!(runtime.call(call()).await.is_success());
        runtime.flush_traces(LONG).await;
    }
}

#[tokio::test]
async fn a_collector_that_never_answers_fills_a_queue_and_no_more() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let telemetry = telemetry(listener.local_addr().unwrap(), |options| options);
    let runtime = runtime(&telemetry, |builder| builder);
    for _ in 0..6_000 {
        assert!(runtime.call(call()).await.is_success());
    }
    assert!(helve_core::ports::Tracer::dropped(&*telemetry) > 0, "all others wait or are on their way");
    // Who waits for it is let go.
    runtime.flush_traces(Duration::from_millis(10)).await;
}

#[tokio::test]
async fn what_a_busy_collector_does_not_take_is_sent_again() {
    let (collector, address) = Collector::start(&[StatusCode::SERVICE_UNAVAILABLE]).await;
    let runtime = runtime(&telemetry(address, |options| options), |builder| builder);
    runtime.call(call()).await;
    // Nobody waits, so that there is time to send it again.
    while collector.posts().len() < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let posts = collector.posts();
    assert_eq!(posts[0].1, posts[1].1);
}

#[tokio::test]
async fn what_a_collector_refuses_for_good_is_not_sent_again() {
    let (collector, address) = Collector::start(&[StatusCode::BAD_REQUEST]).await;
    let runtime = runtime(&telemetry(address, |options| options), |builder| builder);
    runtime.call(call()).await;
    runtime.flush_traces(LONG).await;
    assert_eq!(collector.posts().len(), 1);
    runtime.call(call()).await;
    runtime.flush_traces(LONG).await;
    assert_eq!(collector.posts().len(), 2, "the next ones are");
}

#[tokio::test]
async fn a_token_does_not_follow_a_redirect_and_a_long_answer_is_not_read() {
    let (elsewhere, other) = Collector::start(&[]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = [
        format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{other}/v1/traces\r\ncontent-length: 0\r\n\r\n"
        ),
        format!("HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n{}", "x".repeat(1 << 20)),
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\u{7f}\u{7f}\u{7f}\u{7f}".to_owned(),
    ];
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = vec![0; 64 << 10];
            let _ = stream.read(&mut read).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let telemetry = telemetry(address, |options| options.header("authorization", "Bearer letmein").unwrap());
    let runtime = runtime(&telemetry, |builder| builder);
    for _ in 0..3 {
        assert!(runtime.call(call()).await.is_success());
        runtime.flush_traces(LONG).await;
    }
    assert!(elsewhere.posts().is_empty());
}
