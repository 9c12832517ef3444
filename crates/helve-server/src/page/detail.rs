//! One question: all that a person needs to decide it, and the forms to do so.

use std::sync::Arc;

use helve::approval::Mark;
use helve::json::canonical;
use helve::json::sha256_hex;
use helve::session::SessionState;
use helve::{AdvisedAction, Approval, ApprovalState, CallId};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::diff::diff;
use super::html::Html;
use super::inbox::{risk, who};
use super::layout::token;
use super::preview::preview;
use super::visible::{hidden_in, json_escaped};
use super::{Failed, time};
use crate::api::Api;
use crate::records::RecordQuery;
use crate::state::ServerState;
use crate::visitor::Deciding;

/// Most calls before this one that are shown.
const EARLIER_MAX: usize = 10;
/// Most arguments that can be held fast one by one.
const FIELDS_MAX: usize = 32;

/// How far a person is with deciding.
pub(super) enum Stage {
    /// They read the question.
    Look,
    /// Something did not work, which they are told.
    Told(String),
    /// They edit, and what they wrote does not fit.
    Edits { text: String, problem: String },
    /// They have edited, and look at what would change.
    Reviews { edited: Value },
}

/// All that is shown with a question.
struct Shown<'a> {
    approval: Approval,
    arguments: Value,
    earlier: Option<Vec<Earlier>>,
    session: Option<Arc<SessionState>>,
    deciding: &'a Deciding,
    stage: Stage,
    now: Timestamp,
}

/// A call that was made before.
#[derive(Deserialize)]
struct Earlier {
    call_id: CallId,
    received_at: Timestamp,
    tool: String,
    status: String,
    #[serde(default)]
    payload: Payload,
}

#[derive(Default, Deserialize)]
struct Payload {
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

/// One question as HTML.
pub(super) async fn load(
    server: &ServerState,
    approval: Approval,
    deciding: &Deciding,
    stage: Stage,
) -> Result<Html, Failed> {
    let api = server.api()?;
    let earlier = earlier(api, &approval).await;
    let session = api.runtime.session(&approval.caller).await?;
    let arguments = serde_json::from_str(approval.arguments.get()).unwrap_or_default();
    let shown = Shown { approval, arguments, earlier, session, deciding, stage, now: Timestamp::now() };
    Ok(shown.html())
}

/// What the same caller did before, in the same session. None: that is not known here. Deciding must
/// not depend on it, so that a broken record only leaves it out.
async fn earlier(api: &Api, approval: &Approval) -> Option<Vec<Earlier>> {
    let records = api.records.as_deref()?;
    let query = RecordQuery {
        // Of those who do not say who they are nothing can be told apart.
        principal: Some(approval.caller.principal.clone()?),
        session: approval.caller.session.clone(),
        agent: approval.caller.agent.clone(),
        before: Some(approval.call_id),
        limit: Some(EARLIER_MAX),
        ..RecordQuery::default()
    };
    match records.list(query).await {
        Ok(found) => Some(found.iter().filter_map(|one| serde_json::from_str(one.body.get()).ok()).collect()),
        Err(error) => {
            tracing::warn!(%error, "what was done before cannot be shown");
            None
        }
    }
}

impl Shown<'_> {
    fn html(&self) -> Html {
        let mut html = Html::default();
        let state = self.approval.state;
        html.put("<article data-id=\"{}\" data-state=\"{}\">", &[&self.approval.id, &state]);
        self.head(&mut html);
        let told = match &self.stage {
            Stage::Told(problem) => Some(problem),
            // There is no form to say it in.
            Stage::Edits { problem, .. } if !self.approval.can_be_edited() => Some(problem),
            Stage::Look | Stage::Edits { .. } | Stage::Reviews { .. } => None,
        };
        if let Some(problem) = told {
            html.put("<p class=\"notice bad\" role=\"alert\">{}</p>", &[problem]);
        }
        if state != ApprovalState::Pending {
            self.decided(&mut html);
        }
        let reviews = matches!(self.stage, Stage::Reviews { .. }) && state == ApprovalState::Pending;
        if reviews {
            self.review(&mut html);
        } else {
            self.marks(&mut html);
        }
        // First what would happen, then what the caller wrote.
        self.preview(&mut html);
        if !reviews {
            self.arguments(&mut html);
        }
        self.asker(&mut html);
        self.history(&mut html);
        if state == ApprovalState::Pending && !reviews {
            self.actions(&mut html);
        }
        html.raw("</article>");
        html
    }

