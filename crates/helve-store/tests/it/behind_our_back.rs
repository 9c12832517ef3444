//! API keys and sessions are rows that change, which the chain does not cover: `verify` compares them.

use std::sync::Arc;

use helve_core::identity::{Key, Purpose};
use helve_core::label::{Label, LabelSet, Taint};
use helve_core::ports::{Journal, Keys, Sessions};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use helve_core::session::{SessionChange, SessionKey};
use helve_core::{Caller, ErrorCode};
use helve_store::{Concern, Store};
use helve_testkit::entries::SampleCall;
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::json;

use crate::support::Place;

fn key(name: &str, purpose: Purpose) -> Box<Key> {
    Box::new(Key::generate(name, purpose, "ada", Timestamp::now()).0)
}

fn ada() -> Arc<Caller> {
    Arc::new(Caller::principal("ada"))
}

/// A key that is good, one that was taken back, and a code that was used.
async fn with_keys() -> (Place, [String; 3]) {
    let place = Place::new();
    let store = place.open();
    let keys = [key("ci", Purpose::Call), key("old", Purpose::Decide), key("ada", Purpose::SignIn)];
    let ids = keys.each_ref().map(|key| key.id);
    for key in keys {
        store.create_key(key, ada()).await.unwrap();
    }
    store.revoke_key(ids[1], ada(), Timestamp::now()).await.unwrap().unwrap();
    store.redeem_code(ids[2], Timestamp::now()).await.unwrap().unwrap();
    store.touch_keys(vec![(ids[0], Timestamp::now())]).await.unwrap();
    store.close().unwrap();
    let verification = place.verify();
    assert!(verification.is_sound(), "{verification:?}");
    (place, ids.map(|id| id.to_string()))
}

/// What `verify` finds once the tables of a copy were changed.
fn after(place: &Place, concern: Concern, sql: &str) -> (Option<i64>, String) {
    let copy = place.copy();
    Connection::open(copy.db()).unwrap().execute_batch(sql).unwrap();
    let verification = copy.verify();
    assert_eq!(verification.concern, Some(concern), "{sql}: {verification:?}");
    let problem = verification.first_problem.unwrap();
    (problem.seq, problem.what)
}

#[tokio::test]
async fn a_key_that_was_changed_added_or_made_good_again_is_found() {
    let (place, [good, revoked, code]) = with_keys().await;
    let set = |id: &str, path: &str, value: &str| {
        format!("UPDATE api_keys SET body = json_set(body, '$.{path}', {value}) WHERE id = '{id}'")
    };
    let new = key("eve", Purpose::Decide);
    let (new_id, new_body) = (new.id.to_string(), serde_json::to_string(&new).unwrap());
    let cases = [
        (set(&good, "name", "'root'"), Some(1), "its row was changed"),
        (set(&good, "roles", "json('[\"admin\"]')"), Some(1), "its row was changed"),
        (set(&good, "purpose", "'decide'"), Some(1), "its row was changed"),
        (set(&good, "digest", "'00'"), Some(1), "its row was changed"),
        (set(&good, "id", "'{}'").replace("{}", &revoked), Some(1), "its row was changed"),
        (set(&good, "revoked_at", "'2026-01-01T00:00:00Z'"), Some(1), "nobody took it back"),
        (format!("UPDATE api_keys SET body = '{{' WHERE id = '{good}'"), Some(1), "cannot be read"),
        (
            format!(
                "UPDATE api_keys SET body = json_remove(body, '$.revoked_at', '$.revoked_by') WHERE id = '{revoked}'"
            ),
            Some(7),
            "it was taken back, and seems good again",
        ),
        (
            format!("UPDATE api_keys SET body = json_remove(body, '$.used_at') WHERE id = '{code}'"),
            Some(9),
            "it was used up, and seems unused",
        ),
        (
            format!("INSERT INTO api_keys VALUES ('{new_id}', 'decide', NULL, '{new_body}')"),
            None,
            "nobody made it",
        ),
        (format!("DELETE FROM api_keys WHERE id = '{revoked}'"), Some(3), "was removed"),
    ];
    for (sql, seq, what) in cases {
        let found = after(&place, Concern::ApiKeys, &sql);
        assert_eq!(found.0, seq, "{sql}: {found:?}");
        assert!(found.1.contains(what) && found.1.contains("`api_keys`"), "{sql}: {found:?}");
    }
    // Codes are forgotten after a day, which is nothing wrong.
    let copy = place.copy();
    Connection::open(copy.db()).unwrap().execute("DELETE FROM api_keys WHERE id = ?1", [&code]).unwrap();
    assert!(copy.verify().is_sound());
}

