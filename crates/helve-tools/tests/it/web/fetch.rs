//! `http-get` and `http-request` against a real server.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use helve::{ErrorCode, Tool, ToolError};
use helve_sandbox::Unwritable;
use helve_tools::WebBackend;
use helve_tools::web::Downloads;
use serde_json::{Value, json};

use super::{Seen, backend, named, server, text, tools};
use crate::call;

const SECRETS: &str = "
[secrets]
API = { env = 'OTHER_KEY', hosts = ['http://HOST'] }
ELSEWHERE = { env = 'OTHER_KEY', hosts = ['api.example.com'] }
UNSET = { env = 'NOT_SET', hosts = ['http://HOST'] }
";

fn get(server: SocketAddr) -> Tool {
    named(tools(SECRETS, server, &backend()), "http-get")
}

fn request(server: SocketAddr) -> Tool {
    named(tools(SECRETS, server, &backend()), "http-request")
}

fn echo(seen: &Seen) -> Response {
    axum::Json(json!({
        "method": seen.method, "uri": seen.uri, "body": seen.body,
        "note": seen.header("x-note"), "authorization": seen.header("authorization"),
        "type": seen.header("content-type"), "agent": seen.header("user-agent"),
    }))
    .into_response()
}

async fn ask(tool: &Tool, server: SocketAddr, path: &str, more: Value) -> Result<Value, ToolError> {
    let mut arguments = json!({ "url": format!("http://{server}{path}") });
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call(tool, arguments).await
}

#[tokio::test]
async fn a_request_arrives_as_it_was_worded() {
    let (address, _) = server(echo).await;
    let answer = ask(
        &get(address),
        address,
        "/a b?x=1#part",
        json!({
        "query": { "q": "a&b=c", "n": 3, "ok": true, "list": ["x", 1.5] }, "headers": { "X-Note": "hi" } }),
    )
    .await
    .unwrap();
    assert_eq!(answer["status"], 200);
    assert_eq!(answer["json"]["uri"], "/a%20b?x=1&list=x&list=1.5&n=3&ok=true&q=a%26b%3Dc");
    assert_eq!(answer["json"]["note"], "hi");
    assert!(text(&answer, "/json/agent").starts_with("helve/"));
    let bodies = [
        (json!({ "method": "POST", "json": { "a": [1, null] } }), r#"{"a":[1,null]}"#, "application/json"),
        (
            json!({ "method": "PUT", "form": { "a": "1 2", "b": ["x", "y"] } }),
            "a=1+2&b=x&b=y",
            "application/x-www-form-urlencoded",
        ),
        (json!({ "method": "PATCH", "text": "héllo" }), "héllo", "text/plain; charset=utf-8"),
        (
            json!({ "method": "POST", "text": "<a/>", "headers": { "content-type": "application/xml" } }),
            "<a/>",
            "application/xml",
        ),
    ];
    for (arguments, body, content_type) in bodies {
        let answer = ask(&request(address), address, "/", arguments.clone()).await.unwrap();
        assert_eq!(answer["json"]["method"], arguments["method"]);
        assert_eq!((text(&answer, "/json/body"), text(&answer, "/json/type")), (body, content_type));
    }
}

#[tokio::test]
async fn a_bad_status_is_a_result_and_no_connection_an_error() {
    let (address, _) = server(|_| {
        (StatusCode::NOT_FOUND, [("content-type", "text/plain")], "no such thing").into_response()
    })
    .await;
    let answer = ask(&get(address), address, "/", json!({ "response": "json" })).await.unwrap();
    assert_eq!((&answer["status"], &answer["ok"]), (&json!(404), &json!(false)));
    assert_eq!(answer["text"], "no such thing");
    let dead = "127.0.0.1:9".parse().unwrap();
    let error = ask(&get(dead), dead, "/", json!({})).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (ErrorCode::Network, true));
    for url in ["http://169.254.169.254/", "http://10.0.0.1/", "http://[::1]:8080/", "http://0x7f.1.1.1:80/"]
    {
        let error = call(&get(address), json!({ "url": url })).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied, "{url}");
    }
}

