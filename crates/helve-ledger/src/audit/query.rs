//! Which calls to find.

use std::ops::Range;

use helve_core::record::GateRecord;
use helve_core::{CallId, CodeName, Risk, Stance, ToolCode, pattern};
use jiff::Timestamp;

use super::glance::{Glance, Text};
use super::record::{CallRecord, CallStatus};

/// Every call's id begins so.
pub const ID_PREFIX: &str = CallId::PREFIX;

/// Sorts after every id.
pub const ID_END: &str = "call_~";

/// Among which calls to look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Among {
    /// All of them.
    #[default]
    Calls,
    /// Those that are runs: they have started to change the world, or have effects or parts.
    Runs,
}

/// Which calls to list. A field that is absent lets every call through.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Among which calls to look.
    pub among: Among,
    /// The tool's full name, or a pattern of it: `mail/*`.
    pub tool: Option<String>,
    /// What became of it.
    pub status: Option<CallStatus>,
    /// The error's code, or the tool's own.
    pub code: Option<CodeName>,
    /// Who answers for it.
    pub principal: Option<String>,
    /// The caller's session.
    pub session: Option<String>,
    /// The calling agent.
    pub agent: Option<String>,
    /// What it was told: allow, ask or deny, by the gate, a person, or a guard while it ran.
    pub said: Option<Stance>,
    /// A part of the name of the source that decided it: `policy no-mail`, `rule deny`, `labels`.
    pub by: Option<String>,
    /// The least risk of its tool.
    pub risk: Option<Risk>,
    /// Calls that came at that time or later, to the millisecond, as their ids tell.
    pub since: Option<Timestamp>,
    /// Calls that came before.
    pub until: Option<Timestamp>,
    /// Calls older than this one: the last of the page before.
    pub before: Option<CallId>,
    /// Most calls to return.
    pub limit: usize,
}

impl Default for AuditQuery {
    fn default() -> Self {
        Self {
            among: Among::Calls,
            tool: None,
            status: None,
            code: None,
            principal: None,
            session: None,
            agent: None,
            said: None,
            by: None,
            risk: None,
            since: None,
            until: None,
            before: None,
            limit: 50,
        }
    }
}

/// What was found under the beginning of a call's id.
#[derive(Debug, Clone)]
pub enum Shown {
    /// The call with this id.
    Call(Box<CallRecord>),
    /// Several calls' ids begin so; these are some of them.
    Ambiguous(Vec<CallId>),
    /// No call's id begins so.
    Nothing,
}

impl AuditQuery {
    /// Whether a call is among those that are looked for.
    pub fn fits(&self, record: &CallRecord) -> bool {
        // Nobody knows whether it does, and it should not hide.
        if record.damaged.is_some() {
            return true;
        }
        let caller = &record.facts.caller;
        let ending = record.ending.as_ref();
        let code = ending.and_then(|ending| ending.code);
        let own = ending.and_then(|ending| ending.tool_code.as_ref().map(ToolCode::as_str));
        self.tool.as_ref().is_none_or(|tool| fits_name(tool, &record.facts.tool))
            && self.status.is_none_or(|status| status == record.status)
            && self.code.as_ref().is_none_or(|wanted| wanted.fits(code, own))
            && self.principal.as_ref().is_none_or(|name| caller.principal.as_ref() == Some(name))
            && self.session.as_ref().is_none_or(|id| caller.session.as_ref() == Some(id))
            && self.agent.as_ref().is_none_or(|name| caller.agent.as_ref() == Some(name))
            && self.risk.is_none_or(|least| record.facts.risk.is_some_and(|risk| risk >= least))
            && self.fits_gate(record.ending.as_ref().map(|ending| CallVerdict {
                status: record.status,
                gate: ending.gate.as_ref(),
                was_asked: ending.approval_id.is_some(),
            }))
    }

    /// Whether it asks for more than a time: then a first look at each call is worth it.
    pub fn looks_at_heads(&self) -> bool {
        let Self { among: _, tool, status, code, principal, session, agent, said, by, risk, .. } = self;
        let texts = [tool, principal, session, agent, by];
        texts.into_iter().any(Option::is_some)
            || status.is_some()
            || code.is_some()
            || said.is_some()
            || risk.is_some()
    }

