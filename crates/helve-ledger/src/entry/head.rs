//! The heads of starts and ends, and payloads, as JSON.
//!
//! They have the form that serde gives the core's types, by which the audit trail reads them; a
//! test compares. They are written by hand because every call has one, and serde takes three times as
//! long: it looks through the names of fields for something to escape, and writes anew the time and
//! the caller, which are mostly those of the entry before.

use std::sync::Arc;

use helve_core::Caller;
use helve_core::approval::Grant;
use helve_core::record::{Attempt, Ending, Facts, Payload, RawJson};
use jiff::Timestamp;
use serde_json::Result;

use super::json::{Json, Second, key};

/// The head of a start or an end.
pub(super) struct Head<'a> {
    pub(super) at: Timestamp,
    pub(super) facts: &'a Facts,
    /// What a start says of its tool: the digest.
    pub(super) digest: Option<&'a str>,
    /// Whether a start lacks some of its arguments.
    pub(super) withheld: bool,
    /// The approval that a start uses up.
    pub(super) grant: Option<&'a Grant>,
    pub(super) ending: Option<&'a Ending>,
    /// The scoped idempotency key that the call claimed or settled with this entry. Joins the
    /// chain with the table of keys, which it does not cover.
    pub(super) key: Option<String>,
    /// The process that is at the run which a start opens.
    pub(super) owner: Option<&'a str>,
    /// Whether the end came from a process that had lost the run to another, and so does not count.
    pub(super) fenced: bool,
}

/// What was written last, for the next head that has the same.
#[derive(Default)]
pub(super) struct Last {
    second: Second,
    caller: Option<Arc<Caller>>,
    caller_text: Vec<u8>,
}

impl Head<'_> {
    /// Writes it. The call's id has been written before.
    pub(super) fn write(&self, text: &mut Vec<u8>, call_id: &str, last: &mut Last) -> Result<()> {
        // Taken apart, here as below, so that a new field cannot be forgotten.
        let Self { at, facts, digest, withheld, grant, ending, key, owner, fenced } = self;
        let mut json = Json(text);
        json.push("{");
        json.time(key!("at"), *at, &mut last.second)?;
        write_facts(&mut json, facts, call_id, last)?;
        json.some(key!("digest"), *digest)?;
        json.flag_if(key!("withheld"), *withheld);
        json.some(key!("grant"), *grant)?;
        ending.map_or(Ok(()), |ending| write_ending(&mut json, ending))?;
        json.some(key!("key"), key.as_ref())?;
        json.some(key!("owner"), *owner)?;
        json.flag_if(key!("fenced"), *fenced);
        json.finish();
        Ok(())
    }
}

fn write_facts(json: &mut Json<'_>, facts: &Facts, call_id: &str, last: &mut Last) -> Result<()> {
    let Facts {
        call_id: _,
        received_at,
        correlation_id,
        caller,
        tool,
        resolved,
        risk,
        changes_world,
        idempotency_key,
        part,
        undo_of,
        trace_parent,
    } = facts;
    json.push(key!("facts", "{"));
    json.word(key!("call_id"), call_id);
    json.time(key!("received_at"), *received_at, &mut last.second)?;
    json.some(key!("correlation_id"), correlation_id.as_ref())?;
    last.write_caller(json, caller)?;
    json.value(key!("tool"), tool)?;
    json.flag(key!("resolved"), *resolved);
    risk.iter().for_each(|risk| json.word(key!("risk"), risk.as_str()));
    json.flag(key!("changes_world"), *changes_world);
    json.some(key!("idempotency_key"), idempotency_key.as_ref())?;
    json.some(key!("part"), part.as_ref())?;
    json.some(key!("undo_of"), undo_of.as_ref())?;
    json.some(key!("trace_parent"), trace_parent.as_ref())?;
    json.close("}");
    Ok(())
}

impl Last {
    fn write_caller(&mut self, json: &mut Json<'_>, caller: &Arc<Caller>) -> Result<()> {
        if self.caller.as_ref() != Some(caller) {
            self.caller = None;
            self.caller_text.clear();
            Json(&mut self.caller_text).value(key!("caller"), caller)?;
            self.caller = Some(Arc::clone(caller));
        }
        json.0.extend_from_slice(&self.caller_text);
        Ok(())
    }
}

