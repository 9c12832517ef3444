//! What was allowed for a session, and taking it back.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use helve::RuleId;
use helve::approval::{Rule, Same};
use jiff::Timestamp;

use super::Failed;
use super::form::{Form, Reader};
use super::html::Html;
use super::layout::{Room, page, see, token};
use super::time;
use crate::api::{Id, may_approve};
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::Deciding;

const RULES_MAX: usize = 500;

pub(super) async fn show(
    State(server): State<Arc<ServerState>>,
    Reader(deciding): Reader,
) -> Result<Response<Body>, Failed> {
    let now = Timestamp::now();
    let rules = server.api()?.runtime.approvals().rules(RULES_MAX).await?;
    let (hold, ended): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| rule.holds(now));
    let mut html = Html::default();
    html.raw("<main id=\"main\" class=\"wide\"><h1>Rules</h1><p class=\"muted\">What was allowed “always for this session”.</p>");
    match hold.is_empty() {
        true => html.raw("<p class=\"none\">No rule holds.</p>"),
        false => html.add(&cards(&hold, &deciding, now)),
    };
    if !ended.is_empty() {
        html.put("<details class=\"exact\"><summary>{} no longer hold</summary>", &[&ended.len()]);
        html.add(&cards(&ended, &deciding, now)).raw("</details>");
    }
    html.raw("</main>");
    Ok(page(Room::Rules, "Rules", &deciding, &html))
}

fn cards(rules: &[&Rule], deciding: &Deciding, now: Timestamp) -> Html {
    let mut html = Html::default();
    html.raw("<ul class=\"cards\">");
    for rule in rules {
        html.raw("<li><div><b>").shown(&rule.tool).raw("</b> for ");
        html.shown(rule.agent.as_deref().or(rule.principal.as_deref()).unwrap_or("an unnamed caller"));
        if let Some(session) = &rule.session {
            html.raw(" in <code>").shown(session).raw("</code>");
        }
        html.raw("<p class=\"muted\">");
        match &rule.same {
            Same::Everything => html.raw("exactly the same arguments"),
            Same::Fields(fields) if fields.is_empty() => html.raw("<b>any arguments</b>"),
            Same::Fields(fields) => html.raw("with the same <code>").shown(&fields.join(" ")).raw("</code>"),
        };
        html.raw(" · by ").shown(&rule.by).raw(" ");
        time::age(&mut html, rule.made_at, now);
        let place = &deciding.place;
        html.put(" · <a href=\"{}/approvals/{}\">question</a> · ", &[place, &rule.approval_id]);
        match &rule.revoked_by {
            Some(by) => html.raw("taken back by ").shown(by),
            None => {
                time::countdown(&mut html, rule.expires_at, now);
                &mut html
            }
        };
        html.raw("</p></div>");
        if rule.holds(now) {
            html.put("<form method=\"post\" action=\"{}/rules/{}/revoke\">", &[place, &rule.id]);
            token(&mut html, deciding);
            html.raw("<button class=\"no\">Revoke</button></form>");
        }
        html.raw("</li>");
    }
    html.raw("</ul>");
    html
}

pub(super) async fn revoke(
    State(server): State<Arc<ServerState>>,
    Reader(deciding): Reader,
    Id(id): Id<RuleId>,
    _: Form,
) -> Result<Response<Body>, Failed> {
    let runtime = &server.api()?.runtime;
    may_approve(&deciding, runtime)?;
    runtime.approvals().revoke(id, &deciding.decider).await?.ok_or_else(Problem::not_found)?;
    Ok(see(&format!("{}/rules", deciding.place)))
}