    fn head(&self, html: &mut Html) {
        let Self { approval, now, .. } = self;
        html.put(
            "<header class=\"head\"><a class=\"back\" href=\"{}/\">← Inbox</a>",
            &[&self.deciding.place],
        );
        html.raw("<div class=\"what\"><h2 tabindex=\"-1\">");
        html.shown(&approval.tool).raw("</h2>");
        risk(html, approval);
        html.raw("</div><p class=\"sub\">asked by <b>").shown(who(approval)).raw("</b> ");
        time::age(html, approval.created_at, *now);
        if approval.state == ApprovalState::Pending {
            html.raw(" · <span class=\"due\">");
            time::countdown(html, approval.expires_at, *now);
            html.raw("</span>");
        }
        html.raw("</p></header>");
    }

    /// Why it is asked, and what to look out for.
    fn marks(&self, html: &mut Html) {
        let approval = &self.approval;
        html.raw("<section class=\"why\"><h3>Why you are asked</h3><ul>");
        for reason in &approval.reasons {
            html.raw("<li>").sentence(reason).raw("</li>");
        }
        // That it asks for a person is among the reasons.
        if let Some(advice) =
            approval.advice.as_ref().filter(|one| one.action != AdvisedAction::RequestApproval)
        {
            html.raw("<li class=\"note\">the calling agent said: ").shown(&advice.words()).raw("</li>");
        }
        for mark in &approval.marks {
            let class = if is_grave(*mark) { "grave" } else { "note" };
            html.put("<li class=\"{}\">{}</li>", &[&class, &mark.words()]);
        }
        let taints = self.session.iter().flat_map(|session| &session.taints);
        for taint in taints {
            html.raw("<li class=\"note\">the session is ");
            let labels: Vec<_> = taint.labels.iter().map(|label| label.as_str()).collect();
            html.put("<b>{}</b> since <code>", &[&labels.join(", ")]).shown(&taint.tool).raw("</code> ran ");
            time::age(html, taint.at, self.now);
            html.put(" <span class=\"muted\">({})</span></li>", &[&taint.call_id]);
        }
        html.raw("</ul></section>");
    }

    /// The exact bytes that would run.
    fn arguments(&self, html: &mut Html) {
        let approval = &self.approval;
        let bytes = approval.arguments.get();
        html.raw("<section><div class=\"cap\"><h3>Arguments</h3>");
        html.put("<span class=\"muted\">{} bytes</span></div>", &[&bytes.len()]);
        tell_hidden(html, bytes);
        if approval.withheld {
            html.raw(
                "<p class=\"notice\">Secrets are not shown. The approval is bound to them all the same.</p>",
            );
        }
        html.raw("<pre class=\"args\" tabindex=\"0\" aria-label=\"Arguments\">");
        html.shown(&pretty(&self.arguments)).raw("</pre>");
        html.raw(
            "<details class=\"exact\"><summary>Exact bytes</summary><pre class=\"wrap\" tabindex=\"0\">",
        );
        html.shown(bytes).raw("</pre>");
        html.put(
            "<p class=\"muted\">SHA-256 <code class=\"long\">{}</code></p></details>",
            &[&sha256_hex(bytes.as_bytes())],
        );
        html.raw("</section>");
    }

