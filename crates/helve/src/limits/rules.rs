//! Holds calls to the rules.

use std::sync::Arc;
use std::time::Duration;

use helve_core::limit::{CountBy, LimitRule};
use helve_core::ports::{LimitKey, Limiter, Refusal, Slot};
use helve_core::{Caller, ErrorCode, ToolError, ToolName};

use super::{shown, whole_ms};

/// When to come back if nobody can say.
const FULL_WAIT: Duration = Duration::from_secs(5);

/// The rules, and who counts.
pub(crate) struct Limits {
    rules: Vec<Rule>,
    limiter: Arc<dyn Limiter>,
}

struct Rule {
    rule: LimitRule,
    /// Tells its counts from other rules'. The same on every machine with the same configuration.
    id: String,
}

impl Limits {
    pub(crate) fn new(rules: &[LimitRule], limiter: Arc<dyn Limiter>) -> Self {
        let mut sorted: Vec<Rule> = Vec::new();
        for rule in rules.iter().filter(|rule| rule.problem().is_none()) {
            // A rule that stands there twice would count every call twice.
            if !sorted.iter().any(|known| known.rule == *rule) {
                sorted.push(Rule { id: id(rule), rule: rule.clone() });
            }
        }
        sorted.sort_by_key(|known| order(&known.rule));
        Self { rules: sorted, limiter }
    }

    /// Takes what the call needs of every rule, or refuses it. The slots are free again when the
    /// answer is dropped.
    pub(crate) fn admit(&self, tool: &ToolName, caller: &Caller) -> Result<Vec<Slot>, ToolError> {
        if self.rules.is_empty() {
            return Ok(Vec::new());
        }
        let matching = self.rules.iter().filter(|known| known.rule.matches(tool));
        let keyed = matching.map(|known| (&known.rule, key_of(&known.id, &known.rule, tool, caller)));
        let counted: Vec<_> = keyed.collect();
        let mut slots = Vec::new();
        // Slots first: they go back when a later rule refuses, and tokens do not.
        for (rule, key) in &counted {
            if let Some(most) = rule.concurrency {
                let slot = self.limiter.try_enter(key, most);
                slots.push(slot.map_err(|refusal| too_many_at_once(rule, most.get(), refusal))?);
            }
        }
        for (rule, key) in &counted {
            if let Some(rate) = rule.rate_with_burst() {
                self.limiter.try_take(key, rate).map_err(|refusal| too_often(rule, refusal))?;
            }
        }
        Ok(slots)
    }
}

/// What a call is counted under.
pub(super) fn key_of(id: &str, rule: &LimitRule, tool: &ToolName, caller: &Caller) -> LimitKey {
    let who = caller.principal.as_deref().unwrap_or_default();
    let session = caller.session.as_deref().unwrap_or_default();
    let mut parts = vec![id];
    for by in &rule.by {
        match by {
            CountBy::Tool => parts.push(tool.as_str()),
            CountBy::Caller => parts.push(who),
            // Under the caller's name, or one could use up what is another's.
            CountBy::Session => parts.extend([who, session]),
        }
    }
    LimitKey::new(parts)
}

/// A caller who is refused for their own sake must not take what others share, nor fill the
/// memory with sessions: the caller's own rules come first, and those that all share last.
fn order(rule: &LimitRule) -> u8 {
    match (rule.by.contains(&CountBy::Session), rule.by.contains(&CountBy::Caller)) {
        (false, true) => 0,
        (true, _) => 1,
        (false, false) => 2,
    }
}

pub(super) fn id(rule: &LimitRule) -> String {
    let by: Vec<_> = rule.by.iter().map(|by| by.as_str()).collect();
    let rate = rule.rate_with_burst().map(|rate| format!("{rate} {}", rate.burst())).unwrap_or_default();
    let slots = rule.concurrency.map(|slots| slots.to_string()).unwrap_or_default();
    let cost = rule.cost.as_ref().map(|cost| cost.to_string()).unwrap_or_default();
    [rule.tool.as_str(), &by.join("+"), &rate, &slots, &cost].join("\n")
}

fn too_often(rule: &LimitRule, refusal: Refusal) -> ToolError {
    let rate = rule.rate.map(|rate| rate.to_string()).unwrap_or_default();
    refused(rule, refusal, &format!("{rate}{}, and that is used up", each(rule)))
}

fn too_many_at_once(rule: &LimitRule, most: u32, refusal: Refusal) -> ToolError {
    refused(rule, refusal, &format!("{most} at once{}, and that many are running", each(rule)))
}

fn refused(rule: &LimitRule, refusal: Refusal, why: &str) -> ToolError {
    let (message, wait) = match refusal {
        Refusal::Wait(wait) => (format!("calls to `{}` are limited to {why}", rule.tool), wait),
        Refusal::Full => (
            format!("calls to `{}` are limited{}, and no more of them can be counted", rule.tool, each(rule)),
            FULL_WAIT,
        ),
    };
    ToolError::new(ErrorCode::RateLimit, message)
        .retry_after(whole_ms(wait))
        .suggest(format!("call again in {}", shown(wait)))
}

/// ` for each caller and tool`.
pub(super) fn each(rule: &LimitRule) -> String {
    let words: Vec<_> = rule.by.iter().map(|by| by.as_str()).collect();
    if words.is_empty() { String::new() } else { format!(" for each {}", words.join(" and ")) }
}