#[tokio::test]
async fn a_secret_goes_where_it_is_bound_and_never_comes_back() {
    let (address, seen) = server(|seen| {
        let all = format!("{} {:?}", seen.uri, seen.header("authorization"));
        ([("x-echo", seen.header("authorization").unwrap_or("none").to_owned())], all).into_response()
    })
    .await;
    let arguments = json!({
        "headers": { "Authorization": "Bearer ${secret:API}" }, "query": { "key": "${secret:API}" }, "response": "text" });
    let answer = ask(&get(address), address, "/x", arguments).await.unwrap();
    {
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0].header("authorization"), Some("Bearer s3cret-v@lue"));
        assert_eq!(seen[0].uri, "/x?key=s3cret-v%40lue");
    }
    assert!(!answer.to_string().contains("s3cret"), "{answer}");
    assert_eq!(answer["headers"]["x-echo"], "Bearer [redacted]");
    assert!(text(&answer, "/url").ends_with("/x?key=[redacted]"), "{answer}");
    for (name, code) in [
        ("ELSEWHERE", ErrorCode::PermissionDenied),
        ("NOBODYS", ErrorCode::ValidationFailed),
        ("UNSET", ErrorCode::IntegrationMissing),
        ("API", ErrorCode::PermissionDenied),
    ] {
        // The same machine by another name is another host.
        let url = match name {
            "API" => format!("http://localhost:{}/", address.port()),
            _ => format!("http://{address}/"),
        };
        let arguments = json!({ "url": url, "headers": { "A": format!("x${{secret:{name}}}") } });
        let error = call(&get(address), arguments).await.unwrap_err();
        assert_eq!(error.code(), code, "{name}: {error}");
        assert!(!format!("{error:?}").contains("s3cret"));
    }
    let in_url = call(&get(address), json!({ "url": format!("http://{address}/?k=${{secret:API}}") })).await;
    assert!(in_url.unwrap_err().message().contains("`headers` or `query`"));
    assert_eq!(seen.lock().unwrap().len(), 1, "what is refused is not sent");
}

#[tokio::test]
async fn a_redirect_to_another_origin_leaves_the_secret_behind() {
    let (other, others) = server(echo).await;
    let (address, seen) = server(move |seen| match seen.uri.as_str() {
        "/away" => (StatusCode::FOUND, [("location", format!("http://{other}/there"))]).into_response(),
        "/within" => (StatusCode::FOUND, [("location", "/here")]).into_response(),
        _ => echo(seen),
    })
    .await;
    let headers = json!({ "headers": { "Authorization": "${secret:API}", "Accept": "${secret:API}" } });
    let answer = ask(&get(address), address, "/away", headers.clone()).await.unwrap();
    assert_eq!(answer["json"]["authorization"], Value::Null);
    let accept = others.lock().unwrap()[0].header("accept").map(str::to_owned);
    assert!(!accept.unwrap_or_default().contains("s3cret"));
    ask(&get(address), address, "/within", headers.clone()).await.unwrap();
    assert_eq!(seen.lock().unwrap().last().unwrap().header("authorization"), Some("s3cret-v@lue"));
    let stopped = ask(&get(address), address, "/away", json!({ "follow_redirects": false })).await.unwrap();
    assert_eq!((&stopped["status"], &stopped["ok"]), (&json!(302), &json!(false)));
    let change =
        ask(&request(address), address, "/away", json!({ "method": "PUT", "text": "x" })).await.unwrap_err();
    assert!(change.message().contains("another origin"), "{change}");
}