    fn preview(&self, html: &mut Html) {
        if let Some(text) = &self.approval.preview {
            html.raw("<section><h3>What the tool says it would do");
            // It was made once, for the arguments that were asked about.
            let is_edited = self.approval.ruling.as_ref().is_some_and(|ruling| ruling.edited.is_some());
            if is_edited || matches!(self.stage, Stage::Reviews { .. }) {
                html.raw(", with the arguments as they were asked for");
            }
            html.raw("</h3>");
            tell_hidden(html, text);
            html.add(&preview(text));
            if self.approval.fingerprint.is_some() {
                html.raw("<p class=\"muted\">If this changes before the call runs, the call is refused and has to be asked about again.</p>");
            }
            html.raw("</section>");
        }
    }

    fn asker(&self, html: &mut Html) {
        let Approval { caller, id, digest, call_id, part, idempotency_key, .. } = &self.approval;
        html.raw("<section><h3>Who asks</h3><dl class=\"facts\">");
        let kind = caller.kind.as_str();
        let rows = [
            ("Principal", caller.principal.as_deref().unwrap_or("an unnamed caller")),
            ("Kind", kind),
            ("Agent", caller.agent.as_deref().unwrap_or("–")),
            ("Session", caller.session.as_deref().unwrap_or("–")),
            ("Channel", caller.channel.as_str()),
        ];
        for (name, value) in rows {
            html.put("<div><dt>{}</dt><dd>", &[&name]).shown(value).raw("</dd></div>");
        }
        let short: String = digest.chars().take(12).collect();
        html.put("<div><dt>Tool version</dt><dd><code title=\"{}\">{}</code></dd></div>", &[digest, &short]);
        html.put("<div><dt>Call</dt><dd><code>{}</code></dd></div>", &[call_id]);
        html.put("<div><dt>Approval</dt><dd><code>{}</code></dd></div>", &[id]);
        if let Some(part) = part {
            html.put("<div><dt>Part of run</dt><dd><code>{}</code></dd></div>", &[&part.run]);
        }
        if let Some(key) = idempotency_key {
            html.raw("<div><dt>Key</dt><dd><code>").shown(key).raw("</code></dd></div>");
        }
        html.raw("</dl></section>");
    }

    fn history(&self, html: &mut Html) {
        let Some(earlier) = &self.earlier else { return };
        html.raw("<section><h3>Before this, in the same ");
        html.raw(if self.approval.caller.session.is_some() {
            "session</h3>"
        } else {
            "caller’s name</h3>"
        });
        if earlier.is_empty() {
            html.raw("<p class=\"muted\">Nothing.</p></section>");
            return;
        }
        html.raw("<ol class=\"earlier\">");
        for call in earlier {
            html.put(
                "<li title=\"{}\"><span class=\"st {}\">{}</span> <code>",
                &[&call.call_id, &call.status, &call.status],
            );
            html.shown(&call.tool).raw("</code> <span class=\"gist\">");
            let arguments = call.payload.arguments.as_deref().map_or("", RawValue::get);
            let gist: String = arguments.chars().take(160).collect();
            html.shown(&gist).raw("</span> ");
            time::age(html, call.received_at, self.now);
            html.raw("</li>");
        }
        html.raw("</ol></section>");
    }

