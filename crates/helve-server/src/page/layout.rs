//! What every page has around it.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

use super::html::Html;
use crate::visitor::Deciding;

/// The rooms, as the head of each page leads to them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Inbox,
    History,
    Live,
    Rules,
}

const ROOMS: [(Room, &str, &str); 4] = [
    (Room::Inbox, "/", "Inbox"),
    (Room::History, "/history", "History"),
    (Room::Live, "/live", "Live"),
    (Room::Rules, "/rules", "Rules"),
];

const HEAD: &str = concat!(
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<meta name=\"color-scheme\" content=\"light dark\">",
    "<link rel=\"icon\" type=\"image/svg+xml\" href=\"/assets/icon.svg\">",
    "<link rel=\"stylesheet\" href=\"/assets/page.css\">",
    // Not deferred, so that a dark page does not flash white.
    "<script src=\"/assets/theme.js\"></script>",
);

/// The keys, as `?` shows them and the documentation lists them.
const KEYS: [(&str, &str); 9] = [
    ("j  ↓", "next"),
    ("k  ↑", "previous"),
    ("a", "approve"),
    ("e", "edit, then approve"),
    ("d", "deny, with a reason"),
    ("s", "always for this session"),
    ("/", "filter"),
    ("Esc", "close, or leave a field"),
    ("?", "these keys"),
];

/// A page for a person who is signed in.
pub(super) fn page(room: Room, title: &str, deciding: &Deciding, main: &Html) -> Response<Body> {
    let mut html = Html::default();
    html.raw(HEAD).put("<title>{} · Helve</title>", &[&title]);
    html.raw("<script src=\"/assets/page.js\" defer></script></head>");
    match deciding.only {
        Some(only) => html.put("<body data-only=\"{}\">", &[&only]),
        None => html.raw("<body>"),
    };
    html.raw("<a class=\"skip\" href=\"#main\">Skip to content</a>");
    let place = &deciding.place;
    html.put("<header class=\"bar\"><a class=\"brand\" href=\"{}/\">", &[place]);
    html.raw(MARK).raw("<span>Helve</span></a>");
    html.raw("<nav aria-label=\"Rooms\">");
    let rooms = if deciding.only.is_some() { &ROOMS[..1] } else { &ROOMS[..] };
    for (own, path, name) in rooms {
        let current: &dyn std::fmt::Display = if *own == room { &"page" } else { &"false" };
        html.put("<a href=\"{}{}\" aria-current=\"{}\">{}</a>", &[place, path, current, name]);
    }
    html.raw("</nav><div class=\"me\">");
    let name = deciding.person.principal.as_deref().unwrap_or("somebody");
    html.put("<span class=\"name\" title=\"Signed in as {}\">{}</span>", &[&name, &name]);
    html.raw("<button type=\"button\" class=\"icon\" id=\"keys-open\" aria-label=\"Keys\" hidden>?</button>");
    html.raw(
        "<button type=\"button\" class=\"icon\" id=\"theme\" aria-label=\"Light or dark\" hidden>◐</button>",
    );
    html.put("<form id=\"sign-out\" method=\"post\" action=\"{}/sign-out/form\">", &[place]);
    token(&mut html, deciding);
    html.raw("<button class=\"quiet\">Sign out</button></form></div></header>");
    html.add(main);
    html.raw("<div id=\"toasts\" role=\"status\" aria-live=\"polite\"></div>");
    html.raw("<dialog id=\"keys\" aria-label=\"Keys\"><h2>Keys</h2><dl>");
    for (key, what) in KEYS {
        html.put("<div><dt><kbd>{}</kbd></dt><dd>{}</dd></div>", &[&key, &what]);
    }
    html.raw(
        "</dl><form method=\"dialog\"><button class=\"quiet\">Close</button></form></dialog></body></html>",
    );
    respond(StatusCode::OK, html)
}

/// A page by itself, for who is not signed in.
pub(super) fn bare(
    status: StatusCode,
    title: &str,
    script: Option<&'static str>,
    main: &Html,
) -> Response<Body> {
    let mut html = Html::default();
    html.raw(HEAD).put("<title>{} · Helve</title>", &[&title]);
    if let Some(script) = script {
        html.put("<script src=\"/assets/{}\" defer></script>", &[&script]);
    }
    html.raw("</head><body class=\"bare\">").add(main).raw("</body></html>");
    respond(status, html)
}

/// Says what went wrong.
pub(super) fn failure(status: StatusCode, message: &str) -> Response<Body> {
    let mut html = Html::default();
    html.raw("<main id=\"main\" class=\"card\"><p class=\"brand\">").raw(MARK).raw("<span>Helve</span></p>");
    html.put("<h1>{}</h1>", &[&status.canonical_reason().unwrap_or("Error")]);
    html.put("<p class=\"notice bad\" role=\"alert\">{}</p>", &[&message]);
    html.raw("<p><a href=\"/\">Back to the inbox</a></p></main>");
    bare(status, "Error", None, &html)
}

/// The field that says that a form is ours.
pub(super) fn token(html: &mut Html, deciding: &Deciding) {
    let token = deciding.csrf.as_deref().unwrap_or_default();
    html.put("<input type=\"hidden\" name=\"csrf\" value=\"{}\">", &[&token]);
}

pub(super) fn respond(status: StatusCode, html: Html) -> Response<Body> {
    let mut response = Response::new(Body::from(html.into_string()));
    *response.status_mut() = status;
    let media = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

/// Leads elsewhere, to be looked at there.
pub(super) fn see(place: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let place = HeaderValue::try_from(place).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, place);
    response
}

/// Helve's mark, as SVG.
pub(super) const MARK: &str = concat!(
    "<svg viewBox=\"0 0 24 24\" width=\"20\" height=\"20\" aria-hidden=\"true\">",
    "<path d=\"M6 3v18M18 3v18M6 12h12\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"3\" ",
    "stroke-linecap=\"round\"/></svg>",
);
