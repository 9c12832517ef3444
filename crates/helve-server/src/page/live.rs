//! Calls as they happen. The script fills the table from `/v1/events`.

use axum::body::Body;
use axum::http::Response;

use super::form::Reader;
use super::html::Html;
use super::layout::{Room, page};

pub(super) async fn show(Reader(deciding): Reader) -> Response<Body> {
    let mut html = Html::default();
    html.raw("<main id=\"main\" class=\"wide\"><div class=\"cap\"><h1>Live</h1><span id=\"live-state\" class=\"muted\">not connected</span>");
    html.raw("<span class=\"grow\"></span><button type=\"button\" id=\"live-pause\" aria-pressed=\"false\">Pause</button>");
    html.raw("<button type=\"button\" id=\"live-clear\" class=\"quiet\">Clear</button></div>");
    html.raw("<noscript><p class=\"notice\">This room needs its script. ");
    html.put("<a href=\"{}/history\">History</a> does not.</p></noscript>", &[&deciding.place]);
    html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Calls\"><table><thead><tr><th>Time</th><th>What</th><th>Tool</th><th>Took</th><th>Call</th></tr></thead>");
    html.raw("<tbody id=\"live\"></tbody></table></div><p class=\"none\" id=\"live-none\">Calls appear here as they happen.</p></main>");
    page(Room::Live, "Live", &deciding, &html)
}