    /// What a person said, and with which arguments it may run.
    fn decided(&self, html: &mut Html) {
        let approval = &self.approval;
        let (class, words) = match approval.state {
            ApprovalState::Pending => return,
            ApprovalState::Approved => ("good", "Approved"),
            ApprovalState::Used => ("good", "Approved, and run"),
            ApprovalState::Denied => ("bad", "Denied"),
            ApprovalState::Expired => ("", "Expired"),
            ApprovalState::Withdrawn => ("", "Taken back"),
        };
        html.put("<section class=\"notice ruling {}\" role=\"status\"><p><b>{}</b>", &[&class, &words]);
        if let Some(ruling) = &approval.ruling {
            html.raw(" by <b>").shown(&ruling.by).raw("</b> ");
            time::age(html, ruling.at, self.now);
            html.raw("</p>");
            if let Some(reason) = &ruling.reason {
                html.raw("<blockquote>").shown(reason).raw("</blockquote>");
            }
            if let Some(rule) = ruling.rule {
                html.put(
                    "<p>The like is not asked again in this session: <a href=\"{}/rules\">{}</a></p>",
                    &[&self.deciding.place, &rule],
                );
            }
        } else {
            html.raw("</p>");
        }
        if let Some(call) = approval.used_by {
            html.put("<p class=\"muted\">Used by <code>{}</code></p>", &[&call]);
        }
        html.raw("</section>");
        let edited = approval.ruling.as_ref().and_then(|ruling| ruling.edited.as_deref());
        if let Some(edited) = edited {
            let edited: Value = serde_json::from_str(edited.get()).unwrap_or_default();
            html.raw("<section><h3>What was changed before it was approved</h3>");
            html.add(&diff(&pretty(&self.arguments), &pretty(&edited))).raw("</section>");
        }
    }

    /// What an edit would change, before it counts.
    fn review(&self, html: &mut Html) {
        let Stage::Reviews { edited } = &self.stage else { return };
        html.raw("<section class=\"review\"><h3>What would run instead</h3>");
        if *edited == self.arguments {
            html.raw("<p class=\"notice\">Nothing is changed.</p>");
        }
        html.add(&diff(&pretty(&self.arguments), &pretty(edited)));
        let text = json_escaped(&pretty(edited));
        self.form(html, "approve");
        html.put("<input type=\"hidden\" name=\"edited\" value=\"{}\">", &[&text]);
        html.raw("<label>Why <span class=\"muted\">(the caller is told)</span><input name=\"reason\" maxlength=\"4000\" autocomplete=\"off\"></label>");
        html.raw(
            "<div class=\"buttons\"><button class=\"go\" data-first>Approve with these arguments</button>",
        );
        html.put(
            "<a class=\"quiet button\" href=\"{}/approvals/{}\" data-reload>Back</a></div></form></section>",
            &[&self.deciding.place, &self.approval.id],
        );
    }

    fn actions(&self, html: &mut Html) {
        html.raw("<div class=\"acts\" role=\"group\" aria-label=\"Decide\">");
        self.form(html, "approve");
        html.raw("<button class=\"go\" data-key=\"a\">Approve <kbd>a</kbd></button></form>");
        if self.approval.can_be_edited() {
            self.edit_form(html);
        }
        html.raw(
            "<details name=\"act\" data-key=\"d\"><summary class=\"button no\">Deny <kbd>d</kbd></summary>",
        );
        self.form(html, "deny");
        html.raw("<label>Why <span class=\"muted\">(the caller is told)</span>");
        html.raw("<textarea name=\"reason\" rows=\"2\" maxlength=\"4000\" data-submit></textarea></label>");
        html.raw("<div class=\"buttons\"><button class=\"no\">Deny</button><span class=\"muted hint\">Ctrl+Enter</span></div></form></details>");
        if self.approval.can_be_remembered() && self.deciding.only.is_none() {
            self.always_form(html);
        }
        html.raw("</div>");
        if self.approval.asks_each_time {
            html.raw("<p class=\"muted\">It is asked because of what this call does, so the like is asked each time.</p>");
        }
    }