fn write_ending(json: &mut Json<'_>, ending: &Ending) -> Result<()> {
    let Ending {
        status,
        code,
        tool_code,
        stage,
        approval_id,
        replay_of,
        attempts,
        timings,
        result_bytes,
        withheld,
        degraded,
        effects,
        gate,
        cost,
    } = ending;
    json.push(key!("ending", "{"));
    json.word(key!("status"), status.as_str());
    json.some(key!("code"), code.as_ref())?;
    json.some(key!("tool_code"), tool_code.as_ref())?;
    json.some(key!("stage"), stage.as_ref())?;
    json.some(key!("approval_id"), approval_id.as_ref())?;
    json.some(key!("replay_of"), replay_of.as_ref())?;
    if !attempts.is_empty() {
        json.push(key!("attempts", "["));
        attempts.iter().try_for_each(|attempt| write_attempt(json, attempt))?;
        json.close("]");
    }
    json.push(key!("timings", "{"));
    for (stage, nanos) in timings.iter() {
        json.push("\"");
        json.push(stage.as_str());
        json.value("\":", &nanos)?;
    }
    json.close("}");
    json.some(key!("result_bytes"), result_bytes.as_ref())?;
    json.flag_if(key!("withheld"), *withheld);
    json.many(key!("degraded"), degraded)?;
    json.many(key!("effects"), effects)?;
    json.some(key!("gate"), gate.as_ref())?;
    json.some(key!("cost"), cost.as_ref())?;
    json.close("}");
    Ok(())
}

fn write_attempt(json: &mut Json<'_>, attempt: &Attempt) -> Result<()> {
    let Attempt { duration_us, code, handler, nothing_done } = attempt;
    json.push("{");
    json.value(key!("duration_us"), duration_us)?;
    json.some(key!("code"), code.as_ref())?;
    json.value(key!("handler"), handler)?;
    json.flag_if(key!("nothing_done"), *nothing_done);
    json.close("}");
    Ok(())
}

/// Writes what was said in a call.
pub(super) fn write_payload(text: &mut Vec<u8>, payload: &Payload) -> Result<()> {
    let Payload { arguments, cut, repairs, result, attached, error, votes, advice } = payload;
    let mut json = Json(text);
    json.push("{");
    json.raw(key!("arguments"), arguments.as_ref());
    json.some(key!("cut"), cut.as_ref())?;
    json.many(key!("repairs"), repairs)?;
    json.raw(key!("result"), result.as_ref());
    json.some(key!("attached"), attached.as_ref())?;
    json.some(key!("error"), error.as_ref())?;
    json.many(key!("voices"), votes)?;
    json.some(key!("advice"), advice.as_ref())?;
    json.finish();
    Ok(())
}

