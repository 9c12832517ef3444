//! `web-search` against servers that answer in the published shapes of the four providers.

use std::net::SocketAddr;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use helve::{ErrorCode, Tool};
use helve_tools::http::Variables;
use helve_tools::{WebBackend, WebConfig, web_tools};
use serde_json::{Value, json};

use super::{Seen, backend, named, server, tools};
use crate::call;

const ALL: &str = "
[search]
providers = ['searxng', 'tavily', 'brave', 'serpapi']
timeout_ms = 2000
[search.searxng]
url = 'http://HOST/searx'
[search.tavily]
url = 'http://HOST/tavily'
[search.brave]
url = 'http://HOST/brave'
key = '${env:OTHER_KEY}'
[search.serpapi]
url = 'http://HOST/serpapi'
key = '${env:OTHER_KEY}'
";

fn only(provider: &str) -> String {
    ALL.replace("['searxng', 'tavily', 'brave', 'serpapi']", &format!("['{provider}']"))
}

fn search(config: &str, server: SocketAddr) -> Tool {
    named(tools(config, server, &backend()), "web-search")
}

fn json_answer(value: Value) -> Response {
    axum::Json(value).into_response()
}

/// As each provider documents its answers.
fn documented(seen: &Seen) -> Response {
    json_answer(match seen.uri.split(['?']).next().unwrap() {
        "/searx/search" => json!({
            "query": "rust", "number_of_results": 0, "answers": [], "corrections": [], "infoboxes": [],
            "suggestions": ["rust game"], "unresponsive_engines": [["google", "timeout"]],
            "results": [
                { "url": "https://www.rust-lang.org/", "title": "Rust", "content": "A language.", "thumbnail": "",
                  "engine": "duckduckgo", "engines": ["duckduckgo"], "positions": [1], "score": 1.0,
                  "parsed_url": ["https", "www.rust-lang.org", "/", "", "", ""], "template": "default.html",
                  "category": "general", "publishedDate": null },
                { "url": "https://news.example/1", "title": "News", "content": "…", "engine": "bing news", "score": 0.5,
                  "publishedDate": "2026-11-01T00:00:00" } ] }),
        "/tavily/search" => json!({
            "query": "rust", "follow_up_questions": null, "answer": null, "images": [], "response_time": 1.67,
            "request_id": "123",
            "results": [{ "url": "https://www.rust-lang.org/", "title": "Rust", "content": "A language.",
                          "score": 0.98, "raw_content": null }] }),
        "/brave/res/v1/web/search" => json!({
            "type": "search", "query": { "original": "rust", "more_results_available": true },
            "mixed": { "type": "mixed", "main": [] },
            "web": { "type": "search", "family_friendly": true, "results": [{
                "title": "Rust", "url": "https://www.rust-lang.org/", "description": "A <strong>language</strong> &amp; more.",
                "is_source_local": false, "page_age": "2026-10-30T12:00:00", "age": "October 30, 2026", "language": "en",
                "profile": { "name": "Rust" }, "meta_url": { "hostname": "www.rust-lang.org" } }] } }),
        "/serpapi/search.json" => json!({
            "search_metadata": { "id": "1", "status": "Success" }, "search_parameters": { "engine": "google", "q": "rust" },
            "search_information": { "total_results": 1 },
            "organic_results": [{ "position": 1, "title": "Rust", "link": "https://www.rust-lang.org/",
                "displayed_link": "https://www.rust-lang.org", "snippet": "A language.", "date": "Oct 30, 2026",
                "source": "Rust Programming Language" }] }),
        other => panic!("nobody documents {other}"),
    })
}