#[tokio::test]
async fn a_call_of_a_tool_named_like_an_entry_about_keys_vouches_for_none() {
    let place = Place::new();
    let store = place.open();
    let forged = key("eve", Purpose::Decide);
    let mut call = SampleCall::new("keys create").arguments(forged.told());
    call.facts.correlation_id = Some(forged.id.to_string());
    call.facts.resolved = false;
    store.commit(call.failed(ErrorCode::ToolNotFound)).await.unwrap();
    store.close().unwrap();
    let body = serde_json::to_string(&forged).unwrap();
    let sql = format!("INSERT INTO api_keys VALUES ('{}', 'decide', NULL, '{body}')", forged.id);
    let (_, what) = after(&place, Concern::ApiKeys, &sql);
    assert!(what.contains("nobody made it"), "{what}");
}

async fn raise(store: &Store, call: &SampleCall, label: Label) {
    let labels = LabelSet::NONE.with(label);
    let taint = Taint { labels, tool: "page".into(), call_id: call.id(), at: call.facts.received_at };
    let (key, change) = (SessionKey::of(&call.facts.caller), Box::new(SessionChange::Raise(taint)));
    store.change_session(key, change, call.facts.received_at, Timestamp::MIN).await.unwrap();
    store.commit(Entry::Step(call.step(StepKind::Labelled { labels }))).await.unwrap();
    store.commit(call.done(json!("read"))).await.unwrap();
}

#[tokio::test]
async fn a_session_whose_label_was_lowered_is_found() {
    let place = Place::new();
    let store = place.open();
    raise(&store, &SampleCall::new("page"), Label::Untrusted).await;
    raise(&store, &SampleCall::new("diary"), Label::Private).await;
    store.close().unwrap();
    let verification = place.verify();
    assert!(verification.is_sound(), "{verification:?}");
    for (sql, seq, what) in [
        ("UPDATE sessions SET body = json_remove(body, '$.taints')", 2, "has lost the label `untrusted`"),
        ("UPDATE sessions SET body = json_remove(body, '$.taints[1]')", 5, "has lost the label `private`"),
        (
            "UPDATE sessions SET body = json_set(body, '$.since', '2099-01-01T00:00:00Z')",
            2,
            "begins after that",
        ),
        ("UPDATE sessions SET principal = 'eve'", 2, "is gone"),
        ("DELETE FROM sessions", 2, "is gone"),
    ] {
        let found = after(&place, Concern::Sessions, sql);
        assert_eq!(found.0, Some(seq), "{sql}: {found:?}");
        assert!(found.1.contains(what) && found.1.contains("`s-1` of `assistant`"), "{sql}: {found:?}");
    }
    let (_, what) = after(&place, Concern::Sessions, "UPDATE sessions SET body = '{'");
    assert!(what.contains("cannot be read"), "{what}");

    let store = place.open();
    let key = SessionKey::of(&SampleCall::new("page").facts.caller);
    let end = Box::new(SessionChange::End { by: ada() });
    store.change_session(key, end, Timestamp::now(), Timestamp::MIN).await.unwrap();
    store.close().unwrap();
    assert!(place.verify().is_sound());
    let reopen = "UPDATE sessions SET body = json_remove(body, '$.ended_at')";
    let (seq, what) = after(&place, Concern::Sessions, reopen);
    assert!(seq == Some(7) && what.contains("was ended, and seems open"), "{what}");
}
