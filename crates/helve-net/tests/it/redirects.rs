use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, Method as AxumMethod, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use helve_net::{HeaderValue, Method, NetError, Redirects, Request, StatusCode as NetStatus};

use crate::server::{client, get, serve};

fn to(status: u16, location: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::LOCATION, location.to_owned())]).into_response()
}

/// Says what arrived: the method, and the headers and body that a redirect could leak.
async fn report(method: AxumMethod, headers: HeaderMap, body: String) -> String {
    let seen = |name: &str| headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
    let [authorization, cookie, key, accept] = ["authorization", "cookie", "x-key", "accept"].map(seen);
    format!("{method} {authorization} {cookie} {key} {accept} {body}")
}

fn with_secrets(mut request: Request) -> Request {
    let mut secret = HeaderValue::from_static("secret");
    secret.set_sensitive(true);
    request.headers.insert("authorization", secret.clone());
    request.headers.insert("cookie", secret);
    request.headers.insert("x-key", HeaderValue::from_static("plain"));
    request.headers.insert("accept", HeaderValue::from_static("text/x"));
    request
}

#[tokio::test]
async fn secrets_stay_within_their_origin() {
    let other = serve(Router::new().route("/report", any(report))).await;
    let away = format!("http://{other}/report");
    let router = Router::new()
        .route("/report", any(report))
        .route("/home", any(|| async { to(302, "/report") }))
        .route("/away", any(move || async move { to(302, &away) }));
    let address = serve(router).await;
    let client = client(["127.0.0.1"]);
    let home = client.fetch(with_secrets(get(address, "/home"))).await.unwrap();
    assert_eq!(home.text(), "GET secret secret plain text/x ");
    assert_eq!(home.url.path(), "/report");
    let away = client.fetch(with_secrets(get(address, "/away"))).await.unwrap();
    assert_eq!(away.text(), "GET - - - text/x ");
}

#[tokio::test]
async fn methods_change_as_browsers_change_them() {
    let redirect = |Path(status): Path<u16>| async move { to(status, "/report") };
    let address = serve(Router::new().route("/report", any(report)).route("/{status}", any(redirect))).await;
    let client = client(["127.0.0.1"]);
    let cases = [
        (Method::POST, 301, "GET - - - */* "),
        (Method::POST, 302, "GET - - - */* "),
        (Method::POST, 303, "GET - - - */* "),
        (Method::POST, 307, "POST - - - */* body"),
        (Method::POST, 308, "POST - - - */* body"),
        (Method::PUT, 302, "PUT - - - */* body"),
        (Method::PUT, 303, "GET - - - */* "),
    ];
    for (method, status, expected) in cases {
        let mut request = get(address, &format!("/{status}")).body("body");
        request.method = method.clone();
        assert_eq!(client.fetch(request).await.unwrap().text(), expected, "{method} {status}");
    }
}

#[tokio::test]
async fn what_is_to_stay_as_it_is_follows_only_where_it_does() {
    let redirect = |Path(status): Path<u16>| async move { to(status, "/report") };
    let address = serve(Router::new().route("/report", any(report)).route("/{status}", any(redirect))).await;
    let client = client(["127.0.0.1"]);
    for (method, status, is_followed) in [
        (Method::POST, 301, false),
        (Method::POST, 302, false),
        (Method::POST, 303, false),
        (Method::POST, 307, true),
        (Method::POST, 308, true),
        (Method::GET, 302, true),
    ] {
        let mut request = get(address, &format!("/{status}")).redirects(Redirects::Unchanged);
        request.method = method.clone();
        let answered = client.fetch(request).await.unwrap();
        let wanted = if is_followed { 200 } else { status };
        assert_eq!(answered.status.as_u16(), wanted, "{method} {status}");
    }
}

#[tokio::test]
async fn every_hop_is_checked() {
    let redirect = |Path(target): Path<String>| async move {
        to(
            302,
            match target.as_str() {
                "metadata" => "http://169.254.169.254/latest/meta-data/",
                "mapped" => "http://[::ffff:10.0.0.1]/",
                "name" => "http://localhost:1/",
                "file" => "file:///etc/passwd",
                "user" => "http://a:b@127.0.0.1/",
                "junk" => "http://[",
                other => panic!("{other}"),
            },
        )
    };
    let address = serve(Router::new().route("/{target}", any(redirect))).await;
    let client = client([address.to_string().as_str()]);
    for target in ["metadata", "mapped", "name", "file", "user", "junk"] {
        let error = client.fetch(get(address, &format!("/{target}"))).await.unwrap_err();
        let refused =
            matches!(error, NetError::Forbidden { .. } | NetError::BadUrl { .. } | NetError::Redirect { .. });
        assert!(refused, "{target}: {error:?}");
        // Who gives out credentials is reached by nobody who only follows advice.
        assert!(target != "metadata" || !error.to_string().contains("allow"), "{error}");
    }
}

#[tokio::test]
async fn a_change_is_not_sent_to_another_origin() {
    let other = serve(Router::new().route("/report", any(report))).await;
    let away = format!("http://{other}/report");
    let address = serve(Router::new().route("/", any(move || async move { to(307, &away) }))).await;
    let client = client(["127.0.0.1"]);
    for (method, body) in [(Method::POST, Some("card")), (Method::DELETE, None), (Method::GET, Some("card"))]
    {
        let mut request = get(address, "/");
        request.method = method;
        request.body = body.map(Into::into);
        let error = client.fetch(request).await.unwrap_err();
        assert!(error.to_string().contains("a change to another origin"), "{error}");
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_six_are_not() {
    let count = |Path(left): Path<u32>| async move {
        if left == 0 { "done".into_response() } else { to(302, &format!("/{}", left - 1)) }
    };
    let address = serve(Router::new().route("/{left}", any(count))).await;
    let client = client(["127.0.0.1"]);
    assert_eq!(client.fetch(get(address, "/5")).await.unwrap().text(), "done");
    let error = client.fetch(get(address, "/6")).await.unwrap_err();
    assert!(matches!(error, NetError::Redirect { .. }), "{error:?}");
    let stopped = client.fetch(get(address, "/6").redirects(Redirects::Stop)).await.unwrap();
    assert_eq!(stopped.status, NetStatus::FOUND);
}