#[tokio::test]
async fn each_provider_is_asked_as_documented_and_its_answer_has_the_one_shape() {
    let (address, seen) = server(documented).await;
    for provider in ["searxng", "tavily", "brave", "serpapi"] {
        let tool = search(&only(provider), address);
        let answer = call(&tool, json!({ "query": "rust & \"c\"", "maxResults": 3 })).await.unwrap();
        insta::assert_json_snapshot!(format!("search_{provider}"), answer);
    }
    let seen = seen.lock().unwrap();
    let uris: Vec<_> = seen.iter().map(|one| format!("{} {}", one.method, one.uri)).collect();
    assert_eq!(
        uris,
        [
            "GET /searx/search?q=rust+%26+%22c%22&format=json",
            "POST /tavily/search",
            "GET /brave/res/v1/web/search?q=rust+%26+%22c%22&count=3&text_decorations=false",
            "GET /serpapi/search.json?engine=google&q=rust+%26+%22c%22&num=3&api_key=s3cret-v%40lue",
        ]
    );
    assert_eq!(seen[1].header("authorization"), Some("Bearer tvly-s3cret"));
    assert_eq!(seen[1].body, r#"{"query":"rust & \"c\"","max_results":3}"#);
    assert_eq!(seen[2].header("x-subscription-token"), Some("s3cret-v@lue"));
    assert_eq!((seen[0].header("authorization"), seen[0].header("x-subscription-token")), (None, None));
}

#[tokio::test]
async fn the_next_provider_is_asked_where_one_fails_and_the_result_says_so() {
    let (address, _) = server(|seen| match seen.uri.split('/').nth(1).unwrap() {
        "searx" => (StatusCode::FORBIDDEN, "Forbidden").into_response(),
        "tavily" => {
            (StatusCode::TOO_MANY_REQUESTS, json!({ "detail": { "error": "slow down" } }).to_string())
                .into_response()
        }
        "brave" => (StatusCode::BAD_GATEWAY, "oops s3cret-v@lue").into_response(),
        _ => documented(seen),
    })
    .await;
    let answer = call(&search(ALL, address), json!({ "query": "rust" })).await.unwrap();
    assert_eq!(answer["provider"], "serpapi");
    let failed: Vec<_> = answer["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["provider"].as_str().unwrap(), one["code"].as_str().unwrap()))
        .collect();
    assert_eq!(
        failed,
        [("searxng", "integration_missing"), ("tavily", "rate_limit"), ("brave", "server_error")]
    );
    assert!(!answer.to_string().contains("s3cret"), "{answer}");
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_or_has_no_key_is_passed_over() {
    let (address, _) = server(documented).await;
    let config = ALL
        .replace("http://HOST/searx", "http://127.0.0.1:9")
        .replace("[search.tavily]", "[search.tavily]\nkey = '${env:EMPTY}'");
    let answer = call(&search(&config, address), json!({ "query": "rust" })).await.unwrap();
    assert_eq!((&answer["provider"], &answer["failed"][0]["code"]), (&json!("brave"), &json!("network")));
    assert_eq!(answer["failed"][1]["code"], "integration_missing");
    assert!(answer["failed"][1]["reason"].as_str().unwrap().contains("`EMPTY` is not set"));
}

#[tokio::test]
async fn where_all_fail_the_error_tells_of_each_and_of_no_secret() {
    let (address, _) = server(|seen| match seen.uri.contains("/serpapi") {
        true => (StatusCode::UNAUTHORIZED, json!({ "error": "Invalid API key: s3cret-v@lue" }).to_string())
            .into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "7")], "down").into_response(),
    })
    .await;
    let error = call(&search(ALL, address), json!({ "query": "rust" })).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServerError);
    assert_eq!(error.retry_after_hint(), Some(std::time::Duration::from_secs(7)));
    for provider in ["searxng", "tavily", "brave", "serpapi"] {
        assert!(error.message().contains(&format!("{provider}: ")), "{error}");
    }
    assert!(error.message().contains("[redacted]") && !error.message().contains("s3cret"), "{error}");
    assert!(error.suggestions().iter().any(|one| one.contains("OTHER_KEY")), "{:?}", error.suggestions());
}

