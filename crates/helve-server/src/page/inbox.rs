//! The inbox: what waits on the left, one question on the right.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use helve::{Approval, ApprovalId, ApprovalQuery, ApprovalState, Runtime};
use jiff::Timestamp;
use serde::Deserialize;

use super::Failed;
use super::detail::{self, Stage};
use super::form::{Reader, wants_part};
use super::html::Html;
use super::layout::{Room, page, respond};
use super::time;
use crate::api::{Id, Params};
use crate::place::Place;
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::Deciding;

/// Questions on a page of the list.
const PAGE: usize = 50;
/// Most questions that a filter looks through for one page.
const LOOK_MAX: usize = 2_000;
/// Beyond that, how many there are is not counted.
const COUNT_MAX: usize = 1_000;

/// Which part of the list.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ListParams {
    /// Words that must stand somewhere in it.
    q: String,
    /// Questions older than this one.
    before: Option<ApprovalId>,
}

/// Questions that wait.
struct List {
    found: Vec<Approval>,
    /// Whether there are older ones.
    more: bool,
    /// How many there are in all, up to what is counted.
    count: usize,
}

impl List {
    async fn load(runtime: &Runtime, params: &ListParams, deciding: &Deciding) -> Result<Self, Problem> {
        if let Some(only) = deciding.only {
            let found = runtime.approvals().get(only).await?;
            let found = Vec::from_iter(found.filter(|found| found.state == ApprovalState::Pending));
            return Ok(Self { count: found.len(), found, more: false });
        }
        let words: Vec<_> = params.q.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let mut query = ApprovalQuery::pending();
        query.before = params.before;
        query.limit = if words.is_empty() { PAGE + 1 } else { LOOK_MAX };
        let mut found = runtime.approvals().list(query).await?;
        found.retain(|approval| words.iter().all(|word| says(approval, word)));
        let more = found.len() > PAGE;
        found.truncate(PAGE);
        let count = match words.is_empty() && params.before.is_none() && !more {
            true => found.len(),
            false => {
                let mut all = ApprovalQuery::pending();
                all.limit = COUNT_MAX + 1;
                runtime.approvals().list(all).await?.len()
            }
        };
        Ok(Self { found, more, count })
    }
}

/// Whether a word stands in what a question is about.
fn says(approval: &Approval, word: &str) -> bool {
    let caller = &approval.caller;
    let named = [&caller.principal, &caller.agent, &caller.session];
    let named = named.into_iter().flatten().map(String::as_str);
    let said = [&*approval.tool, approval.arguments.get(), approval.risk.as_str()];
    named.chain(said).any(|text| text.to_lowercase().contains(word))
}

pub(super) async fn index(
    State(server): State<Arc<ServerState>>,
    Reader(deciding): Reader,
    Params(params): Params<ListParams>,
    headers: HeaderMap,
) -> Result<Response<Body>, Failed> {
    let runtime = &server.api()?.runtime;
    let list = List::load(runtime, &params, &deciding).await?;
    if wants_part(&headers) {
        return Ok(respond(StatusCode::OK, rows(&list, &params, None, &deciding.place)));
    }
    let first = list.found.first();
    let shown = match first {
        Some(approval) => detail::load(&server, approval.clone(), &deciding, Stage::Look).await?,
        None => nothing(!params.q.is_empty()),
    };
    Ok(whole(&list, &params, first.map(|first| first.id), View::List, &shown, &deciding))
}

pub(super) async fn show(
    State(server): State<Arc<ServerState>>,
    Reader(deciding): Reader,
    Id(id): Id<ApprovalId>,
    Params(params): Params<ListParams>,
    headers: HeaderMap,
) -> Result<Response<Body>, Failed> {
    let runtime = &server.api()?.runtime;
    let approval = runtime.approvals().get(id).await?.ok_or_else(Problem::not_found)?;
    let shown = detail::load(&server, approval, &deciding, Stage::Look).await?;
    if wants_part(&headers) {
        return Ok(respond(StatusCode::OK, shown));
    }
    around(&server, id, &params, &shown, &deciding).await
}

/// The inbox around one question, however it is shown.
pub(super) async fn around(
    server: &ServerState,
    id: ApprovalId,
    params: &ListParams,
    shown: &Html,
    deciding: &Deciding,
) -> Result<Response<Body>, Failed> {
    let list = List::load(&server.api()?.runtime, params, deciding).await?;
    Ok(whole(&list, params, Some(id), View::Detail, shown, deciding))
}

/// What a narrow screen shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    List,
    Detail,
}

