//! What was allowed for a session, so that the like is not asked again.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Approval, Ruling};
use crate::caller::Caller;
use crate::id::{ApprovalId, CallId, RuleId};
use crate::json::{canonical, sha256_hex};
use crate::run::{Step, StepKind};

/// “Always for this session”: what a person was asked once and need not be asked again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Rule {
    /// Its id, by which it is listed and taken back.
    pub id: RuleId,
    /// The question that it comes from.
    pub approval_id: ApprovalId,
    /// The call that asked, and its run, where the journal tells of it.
    pub call_id: CallId,
    /// The run of that call.
    pub run: CallId,
    /// The tool's full name.
    pub tool: Arc<str>,
    /// The tool as it was: one that has changed asks again.
    pub digest: Arc<str>,
    /// Who answers for the call.
    pub principal: Option<String>,
    /// The agent that it was given to; other agents ask.
    pub agent: Option<String>,
    /// The session that it was given in; other sessions ask.
    pub session: Option<String>,
    /// What of the arguments must be as it was.
    pub same: Same,
    /// A digest of what must be as it was.
    pub shape: String,
    /// Who made it.
    pub by: String,
    /// When it was made.
    pub made_at: Timestamp,
    /// Until when it holds.
    pub expires_at: Timestamp,
    /// Who took it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<String>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// What of the arguments must be as it was when a person allowed the like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Same {
    /// All of them.
    Everything,
    /// These, as JSON Pointers; the others may be anything that fits the tool. None: any arguments.
    Fields(Vec<String>),
}

impl Same {
    /// A digest of what must stay the same.
    pub fn shape(&self, arguments: &Value) -> String {
        let text = match self {
            Self::Everything => canonical(arguments),
            Self::Fields(fields) => {
                let held = fields.iter().map(|field| (field, arguments.pointer(field)));
                // Absent is not the same as null.
                let held = held.map(|(field, value)| match value {
                    Some(value) => Value::from(vec![Value::from(field.as_str()), value.clone()]),
                    None => Value::from(vec![Value::from(field.as_str())]),
                });
                canonical(&Value::Array(held.collect()))
            }
        };
        sha256_hex(text.as_bytes())
    }
}

impl Rule {
    /// A rule that lets through what is like the call that was asked about, until `expires_at`.
    pub fn new(
        id: RuleId,
        approval: &Approval,
        same: Same,
        arguments: &Value,
        ruling: &Ruling,
        expires_at: Timestamp,
    ) -> Self {
        Self {
            id,
            approval_id: approval.id,
            call_id: approval.call_id,
            run: approval.run(),
            tool: Arc::clone(&approval.tool),
            digest: Arc::clone(&approval.digest),
            principal: approval.caller.principal.clone(),
            agent: approval.caller.agent.clone(),
            session: approval.caller.session.clone(),
            shape: same.shape(arguments),
            same,
            by: ruling.by.clone(),
            made_at: ruling.at,
            expires_at,
            revoked_by: None,
            revoked_at: None,
        }
    }

    /// Whether it holds at a time.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.made_at <= now && now < self.expires_at
    }

    /// Whether it lets a call through.
    pub fn allows(&self, digest: &str, caller: &Caller, arguments: &Value, now: Timestamp) -> bool {
        self.holds(now)
            && *self.digest == *digest
            && self.principal == caller.principal
            && self.agent == caller.agent
            && self.session == caller.session
            && self.shape == self.same.shape(arguments)
    }

    /// Takes it back. Returns whether it held.
    pub fn revoke(&mut self, by: &str, at: Timestamp) -> bool {
        let held = self.revoked_at.is_none();
        if held {
            self.revoked_by = Some(by.to_owned());
            self.revoked_at = Some(at);
        }
        held
    }

    /// The step that tells in the journal that it was taken back.
    pub fn revoked_step(&self, by: &str, at: Timestamp) -> Box<Step> {
        let kind = StepKind::RuleRevoked { rule_id: self.id, by: by.to_owned() };
        Box::new(Step { at, call_id: self.call_id, run: self.run, kind, payload: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_rule_lets_through_what_is_like_it_and_nothing_else() {
        let mut approval = Approval::new(ApprovalId::new(time(0)), "mail/send", "d1", CallId::new(time(0)));
        approval.caller = Arc::new(Caller::agent("bot").session("s-1"));
        let ruling = Ruling::new("ada", time(1));
        let arguments = json!({ "to": "ada", "text": "hi" });
        let same = Same::Fields(vec!["/to".to_owned()]);
        let id = RuleId::new(time(1));
        let rule = Rule::new(id, &approval, same, &arguments, &ruling, time(50));
        let bot = Caller::agent("bot").session("s-1");
        assert!(rule.allows("d1", &bot, &json!({ "to": "ada", "text": "other" }), time(2)));
        assert!(!rule.allows("d1", &bot, &json!({ "to": "eve", "text": "hi" }), time(2)));
        assert!(!rule.allows("d1", &bot, &json!({ "text": "hi" }), time(2)));
        assert!(!rule.allows("d2", &bot, &arguments, time(2)), "the tool has changed");
        assert!(!rule.allows("d1", &Caller::agent("bot").session("s-2"), &arguments, time(2)));
        assert!(!rule.allows("d1", &Caller::agent("eve").session("s-1"), &arguments, time(2)));
        assert!(!rule.allows("d1", &bot, &arguments, time(50)), "it has ended");
        assert!(!rule.allows("d1", &bot, &arguments, time(0)), "the clock went back");
        let mut revoked = rule.clone();
        assert!(revoked.revoke("ada", time(3)) && !revoked.revoke("ada", time(4)));
        assert!(!revoked.allows("d1", &bot, &arguments, time(4)));
        let null = Same::Fields(vec!["/cc".to_owned()]);
        assert_ne!(null.shape(&json!({ "cc": null })), null.shape(&json!({})));
    }
}