    fn edit_form(&self, html: &mut Html) {
        let (text, problem) = match &self.stage {
            Stage::Edits { text, problem } => (text.clone(), Some(problem)),
            Stage::Look | Stage::Told(_) | Stage::Reviews { .. } => {
                (json_escaped(&pretty(&self.arguments)), None)
            }
        };
        html.raw("<details name=\"act\" data-key=\"e\"");
        html.raw(if problem.is_some() { " open>" } else { ">" });
        html.raw("<summary class=\"button\">Edit &amp; approve <kbd>e</kbd></summary>");
        self.form(html, "edit");
        if let Some(problem) = problem {
            html.put("<p class=\"notice bad\" role=\"alert\">{}</p>", &[problem]);
        }
        let rows = text.lines().count().clamp(4, 16);
        html.put(
            "<label>Arguments to run instead<textarea name=\"edited\" class=\"code\" rows=\"{}\" ",
            &[&rows],
        );
        html.put("spellcheck=\"false\" autocomplete=\"off\" autocapitalize=\"none\" data-submit>\n{}</textarea></label>", &[&text]);
        html.raw("<div class=\"buttons\"><button class=\"go\">Show what changes</button><span class=\"muted hint\">Ctrl+Enter</span></div></form></details>");
    }

    fn always_form(&self, html: &mut Html) {
        html.raw("<details name=\"act\" data-key=\"s\"><summary class=\"button\">Always for this session <kbd>s</kbd></summary>");
        self.form(html, "always");
        html.raw("<p class=\"muted\">Approves this call, and lets the like run without asking: the same tool as it is now, ");
        html.raw("the same principal, agent and session, and the same:</p><div class=\"checks\">");
        let fields = self.arguments.as_object();
        for (name, value) in fields.into_iter().flatten().take(FIELDS_MAX) {
            html.put(
                "<label><input type=\"checkbox\" name=\"same\" value=\"{}\" checked> <code>",
                &[&json_escaped_pointer(name)],
            );
            html.shown(name).raw("</code> <span class=\"gist\">");
            let gist: String = value.to_string().chars().take(80).collect();
            html.shown(&gist).raw("</span></label>");
        }
        html.raw("</div><p class=\"muted\">With all of them checked, nothing may be added either. ");
        html.put(
            "With none, any arguments will do. Can be taken back under <a href=\"{}/rules\">Rules</a>.</p>",
            &[&self.deciding.place],
        );
        if self.approval.fingerprint.is_some() {
            html.raw("<p class=\"muted\">Later calls run whatever they would use by then, also where that is not what you see here.</p>");
        }
        html.raw("<div class=\"buttons\"><button class=\"go\">Approve, and always for this session</button></div></form></details>");
    }

    fn form(&self, html: &mut Html, action: &'static str) {
        html.put(
            "<form method=\"post\" action=\"{}/approvals/{}/{}\" data-part>",
            &[&self.deciding.place, &self.approval.id, &action],
        );
        token(html, self.deciding);
    }
}

/// A field as the form sends it back; its name may hold what HTML would change.
pub(super) fn json_escaped_pointer(name: &str) -> String {
    let pointer = format!("/{}", helve::json::escape_pointer(name));
    let text = serde_json::to_string(&pointer).unwrap_or_default();
    json_escaped(&text)
}

/// Says how much hides in a text.
fn tell_hidden(html: &mut Html, text: &str) {
    let count = hidden_in(text);
    if count > 0 {
        html.put("<p class=\"notice warn\"><b>{}</b> hidden or deceptive ", &[&count]);
        html.raw(if count == 1 { "character" } else { "characters" });
        html.raw(", shown as <mark class=\"hid\">\\u{…}</mark></p>");
    }
}

/// What a person should not overlook.
fn is_grave(mark: Mark) -> bool {
    match mark {
        Mark::Destructive | Mark::UntrustedSession | Mark::OutsideDomain | Mark::Egress => true,
        Mark::FirstUse | Mark::ReadsUntrusted | Mark::ReadsPrivate | Mark::Mutates | Mark::Unlabelled => {
            false
        }
    }
}

/// The same JSON on lines of its own, keys sorted: two that say the same look the same.
pub(super) fn pretty(value: &Value) -> String {
    let sorted: Value = serde_json::from_str(&canonical(value)).unwrap_or_default();
    serde_json::to_string_pretty(&sorted).unwrap_or_default()
}