fn whole(
    list: &List,
    params: &ListParams,
    current: Option<ApprovalId>,
    view: View,
    shown: &Html,
    deciding: &Deciding,
) -> Response<Body> {
    let mut html = Html::default();
    let name = if view == View::List { "list" } else { "detail" };
    html.put("<main id=\"main\" class=\"inbox\" data-view=\"{}\">", &[&name]);
    html.raw("<section class=\"list\" aria-label=\"Waiting\"><div class=\"listhead\"><h1>Inbox</h1>");
    html.put("<form method=\"get\" action=\"{}/\" role=\"search\">", &[&deciding.place]);
    html.raw("<input type=\"search\" name=\"q\" id=\"filter\" ");
    html.put(
        "aria-label=\"Filter\" placeholder=\"Filter\" value=\"{}\" maxlength=\"200\"></form></div>",
        &[&params.q],
    );
    let rows = rows(list, params, current, &deciding.place);
    html.raw("<div id=\"rows\">").add(&rows).raw("</div></section>");
    html.raw("<section class=\"detail\" id=\"detail\" aria-label=\"Question\" tabindex=\"-1\">");
    html.add(shown).raw("</section></main>");
    let title = match list.count {
        0 => "Inbox".to_owned(),
        count => format!("({}) Inbox", counted(count)),
    };
    page(Room::Inbox, &title, deciding, &html)
}

fn counted(count: usize) -> String {
    if count > COUNT_MAX { format!("{COUNT_MAX}+") } else { count.to_string() }
}

fn rows(list: &List, params: &ListParams, current: Option<ApprovalId>, place: &Place) -> Html {
    let now = Timestamp::now();
    let mut html = Html::default();
    html.put("<p class=\"tally\" data-count=\"{}\"><b>{}</b> waiting", &[&list.count, &counted(list.count)]);
    if !params.q.is_empty() {
        let some = if list.more { "+" } else { "" };
        html.put(" · {}{} with “{}”", &[&list.found.len(), &some, &params.q]);
        html.put(" · <a href=\"{}/\">all</a>", &[place]);
    }
    html.raw("</p><ol class=\"rows\">");
    for approval in &list.found {
        let is_current = if current == Some(approval.id) { "true" } else { "false" };
        html.put("<li><a class=\"row\" href=\"{}/approvals/{}\" ", &[place, &approval.id]);
        html.put("data-id=\"{}\" aria-current=\"{}\">", &[&approval.id, &is_current]);
        row(&mut html, approval, now);
    }
    html.raw("</ol>");
    if list.found.is_empty() {
        html.raw("<p class=\"none\">Nothing waits here.</p>");
    }
    html.raw("<nav class=\"pager\" aria-label=\"Pages\">");
    if params.before.is_some() {
        html.put("<a href=\"{}/?q={}\">Newest</a>", &[place, &encoded(&params.q)]);
    }
    if let Some(last) = list.found.last().filter(|_| list.more) {
        let q = encoded(&params.q);
        html.put("<a href=\"{}/?before={}&amp;q={}\" rel=\"next\">Older</a>", &[place, &last.id, &q]);
    }
    html.raw("</nav>");
    html
}

/// What a row says, up to its end.
fn row(html: &mut Html, approval: &Approval, now: Timestamp) {
    html.put("<span class=\"tool\">{}</span>", &[&approval.tool]);
    risk(html, approval);
    html.put("<span class=\"from\">{}", &[&who(approval)]);
    if let Some(session) = &approval.caller.session {
        html.put(" <span class=\"muted\">· {}</span>", &[session]);
    }
    html.raw("</span><span class=\"when\">");
    time::age(html, approval.created_at, now);
    html.raw("</span><span class=\"gist\">");
    let gist: String = approval.arguments.get().chars().take(120).collect();
    html.put("{}</span><span class=\"due\">", &[&gist]);
    time::countdown(html, approval.expires_at, now);
    html.raw("</span></a></li>");
}

/// How risky the tool is, in a word and a colour.
pub(super) fn risk(html: &mut Html, approval: &Approval) {
    let risk = approval.risk.as_str();
    html.put("<span class=\"pill {}\"><span class=\"vh\">risk </span>{}</span>", &[&risk, &risk]);
}

/// Who asks, in a word.
pub(super) fn who(approval: &Approval) -> &str {
    let caller = &approval.caller;
    caller.agent.as_deref().or(caller.principal.as_deref()).unwrap_or("an unnamed caller")
}

fn nothing(is_filtered: bool) -> Html {
    let mut html = Html::default();
    html.raw(
        "<div class=\"empty\"><svg viewBox=\"0 0 48 48\" width=\"64\" height=\"64\" aria-hidden=\"true\">",
    );
    html.raw(
        "<circle cx=\"24\" cy=\"24\" r=\"19\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/>",
    );
    html.raw("<path d=\"M15 25l6 6 12-13\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2.5\" ");
    html.raw("stroke-linecap=\"round\" stroke-linejoin=\"round\"/></svg><h2>");
    html.raw(if is_filtered { "Nothing fits the filter" } else { "No question waits for you" });
    html.raw("</h2><p class=\"muted\">New questions appear here by themselves.</p></div>");
    html
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