#[tokio::test]
async fn a_query_that_a_provider_refuses_is_not_sent_to_others() {
    let (address, seen) =
        server(|_| (StatusCode::UNPROCESSABLE_ENTITY, "query too long").into_response()).await;
    let error = call(&search(ALL, address), json!({ "query": "rust" })).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (ErrorCode::ExecutionFailed, false));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn hostile_answers_are_passed_over() {
    let bodies: [(&str, String); 6] = [
        ("text/html", "<html>log in</html>".to_owned()),
        ("application/json", "{\"results\": [".to_owned()),
        ("application/json", json!({ "results": { "a": 1 } }).to_string()),
        ("application/json", "[".repeat(100_000)),
        ("application/json", format!("\"{}\"", "x".repeat(3 << 20))),
        ("application/json", format!("[{}]", "0,".repeat(900_000) + "0")),
    ];
    for (content_type, body) in bodies {
        let (address, _) = server(move |seen| match seen.uri.starts_with("/searx") {
            true => ([("content-type", content_type)], body.clone()).into_response(),
            false => documented(seen),
        })
        .await;
        let answer = call(&search(ALL, address), json!({ "query": "rust" })).await.unwrap();
        assert_eq!(answer["provider"], "tavily");
        assert!(answer["failed"][0]["reason"].as_str().unwrap().len() < 400);
    }
}

#[tokio::test]
async fn with_nothing_configured_the_error_says_what_to_configure() {
    let nothing = WebBackend { variables: Variables::fixed([]), ..backend() };
    let tool = named(web_tools(&WebConfig::default(), &nothing).unwrap(), "web-search");
    assert_eq!(tool.definition().integrations, ["web-search"], "so models are not shown it");
    let error = call(&tool, json!({ "query": "x" })).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::IntegrationMissing);
    assert!(error.suggestions()[0].contains("TAVILY_API_KEY"));
}

#[tokio::test]
async fn a_key_alone_makes_it_work() {
    let (address, seen) = server(documented).await;
    // No provider is chosen; the address is only another one so that nobody outside is asked.
    let config = "[search.tavily]\nurl = 'http://HOST/tavily'\n";
    let tool = named(tools(config, address, &backend()), "web-search");
    assert!(tool.definition().integrations.is_empty());
    let answer = call(&tool, json!({ "query": "rust" })).await.unwrap();
    assert_eq!((&answer["provider"], &answer["results"][0]["title"]), (&json!("tavily"), &json!("Rust")));
    {
        let asked = seen.lock().unwrap();
        assert_eq!(asked.len(), 1, "the others have no key");
        assert_eq!(asked[0].headers["authorization"], "Bearer tvly-s3cret");
    }

    let empty = WebBackend { variables: Variables::fixed([("TAVILY_API_KEY", " ")]), ..backend() };
    let tool = named(tools(config, address, &empty), "web-search");
    assert_eq!(tool.definition().integrations, ["web-search"], "an empty key is none");
    // A SearXNG of one's own needs no key, and comes first.
    let config = "[search.searxng]\nurl = 'http://HOST/searx'\n[search.tavily]\nurl = 'http://HOST/tavily'\n";
    let tool = named(tools(config, address, &backend()), "web-search");
    assert_eq!(call(&tool, json!({ "query": "rust" })).await.unwrap()["provider"], "searxng");
}

#[test]
fn keys_and_addresses_that_cannot_be_used_are_refused() {
    for (config, part) in [
        ("[search]\nproviders = ['searxng']", "search.searxng.url"),
        ("[search]\nproviders = ['tavily']\n[search.tavily]\nkey = 'tvly-abc'", "search.tavily.key"),
        ("[search]\nproviders = ['brave']\n[search.brave]\nurl = 'ftp://x'", "search.brave.url"),
        ("[secrets]\nA = { env = 'A', hosts = [] }", "secrets.A"),
        ("[secrets]\nA = { env = 'A', hosts = ['*'] }", "secrets.A"),
        ("[secrets]\n'a b' = { env = 'A', hosts = ['x.example'] }", "secrets.a b"),
    ] {
        let config: WebConfig = toml::from_str(config).unwrap();
        let error = web_tools(&config, &backend()).map(|_| ()).unwrap_err();
        assert_eq!(error.at, part);
        assert!(!error.message.contains("tvly-abc"));
    }
}