/// Writes what was said in a call that starts: arguments alone.
pub(super) fn write_arguments(text: &mut Vec<u8>, arguments: &RawJson) {
    let mut json = Json(text);
    json.push("{");
    json.raw(key!("arguments"), Some(arguments));
    json.finish();
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    const ID: &str = "call_01M7MM8BP0ETBA3726MX8E0CGD";

    /// An end and a start in one, with every field.
    fn everything() -> Value {
        json!({
            "at": "2026-11-17T11:28:42.176890203Z",
            "facts": {
                "call_id": ID, "received_at": "2026-11-17T11:28:42.1Z", "correlation_id": "a \"b\"",
                "caller": { "principal": "Ada\n", "kind": "agent", "session": "s-1" },
                "tool": "mail/\u{1}send", "resolved": true, "risk": "high", "changes_world": false,
                "idempotency_key": "k\\", "part": { "run": ID, "path": "fetch/1" }, "undo_of": ID,
                "trace_parent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            },
            "digest": "5a4d", "withheld": true,
            "grant": { "approval_id": "apr_01M7MM8BP0ETBA3726MX8E0CGD", "binding": "b" },
            "ending": {
                "status": "failed", "code": "timeout", "stage": "execute",
                "approval_id": "apr_01M7MM8BP0ETBA3726MX8E0CGD", "replay_of": ID,
                "attempts": [
                    { "duration_us": u64::MAX, "code": "timeout", "handler": "stopped" },
                    { "duration_us": 7, "code": "network", "handler": "returned", "nothing_done": true },
                    { "duration_us": 0, "handler": "returned" },
                ],
                "timings": { "resolve": 130, "execute": 882 }, "result_bytes": 11, "withheld": true,
                "degraded": ["no disk"], "effects": [{ "description": "an \"e\"", "state": "applied" }],
                "gate": { "said": "deny", "by": ["policy x"] },
            },
            "key": "00ff", "owner": "a1", "fenced": true,
        })
    }

    fn check(expected: &Value, last: &mut Last) {
        let read = |name: &str| expected.get(name).cloned().unwrap_or_default();
        let facts: Facts = serde_json::from_value(read("facts")).unwrap();
        let ending: Option<Ending> = serde_json::from_value(read("ending")).unwrap();
        let grant: Option<Grant> = serde_json::from_value(read("grant")).unwrap();
        let head = Head {
            at: serde_json::from_value(read("at")).unwrap(),
            facts: &facts,
            digest: expected["digest"].as_str(),
            withheld: expected["withheld"] == true,
            grant: grant.as_ref(),
            ending: ending.as_ref(),
            key: expected["key"].as_str().map(str::to_owned),
            owner: expected["owner"].as_str(),
            fenced: expected["fenced"] == true,
        };
        let mut text = Vec::new();
        head.write(&mut text, ID, last).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, expected.to_string());
        // The core's types write themselves in the same way.
        let serde = serde_json::to_string(&facts).unwrap();
        assert!(text.contains(&format!("\"facts\":{serde}")), "{serde}");
        let serde = ending.map(|ending| serde_json::to_string(&ending).unwrap()).unwrap_or_default();
        assert!(text.contains(&serde), "{serde}");
    }

    #[test]
    fn heads_are_written_as_serde_writes_them_with_and_without_every_field() {
        let needed = ["at", "facts", "call_id", "received_at", "caller", "tool", "resolved", "changes_world"];
        let needed = |name: &String| needed.contains(&name.as_str()) || name == "status" || name == "timings";
        let all = everything();
        let mut last = Last::default();
        check(&all, &mut last);
        let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        for part in ["", "/facts", "/ending"] {
            for name in members(all.pointer(part).unwrap()).into_iter().filter(|name| !needed(name)) {
                let mut less = all.clone();
                less.pointer_mut(part).unwrap().as_object_mut().unwrap().shift_remove(&name);
                check(&less, &mut last);
            }
        }
        let mut least = all.clone();
        least.as_object_mut().unwrap().retain(|name, _| needed(name));
        least["facts"].as_object_mut().unwrap().retain(|name, _| needed(name));
        check(&least, &mut last);
        least["ending"] = json!({ "status": "done", "timings": {} });
        check(&least, &mut last);
        least["facts"]["caller"] = json!({});
        least["at"] = json!("2026-11-17T11:28:43Z");
        check(&least, &mut last);
    }

    #[test]
    fn payloads_are_written_as_serde_writes_them_with_and_without_every_field() {
        let all = json!({
            "arguments": { "a": [1, "\"", null] },
            "cut": { "bytes": 5000, "sha256": "5a4d", "head": "{\"a" },
            "repairs": [{ "path": "/a", "detail": "a number" }],
            "result": 7.5,
            "error": helve_core::ToolError::new(helve_core::ErrorCode::Timeout, "too \"late\""),
            "voices": [{ "by": "risk", "stance": "ask" }],
            "advice": { "action": "request_approval", "confidence": 0.9, "reasoning": "\u{1}why" },
        });
        for members in 0..1 << 7_u8 {
            let some: Map<String, Value> = all
                .as_object()
                .unwrap()
                .clone()
                .into_iter()
                .enumerate()
                .filter(|(index, _)| members & (1 << index) != 0)
                .map(|(_, member)| member)
                .collect();
            let payload: Payload = serde_json::from_value(Value::Object(some)).unwrap();
            let mut text = Vec::new();
            write_payload(&mut text, &payload).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), serde_json::to_string(&payload).unwrap());
        }
    }
}