    /// Whether one entry tells that the call may fit. A call fits by its last end, or by its start where it has
    /// none.
    pub(super) fn fits_glance(&self, Glance { facts, ending }: &Glance<'_>) -> bool {
        let caller = &facts.caller;
        let is = |wanted: &Option<String>, found: &Option<Text<'_>>| {
            wanted.as_ref().is_none_or(|wanted| found.as_ref().is_some_and(|found| found.0 == *wanted))
        };
        let status = ending.as_ref().map_or(CallStatus::Started, |ending| ending.status.into());
        let code = ending.as_ref().and_then(|ending| ending.code);
        let own = ending.as_ref().and_then(|ending| ending.tool_code.as_ref().map(|code| &*code.0));
        self.tool.as_ref().is_none_or(|tool| fits_name(tool, &facts.tool.0))
            && self.status.is_none_or(|wanted| wanted == status)
            && self.code.as_ref().is_none_or(|wanted| wanted.fits(code, own))
            && is(&self.principal, &caller.principal)
            && is(&self.session, &caller.session)
            && is(&self.agent, &caller.agent)
            && self.risk.is_none_or(|least| facts.risk.is_some_and(|risk| risk >= least))
            && self.fits_gate(ending.as_ref().map(|ending| CallVerdict {
                status,
                gate: ending.gate.as_ref(),
                was_asked: ending.approval_id.is_some(),
            }))
    }

    fn fits_gate(&self, heard: Option<CallVerdict<'_>>) -> bool {
        let is_by = |part: &String| {
            let gate = heard.as_ref().and_then(|heard| heard.gate);
            gate.is_some_and(|gate| gate.by.iter().any(|by| by.contains(part)))
        };
        self.said.is_none_or(|said| heard.as_ref().is_some_and(|heard| heard.is(said)))
            && self.by.as_ref().is_none_or(is_by)
    }

    /// What the entries of calls that fit in time have in common.
    pub fn bounds(&self) -> Bounds {
        let from_ms = self.since.map_or(0, |time| time.as_millisecond().max(0));
        let until_ms = self.until.map_or(i64::MAX, |time| time.as_millisecond().max(0));
        let before_ms = self.before.map_or(i64::MAX, |id| id.made_at_ms() + 1);
        Bounds {
            made_ms: from_ms..until_ms.min(before_ms),
            before: self.before.map_or_else(|| ID_END.to_owned(), |id| id.to_string()),
        }
    }
}

/// What a call that has ended was told.
struct CallVerdict<'r> {
    status: CallStatus,
    gate: Option<&'r GateRecord>,
    was_asked: bool,
}

impl CallVerdict<'_> {
    /// Whether this was said to it. A call that the network or another guard refused while it ran was denied, too,
    /// and one that a person denied was asked about.
    fn is(&self, said: Stance) -> bool {
        self.gate.is_some_and(|gate| gate.said == said)
            || match said {
                Stance::Deny => self.status == CallStatus::Denied,
                Stance::Ask => self.was_asked,
                Stance::Allow => false,
            }
    }
}

/// Most name a tool, and comparing is cheaper than matching.
fn fits_name(wanted: &str, tool: &str) -> bool {
    wanted == tool || (wanted.contains(['*', '?']) && pattern::matches(wanted, tool))
}

/// Where to look for calls: the time that the index knows, and the id after the last.
pub struct Bounds {
    /// When the calls came, in milliseconds.
    pub made_ms: Range<i64>,
    /// Their ids sort before this.
    pub before: String,
}

/// The digits of ids, five bits each. The first ten are the time in milliseconds.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TIME_DIGITS: usize = 10;

/// Calls whose ids begin alike.
pub struct Prefix {
    /// How they begin.
    pub text: String,
    /// When they came, in milliseconds. None: no id begins so.
    pub made_ms: Option<Range<i64>>,
}

impl Prefix {
    /// The beginning of an id, as somebody has typed it. None: it cannot be one.
    pub fn of(id: &str) -> Option<Self> {
        let text = normalize(id)?;
        let digits = &text[ID_PREFIX.len()..];
        let made_ms = made_ms(&digits[..digits.len().min(TIME_DIGITS)]);
        Some(Self { made_ms, text })
    }
}

/// When ids that begin so were made. None where no id does.
fn made_ms(digits: &str) -> Option<Range<i64>> {
    let mut millis = 0;
    for digit in digits.bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        millis = millis << 5 | value as i64;
    }
    let open_bits = 5 * TIME_DIGITS.checked_sub(digits.len())?;
    Some(millis << open_bits..(millis + 1) << open_bits)
}

fn normalize(id: &str) -> Option<String> {
    let digits = id.strip_prefix(ID_PREFIX).unwrap_or(id).to_ascii_uppercase();
    let plausible =
        (1..=26).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plausible.then(|| format!("{ID_PREFIX}{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_lies_in_the_time_of_each_of_its_beginnings() {
        for millis in [0, 1, 1_234_567_890_123, 253_402_207_200_000] {
            let id = CallId::new(Timestamp::from_millisecond(millis).unwrap());
            assert_eq!(id.made_at_ms(), millis);
            let text = id.to_string();
            let digits = &text[ID_PREFIX.len()..];
            for length in 0..=TIME_DIGITS {
                assert!(made_ms(&digits[..length]).unwrap().contains(&millis), "{millis} {length}");
            }
            assert_eq!(made_ms(&digits[..TIME_DIGITS]), Some(millis..millis + 1));
        }
        assert_eq!(made_ms("01U"), None);
    }

    #[test]
    fn only_plausible_ids_are_looked_up() {
        assert_eq!(normalize("01jab").unwrap(), "call_01JAB");
        assert_eq!(normalize("call_01J").unwrap(), "call_01J");
        for text in ["", "call_", "%", "a b", "01ARZ3NDEKTSV4RRFFQ69G5FAVX"] {
            assert_eq!(normalize(text), None, "{text}");
        }
    }
}
