//! What was decided, by whom.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use helve::{Approval, ApprovalId, ApprovalQuery, ApprovalState};
use jiff::Timestamp;
use serde::Deserialize;

use super::Failed;
use super::form::Reader;
use super::html::Html;
use super::inbox::{risk, who};
use super::layout::{Room, page};
use super::time;
use crate::api::Params;
use crate::place::Place;
use crate::problem::Problem;
use crate::state::ServerState;

const PAGE: usize = 50;
/// Most questions that are looked through for one page: those that wait are left out.
const LOOK_MAX: usize = 2_000;

/// Which questions. A field that is empty lets every question through.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Wanted {
    state: String,
    tool: String,
    principal: String,
    session: String,
    before: Option<ApprovalId>,
}

pub(super) async fn show(
    State(server): State<Arc<ServerState>>,
    Reader(deciding): Reader,
    Params(wanted): Params<Wanted>,
) -> Result<Response<Body>, Failed> {
    let given = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    let state = match given(&wanted.state) {
        None => None,
        Some(word) => {
            let found = ApprovalState::ALL.into_iter().find(|state| state.as_str() == word);
            Some(found.ok_or_else(|| Problem::bad("there is no such state"))?)
        }
    };
    let mut query = ApprovalQuery::default();
    query.state = state;
    query.tool = given(&wanted.tool);
    query.principal = given(&wanted.principal);
    query.session = given(&wanted.session);
    query.before = wanted.before;
    query.limit = if state.is_some() { PAGE + 1 } else { LOOK_MAX };
    let mut found = server.api()?.runtime.approvals().list(query).await?;
    if state.is_none() {
        found.retain(|approval| approval.state != ApprovalState::Pending);
    }
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let mut html = Html::default();
    html.raw("<main id=\"main\" class=\"wide\"><h1>History</h1>");
    let place = &deciding.place;
    filters(&mut html, &wanted, place);
    table(&mut html, &found, place);
    html.raw("<nav class=\"pager\" aria-label=\"Pages\">");
    if wanted.before.is_some() {
        html.put("<a href=\"{}/history?{}\">Newest</a>", &[place, &wanted.query(None)]);
    }
    if let Some(last) = found.last().filter(|_| more) {
        html.put("<a href=\"{}/history?{}\">Older</a>", &[place, &wanted.query(Some(last.id))]);
    }
    html.raw("</nav></main>");
    Ok(page(Room::History, "History", &deciding, &html))
}

impl Wanted {
    fn query(&self, before: Option<ApprovalId>) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in [
            ("state", &self.state),
            ("tool", &self.tool),
            ("principal", &self.principal),
            ("session", &self.session),
        ] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        if let Some(before) = before {
            query.append_pair("before", &before.to_string());
        }
        query.finish()
    }
}

fn filters(html: &mut Html, wanted: &Wanted, place: &Place) {
    html.put("<form class=\"filters\" method=\"get\" action=\"{}/history\">", &[place]);
    html.raw("<label>State<select name=\"state\"><option value=\"\">any</option>");
    for state in ApprovalState::ALL.into_iter().filter(|state| *state != ApprovalState::Pending) {
        html.put("<option value=\"{}\"", &[&state]);
        html.raw(if wanted.state == state.as_str() { " selected>" } else { ">" });
        html.put("{}</option>", &[&state]);
    }
    html.raw("</select></label>");
    for (name, label, value) in [
        ("tool", "Tool", &wanted.tool),
        ("principal", "Principal", &wanted.principal),
        ("session", "Session", &wanted.session),
    ] {
        html.put(
            "<label>{}<input name=\"{}\" value=\"{}\" maxlength=\"200\"></label>",
            &[&label, &name, value],
        );
    }
    html.raw("<button>Filter</button></form>");
}

fn table(html: &mut Html, found: &[Approval], place: &Place) {
    if found.is_empty() {
        html.raw("<p class=\"none\">Nothing was decided that fits.</p>");
        return;
    }
    let now = Timestamp::now();
    html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Decided\"><table><thead><tr><th>State</th><th>Tool</th><th>Risk</th>");
    html.raw("<th>Who asked</th><th>Decided by</th><th>When</th><th>Reason</th></tr></thead><tbody>");
    for approval in found {
        let ruling = approval.ruling.as_ref();
        html.put("<tr><td><span class=\"st {}\">{}</span></td>", &[&approval.state, &approval.state]);
        html.put("<td class=\"tool\"><a href=\"{}/approvals/{}\">", &[place, &approval.id])
            .shown(&approval.tool)
            .raw("</a></td><td>");
        risk(html, approval);
        html.raw("</td><td data-of=\"Asked by\"><span>").shown(who(approval));
        html.raw("</span></td><td data-of=\"Decided by\"><span>");
        html.shown(ruling.map_or("–", |ruling| ruling.by.as_str()));
        html.raw("</span></td><td data-of=\"When\">");
        time::age(html, ruling.map_or(approval.created_at, |ruling| ruling.at), now);
        html.raw("</td><td class=\"reason\" data-of=\"Reason\"><span>");
        if let Some(ruling) = ruling {
            html.shown(ruling.reason.as_deref().unwrap_or_default());
            html.raw(if ruling.edited.is_some() { " <span class=\"tag\">edited</span>" } else { "" });
            html.raw(if ruling.rule.is_some() { " <span class=\"tag\">always</span>" } else { "" });
        }
        html.raw("</span></td></tr>");
    }
    html.raw("</tbody></table></div>");
}