#[tokio::test]
async fn arguments_that_make_no_request_are_refused_before_one_is_made() {
    let (address, seen) = server(echo).await;
    let tool = request(address);
    for arguments in [
        json!({ "method": "GET", "headers": { "Host": "evil.example" } }),
        json!({ "method": "GET", "headers": { "Content-Length": "5" } }),
        json!({ "method": "GET", "headers": { "Proxy-Authorization": "x" } }),
        json!({ "method": "GET", "headers": { "Accept-Encoding": "zstd" } }),
        json!({ "method": "GET", "headers": { "a b": "x" } }),
        json!({ "method": "GET", "headers": { "X": "a\r\nY: b" } }),
        json!({ "method": "GET", "headers": { "X": "x".repeat(9_000) } }),
        json!({ "method": "GET", "text": "body" }),
        json!({ "method": "POST", "text": "a", "json": 1 }),
        json!({ "method": "POST", "query": { "q": "x".repeat(20_000) } }),
        json!({ "method": "POST", "headers": { "X": "${secret:API" } }),
    ] {
        let error = ask(&tool, address, "/", arguments.clone()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ValidationFailed, "{arguments}");
    }
    assert!(tool.input().validate(&json!({ "url": "ftp://x/", "method": "GET" })).is_err());
    assert!(tool.input().validate(&json!({ "url": "http://x/", "method": "TRACE" })).is_err());
    assert_eq!(seen.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn content_is_bounded_and_read_by_its_type() {
    let (address, _) = server(|seen| {
        let answer = |kind: &'static str, body: Vec<u8>| ([("content-type", kind)], body).into_response();
        match seen.uri.as_str() {
            "/long" => answer("text/plain", "é".repeat(5_000).into_bytes()),
            "/latin" => answer("text/html; charset=iso-8859-1", b"caf\xe9".to_vec()),
            "/png" => answer("image/png", vec![0x89, b'P', 0, 1]),
            "/broken" => answer("application/json", b"{\"a\":".to_vec()),
            "/twice" => answer("application/problem+json", b"{\"a\":1,\"a\":2}".to_vec()),
            "/json" => answer("application/json", format!("[{}1]", "1,".repeat(5_000)).into_bytes()),
            "/cookie" => ([("set-cookie", "session=1")], "x").into_response(),
            "/huge" => answer("text/plain", vec![b'x'; 11 << 20]),
            _ => answer("text/plain", Vec::new()),
        }
    })
    .await;
    let tool = get(address);
    let ask = |path: &'static str, more: Value| {
        let tool = tool.clone();
        async move { ask(&tool, address, path, more).await }
    };
    let long = ask("/long", json!({ "max_bytes": 101 })).await.unwrap();
    assert_eq!(
        (text(&long, "/text").len(), &long["truncated"], &long["bytes"]),
        (100, &json!(true), &json!(10_000))
    );
    assert_eq!(ask("/latin", json!({})).await.unwrap()["text"], "café");
    assert!(text(&ask("/png", json!({})).await.unwrap(), "/note").contains("save_as"));
    assert_eq!(ask("/broken", json!({})).await.unwrap()["text"], "{\"a\":");
    assert_eq!(
        ask("/broken", json!({ "response": "json" })).await.unwrap_err().code(),
        ErrorCode::OutputInvalid
    );
    assert_eq!(ask("/twice", json!({})).await.unwrap()["text"], "{\"a\":1,\"a\":2}");
    assert_eq!(ask("/json", json!({})).await.unwrap()["json"].as_array().unwrap().len(), 5_001);
    let large = ask("/json", json!({ "response": "json", "max_bytes": 100 })).await.unwrap_err();
    assert_eq!(large.code(), ErrorCode::OutputTooLarge);
    assert_eq!(ask("/cookie", json!({})).await.unwrap()["headers"].get("set-cookie"), None);
    assert_eq!(ask("/huge", json!({})).await.unwrap_err().code(), ErrorCode::OutputTooLarge);
    let empty = ask("/", json!({})).await.unwrap();
    assert_eq!((empty.get("text"), empty.get("json"), &empty["bytes"]), (None, None, &json!(0)));
}

#[tokio::test]
async fn an_answer_is_saved_below_the_folder_and_never_over_another() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new"), folder.path().join("dangling")).unwrap();
    let (address, seen) = server(|seen| match seen.uri.as_str() {
        "/secret" => {
            ([("content-type", "image/png")], format!("x{}", seen.header("x-key").unwrap())).into_response()
        }
        "/missing" => (StatusCode::NOT_FOUND, "gone").into_response(),
        "/big" => vec![0_u8; 2_000].into_response(),
        _ => vec![0_u8, 1, 2].into_response(),
    })
    .await;
    let config = format!("[http]\ndownload_bytes = 1000\n{SECRETS}");
    let saving = backend().saving_into(folder.path()).unwrap();
    let tool = named(tools(&config, address, &saving), "http-get");
    let saved = ask(&tool, address, "/", json!({ "save_as": "sub/a.bin" })).await.unwrap();
    assert_eq!((&saved["saved"]["path"], &saved["saved"]["bytes"]), (&json!("sub/a.bin"), &json!(3)));
    assert_eq!(std::fs::read(folder.path().join("sub/a.bin")).unwrap(), [0, 1, 2]);
    let asked = seen.lock().unwrap().len();
    for bad in ["sub/a.bin", "../x", "/tmp/x", "a/../../x", "link/x", "dangling", "sub", "sub/", ".", "a\nb"]
    {
        let error = ask(&tool, address, "/", json!({ "save_as": bad })).await.unwrap_err();
        assert!(
            matches!(error.code(), ErrorCode::ValidationFailed | ErrorCode::ExecutionFailed),
            "{bad}: {error}"
        );
    }
    assert_eq!(seen.lock().unwrap().len(), asked, "a name that cannot be used costs no request");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    for (path, more) in [
        ("/big", json!({ "save_as": "gone" })),
        ("/secret", json!({ "save_as": "gone", "headers": { "X-Key": "${secret:API}" } })),
    ] {
        ask(&tool, address, path, more).await.unwrap_err();
        assert!(!folder.path().join("gone").exists(), "{path}");
    }
    let missing = ask(&tool, address, "/missing", json!({ "save_as": "gone" })).await.unwrap();
    assert_eq!((&missing["text"], missing.get("saved")), (&json!("gone"), None));
    assert!(!folder.path().join("gone").exists());
    let error = ask(&get(address), address, "/", json!({ "save_as": "x" })).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::IntegrationMissing);
}

