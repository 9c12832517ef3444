//! The files of the page, which are part of the program.

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderValue, Response, StatusCode, header};

/// Name, sort and content. There is nothing secret in them: the sign-in needs them too.
const FILES: [(&str, &str, &str); 5] = [
    ("page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("theme.js", "text/javascript; charset=utf-8", include_str!("theme.js")),
    ("sign-in.js", "text/javascript; charset=utf-8", include_str!("sign-in.js")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
];

/// Whether there is such a file.
pub(crate) fn is_asset(path: &str) -> bool {
    path.strip_prefix("/assets/").is_some_and(|name| FILES.iter().any(|(own, ..)| *own == name))
}

pub(super) async fn show(Path(name): Path<String>) -> Response<Body> {
    let found = FILES.iter().find(|(own, ..)| *own == name);
    let (status, media, text) = match found {
        Some((_, media, text)) => (StatusCode::OK, *media, *text),
        None => (StatusCode::NOT_FOUND, "text/plain", "there is no such file"),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