#[tokio::test]
async fn what_is_helves_own_is_asked_for_at_every_save() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["downloads/sub", "own/sub"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::os::unix::fs::symlink("own/sub", at("link")).unwrap();
    let (address, seen) = server(|_| "text".into_response()).await;
    let own: Unwritable = [at("own")].into_iter().collect();
    for near in ["own", "own/sub", "link", "downloads/../own/sub", "."] {
        let error = Downloads::open(&at(near), vec![own.clone()]).unwrap_err();
        assert!(error.to_string().contains("Helve's own"), "{near}: {error}");
    }
    let downloads = Downloads::open(&at("downloads"), vec![own.clone()]).unwrap();
    let backend = WebBackend { downloads: Some(Arc::new(downloads)), ..backend() };
    let tool = named(tools("", address, &backend), "http-get");
    let save = async |name: &str| ask(&tool, address, "/", json!({ "save_as": name })).await;
    save("one").await.unwrap();
    for name in ["helve.toml", "new/Helve.TOML"] {
        assert_eq!(save(name).await.unwrap_err().code(), ErrorCode::ValidationFailed, "{name}");
    }
    assert!(!at("downloads/new").exists());
    // Something else in its place, though the handle stays what it was.
    std::fs::rename(at("downloads"), at("moved")).unwrap();
    std::fs::create_dir(at("downloads")).unwrap();
    assert_eq!(save("two").await.unwrap_err().code(), ErrorCode::PermissionDenied);
    std::fs::remove_dir(at("downloads")).unwrap();
    std::fs::rename(at("moved"), at("downloads")).unwrap();
    save("two").await.unwrap();
    // What is added later counts at once, there or not.
    let asked = seen.lock().unwrap().len();
    own.add([at("downloads/sub/later.sh")]);
    for name in ["sub/later.sh", "sub/later.sh/x", "three"] {
        let error = save(name).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::PermissionDenied, "{name}: {error}");
    }
    assert_eq!(seen.lock().unwrap().len(), asked, "nothing was sent");
    assert_eq!(std::fs::read_dir(at("downloads/sub")).unwrap().count(), 0);
}
