//! Sending once: what a person saw is what goes out, and whatever is lost on the way, nobody gets it twice.

use std::sync::Arc;
use std::time::Duration;

use helve::approvals::{Decider, Decision, Vouch};
use helve::run::Recalled;
use helve::{Call, Caller, Status};
use helve_office::OfficeSettings;
use helve_office::account::MailStore;
use helve_store::office::{OfficeDb, OutboxState};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::mail_draft::{context, tool};
use crate::mail_world::{Submits, World, mail, recipients, texts};

fn letter() -> Value {
    json!({
        "to": ["Ada <ada@example.org>"], "cc": ["bob@example.org"], "bcc": ["eve@example.com"],
        "subject": "Running late", "body": "Hi,\n\nI'll be late.\n"
    })
}

fn sent(world: &World) -> Call {
    let _ = world;
    Call::new("send_email", letter()).by(Caller::local())
}

#[tokio::test]
async fn without_an_account_nothing_leaves_and_the_answer_says_so() {
    let world = World::new();
    let (preview, outcome) = world.send(letter()).await;
    assert!(preview.contains("no mail account is connected"), "{preview}");
    let answer = outcome.into_result().unwrap();
    assert_eq!(answer["status"], "not_delivered");
    assert!(answer["remarks"][0].as_str().unwrap().contains("nobody received it"));
    let copy = world.ok("read_email", json!({ "id": answer["copy"] })).await;
    assert_eq!(copy["emails"][0]["folder"], "Sent");
    assert_eq!(world.subjects(json!({ "folder": "sent" })).await, ["Running late"]);
}

#[tokio::test]
async fn what_a_person_saw_goes_out_once_with_a_copy_and_without_bcc() {
    let (world, server) = World::connected().await;
    let (preview, outcome) = world.send(letter()).await;
    assert_eq!(
        preview,
        "From: Me Myself <me@example.org>\nTo: Ada <ada@example.org>\nCc: bob@example.org\nBcc: eve@example.com\n\
         Subject: Running late\n\n Hi,\n \n I'll be late.\n"
    );
    let answer = outcome.into_result().unwrap();
    assert_eq!(answer["status"], "sent");
    let handed = server.handed.lock().unwrap().clone();
    assert_eq!(handed.len(), 1);
    assert_eq!(recipients(&handed[0].0), ["ada@example.org", "bob@example.org", "eve@example.com"]);
    assert_eq!(handed[0].0.from.as_str(), "me@example.org");
    let text = String::from_utf8(handed[0].1.to_vec()).unwrap();
    assert!(!text.contains("eve@example.com") && !text.to_lowercase().contains("bcc"), "{text}");
    assert_eq!(answer["sha256"], helve::json::sha256_hex(&handed[0].1));
    assert_eq!(server.in_folder("Sent Items"), [handed[0].1.clone()]);
}

#[tokio::test]
async fn it_asks_first_and_a_refusal_sends_nothing() {
    let (world, server) = World::connected().await;
    let outcome = world.runtime.call(sent(&world)).await;
    assert!(matches!(outcome.status, Status::Pending(_)));
    assert_eq!(server.handed(), 0);
}

#[tokio::test]
async fn the_same_key_twice_is_one_mail() {
    let (world, server) = World::connected().await;
    let call = || sent(&world).idempotency_key("k-1");
    let (_, first) = world.approved(call()).await;
    let (_, second) = world.approved(call()).await;
    assert_eq!(first.into_result().unwrap(), second.into_result().unwrap());
    assert_eq!(server.handed(), 1);
    // And without the runtime's memory, by the outbox alone.
    let tool = tool(&world, "send_email");
    let context = context(&tool);
    let one = tool.handler().call(letter(), context.clone()).await.unwrap();
    let two = tool.handler().call(letter(), context).await.unwrap();
    assert_eq!(one, two);
    assert_eq!(server.handed(), 2);
    let row = world.office.db().outgoing("local", "k-1").await.unwrap().unwrap();
    assert_eq!(row.said.as_deref(), Some("250 queued"));
    assert!(row.mail.bytes.is_empty() && row.mail.digest.len() == 64, "the copy is in Sent");
    assert_eq!(server.in_folder("Sent Items").len(), 2);
}

#[tokio::test]
async fn a_key_of_another_mail_is_refused_before_anybody_is_asked() {
    let (world, server) = World::connected().await;
    server.set(Submits::Refuses { temporary: true });
    let (_, refused) = world.approved(sent(&world).idempotency_key("k-1")).await;
    assert!(refused.error().unwrap().did_nothing());
    server.set(Submits::Takes);
    let mut other = letter();
    other["to"] = json!(["grace@example.org"]);
    let other = Call::new("send_email", other).by(Caller::local()).idempotency_key("k-1");
    let outcome = world.runtime.call(other).await;
    assert_eq!(outcome.error().unwrap().tool_code(), Some("KEY_OF_ANOTHER_MAIL"), "{outcome:?}");
    // The same mail is asked about anew: its approval was used by a call that did nothing.
    let again = world.runtime.call(sent(&world).idempotency_key("k-1")).await;
    assert!(matches!(again.status, Status::Pending(_)), "{again:?}");
    let (_, outcome) = world.approved(sent(&world).idempotency_key("k-1")).await;
    assert_eq!(outcome.into_result().unwrap()["status"], "sent");
    assert_eq!(server.handed(), 2);
}

#[tokio::test]
async fn a_lost_reply_is_unknown_unless_the_server_has_a_copy() {
    let (world, server) = World::connected().await;
    server.set(Submits::LosesReply);
    let (_, outcome) = world.send(letter()).await;
    let error = outcome.error().unwrap();
    assert_eq!(error.code().as_str(), "outcome_unknown");
    assert!(error.may_have_happened() && !error.is_retryable());
    assert!(error.message().contains("Message-ID <"), "{error}");
    assert!(error.suggestions().iter().any(|text| text.contains("do not send it again")), "{error:?}");
    assert_eq!(server.handed(), 1);
    server.set(Submits::LosesReplyButKeepsCopy);
    let mut other = letter();
    other["subject"] = json!("second");
    let (_, outcome) = world.send(other).await;
    assert_eq!(outcome.into_result().unwrap()["status"], "sent");
    assert_eq!(server.handed(), 2);
    assert_eq!(server.in_folder("Sent Items").len(), 1, "no second copy");
}

#[tokio::test]
async fn an_unknown_send_is_never_repeated_and_is_settled_when_it_is_found() {
    let (world, server) = World::connected().await;
    server.set(Submits::LosesReply);
    let tool = tool(&world, "send_email");
    let context = context(&tool);
    let asked = async || tool.recall_handler().unwrap().recall(letter(), context.clone()).await;
    let recall = async || asked().await.unwrap();
    assert_eq!(recall().await, Recalled::WillNotHappen);
    assert!(tool.handler().call(letter(), context.clone()).await.is_err());
    server.set(Submits::Takes);
    for _ in 0..3 {
        let error = tool.handler().call(letter(), context.clone()).await.unwrap_err();
        assert_eq!(error.code().as_str(), "outcome_unknown");
        let unknown = asked().await.unwrap_err();
        assert_eq!(unknown.code().as_str(), "outcome_unknown");
        assert!(unknown.message().contains("Message-ID <"), "{unknown}");
    }
    assert_eq!(server.handed(), 1);
    let bytes = server.handed.lock().unwrap()[0].1.clone();
    server.put_bytes("Sent Items", bytes, helve_office::account::Flags::default());
    let Recalled::Happened(answer) = recall().await else { panic!("it is in Sent") };
    assert_eq!(answer["status"], "sent");
    assert_eq!(tool.handler().call(letter(), context.clone()).await.unwrap(), answer);
    assert_eq!(server.handed(), 1);
}

#[tokio::test]
async fn a_delivery_ends_by_itself_when_the_time_of_its_call_is_up() {
    let (world, server) = World::connected().await;
    server.set(Submits::TakesLate);
    let call = || sent(&world).idempotency_key("slow").timeout(Duration::from_secs(2));
    let asked = world.runtime.call(call()).await;
    let Status::Pending(pending) = &asked.status else { panic!("{asked:?}") };
    let ada = Decider::vouched("ada", Vouch::LocalUser);
    world.runtime.approvals().decide(pending.approval_id, Decision::approve(), &ada).await.unwrap();
    // Made again by its caller, so that the caller's own time counts.
    let outcome = world.runtime.call(call()).await;
    let error = outcome.error().unwrap();
    assert!(error.may_have_happened() && !error.is_retryable(), "{error:?}");
    let says_which = error.suggestions().iter().any(|text| text.contains("Message-ID <"));
    assert!(says_which, "{error:?}");
    server.answers.notify_one();
    let row = loop {
        let row = world.office.db().outgoing("local", "slow").await.unwrap().unwrap();
        if row.answer.is_some() {
            break row;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!((row.state, row.said.as_deref()), (OutboxState::Sent, Some("250 queued at last")));
    assert_eq!(server.in_folder("Sent Items").len(), 1);
    // The same call again finds that out, and sends nothing.
    let again = world.runtime.call(call()).await;
    assert_eq!(again.into_result().unwrap()["status"], "sent");
    assert_eq!(server.handed(), 1);
}

#[tokio::test]
async fn a_refused_mail_reached_nobody_and_may_be_sent_again_as_it_is() {
    let (world, server) = World::connected().await;
    let tool = tool(&world, "send_email");
    let context = context(&tool);
    for temporary in [true, false] {
        server.set(Submits::Refuses { temporary });
        let error = tool.handler().call(letter(), context.clone()).await.unwrap_err();
        assert!(error.did_nothing() && error.is_retryable() == temporary, "{error:?}");
        let recalled = tool.recall_handler().unwrap().recall(letter(), context.clone()).await.unwrap();
        assert_eq!(recalled, Recalled::WillNotHappen);
    }
    server.set(Submits::Takes);
    tool.handler().call(letter(), context).await.unwrap();
    let handed = server.handed.lock().unwrap().clone();
    assert_eq!(handed.len(), 3);
    assert!(handed.iter().all(|one| one.1 == handed[0].1), "composed once");
}

#[tokio::test]
async fn a_key_of_a_refused_mail_sends_no_other_mail() {
    let (world, server) = World::connected().await;
    let tool = tool(&world, "send_email");
    let context = context(&tool);
    server.set(Submits::Refuses { temporary: true });
    assert!(tool.handler().call(letter(), context.clone()).await.is_err());
    server.set(Submits::Takes);
    let mut other = letter();
    other["to"] = json!(["grace@example.org"]);
    let error = tool.handler().call(other, context.clone()).await.unwrap_err();
    assert!(error.did_nothing() && error.message().contains("use a new key"), "{error:?}");
    assert_eq!(server.handed(), 1);
    tool.handler().call(letter(), context).await.unwrap();
    assert_eq!(server.handed(), 2);
}

#[tokio::test]
async fn the_longest_mail_is_shown_whole_and_goes_out() {
    let (world, server) = World::connected().await;
    let mut long = letter();
    long["body"] = json!("+ a line\n".repeat(3_000));
    let (preview, outcome) = world.send(long.clone()).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(preview.ends_with("\n + a line\n") && !preview.contains("\n+"));
    // A hundred thousand characters of four bytes, twice.
    long["body"] = json!(format!("{}END", "🙂".repeat(99_997)));
    long["html"] = json!(format!("{}</p>", "🙂".repeat(99_996)));
    let (preview, outcome) = world.send(long).await;
    assert!(outcome.is_success(), "{:?}", outcome.status);
    assert!(preview.contains("🙂END\n") && preview.ends_with("🙂</p>"), "{}", preview.len());
    assert_eq!(server.handed(), 2);
}

#[tokio::test]
async fn a_send_that_is_cut_off_while_it_is_handed_over_is_unknown() {
    let (world, server) = World::connected().await;
    server.set(Submits::Hangs);
    let tool = tool(&world, "send_email");
    let context = context(&tool);
    let running = tool.handler().call(letter(), context.clone());
    assert!(tokio::time::timeout(Duration::from_millis(500), running).await.is_err());
    assert_eq!(server.handed(), 1);
    server.set(Submits::Takes);
    let recalled = tool.recall_handler().unwrap().recall(letter(), context.clone()).await;
    assert_eq!(recalled.unwrap_err().code().as_str(), "outcome_unknown");
    assert_eq!(tool.handler().call(letter(), context).await.unwrap_err().code().as_str(), "outcome_unknown");
    assert_eq!(server.handed(), 1);
}

#[tokio::test]
async fn the_outbox_outlives_the_process() {
    let (world, server) = World::connected().await;
    server.set(Submits::LosesReply);
    let tool_before = tool(&world, "send_email");
    let context = context(&tool_before);
    assert!(tool_before.handler().call(letter(), context.clone()).await.is_err());
    let path = world.office.db().path().to_owned();
    let World { dir, runtime, office, local, .. } = world;
    drop((runtime, office, local, tool_before));
    let next = World::around(dir, OfficeDb::open(&path).unwrap(), OfficeSettings::default(), Arc::default());
    next.connect_to("work", None, &server).await;
    server.set(Submits::Takes);
    let again = tool(&next, "send_email");
    assert_eq!(again.handler().call(letter(), context).await.unwrap_err().code().as_str(), "outcome_unknown");
    assert_eq!(server.handed(), 1);
}

#[tokio::test]
async fn a_failed_copy_is_a_remark_and_never_a_failed_send() {
    let (world, server) = World::connected().await;
    *server.appends.lock().unwrap() = false;
    let (_, outcome) = world.send(letter()).await;
    let answer = outcome.into_result().unwrap();
    assert_eq!(answer["status"], "sent");
    assert!(answer["remarks"][0].as_str().unwrap().contains("Sent folder"), "{answer}");
    assert_eq!(server.handed(), 1);
}

#[tokio::test]
async fn a_server_that_keeps_a_copy_gets_none_of_ours() {
    let (world, server) = World::connected().await;
    *server.keeps.lock().unwrap() = true;
    let (_, outcome) = world.send(letter()).await;
    assert_eq!(outcome.into_result().unwrap()["status"], "sent");
    assert!(server.in_folder("Sent Items").is_empty());
    assert_eq!(server.handed(), 1);
}

#[tokio::test]
async fn a_draft_goes_out_as_it_was_seen_and_is_gone_then() {
    let (world, server) = World::connected().await;
    let draft = world
        .ok("draft_email", json!({ "to": ["ada@example.org"], "bcc": ["eve@example.org"], "subject": "one", "body": "first" }))
        .await;
    let (preview, outcome) = world.send(json!({ "draft": draft["id"], "version": draft["version"] })).await;
    assert!(preview.contains("Bcc: eve@example.org") && preview.contains("\n\n first"), "{preview}");
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(server.in_folder("Drafts").is_empty());
    let handed = server.handed.lock().unwrap().clone();
    assert_eq!(recipients(&handed[0].0), ["ada@example.org", "eve@example.org"]);
    assert!(!String::from_utf8_lossy(&handed[0].1).contains("eve@example.org"));
    assert_eq!(world.fails("send_email", json!({ "draft": draft["id"] })).await.0, "NOT_FOUND");
}

#[tokio::test]
async fn a_sent_draft_that_is_only_marked_as_deleted_cannot_be_sent_again() {
    let (world, server) = World::connected().await;
    let new = json!({ "to": ["ada@example.org"], "subject": "one", "body": "first" });
    let draft = world.ok("draft_email", new).await;
    *server.expunges.lock().unwrap() = false;
    let (_, outcome) = world.send(json!({ "draft": draft["id"] })).await;
    let answer = outcome.into_result().unwrap();
    assert!(answer["remarks"][0].as_str().unwrap().contains("only marked"), "{answer}");
    assert_eq!(world.fails("send_email", json!({ "draft": draft["id"] })).await.0, "NOT_FOUND");
    assert_eq!(server.handed(), 1);
}

#[tokio::test]
async fn a_draft_that_changed_since_it_was_approved_stays() {
    let (world, server) = World::connected().await;
    let draft = world
        .ok("draft_email", json!({ "to": ["ada@example.org"], "subject": "one", "body": "first" }))
        .await;
    let call = || Call::new("send_email", json!({ "draft": draft["id"] })).by(Caller::local());
    let Status::Pending(pending) = world.runtime.call(call()).await.status else { panic!("it asks") };
    // Somebody changes the draft on the server, under the same key.
    {
        let mut folders = server.folders.lock().unwrap();
        let kept = &mut folders.get_mut("Drafts").unwrap()[0];
        let text = String::from_utf8(kept.bytes.to_vec()).unwrap().replace("first", "wire the money to Eve");
        kept.bytes = text.into_bytes().into();
    }
    let decider = helve::approvals::Decider::vouched("ada", helve::approvals::Vouch::LocalUser);
    world
        .runtime
        .approvals()
        .decide(pending.approval_id, helve::approvals::Decision::approve(), &decider)
        .await
        .unwrap();
    let outcome = world.runtime.outcome_of(pending.approval_id, &Caller::local()).await.unwrap();
    assert_eq!(outcome.error().unwrap().code().as_str(), "approval_stale");
    assert_eq!(server.handed(), 0);
}

#[tokio::test]
async fn mail_goes_only_to_domains_that_an_operator_allows() {
    let world = World::with(OfficeSettings {
        zone: TimeZone::UTC,
        recipient_domains: vec!["Example.org".to_owned()],
    });
    let server = world.connect("work", None).await;
    let (name, message) = world.fails("send_email", letter()).await;
    assert_eq!(name, "RECIPIENT_NOT_ALLOWED");
    assert!(message.contains("eve@example.com"), "{message}");
    for evil in ["a@sub.example.org", "a@example.org.evil.test", "a@xexample.org"] {
        assert_eq!(
            world.fails("send_email", json!({ "to": [evil], "subject": "s", "body": "b" })).await.0,
            "RECIPIENT_NOT_ALLOWED"
        );
    }
    let (_, outcome) = world.send(json!({ "to": ["ada@EXAMPLE.org"], "subject": "s", "body": "b" })).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(server.handed(), 1);
}

#[tokio::test]
async fn limits_and_missing_parts_are_told_before_anybody_is_asked() {
    let (world, server) = World::connected().await;
    for (field, value) in [
        ("to", json!([])),
        ("to", json!(["nonsense"])),
        ("subject", json!("")),
        ("subject", json!("é".repeat(999))),
        ("body", json!("")),
        ("body", json!("x".repeat(100_001))),
        ("account", json!("theirs")),
        ("from", json!("boss@example.org")),
    ] {
        let mut arguments = json!({ "to": ["ada@example.org"], "subject": "s", "body": "b" });
        arguments[field] = value;
        let outcome = world.call("send_email", arguments.clone()).await;
        assert!(matches!(outcome.status, Status::Failed(_)), "{field}: {outcome:?}");
    }
    assert_eq!(server.handed(), 0);
    let (_, outcome) =
        world.send(json!({ "to": "test@example.com", "subject": "Test", "body": "Hello" })).await;
    assert!(outcome.is_success(), "the seed's own call: {outcome:?}");
    let longest =
        json!({ "to": ["ada@example.org"], "subject": "é".repeat(998), "body": "x".repeat(100_000) });
    assert!(world.send(longest).await.1.is_success());
}

#[tokio::test]
async fn a_reply_threads_and_goes_to_its_sender() {
    let (world, server) = World::connected().await;
    server.put("INBOX", &mail(5, "question", "Ann <ann@example.org>", "when?"));
    helve_office::sync::sync_mails(world.office.db(), &world.account("work"), &|_| {}).await.unwrap();
    let id = world.found(json!({ "query": "question" })).await.remove(0);
    let (preview, outcome) = world.send(json!({ "reply_to": id, "body": "At noon." })).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(preview.contains("To: Ann <ann@example.org>\nSubject: Re: question\n"), "{preview}");
    let text = String::from_utf8(server.handed.lock().unwrap()[0].1.to_vec()).unwrap();
    assert!(text.contains("In-Reply-To: <5@example.net>"), "{text}");
    let thread = world.ok("read_email", json!({ "id": id, "thread": true })).await;
    assert_eq!(texts(&thread["emails"], "folder"), ["INBOX", "Sent Items"]);
}

#[tokio::test]
async fn a_sent_mail_cannot_be_undone() {
    let (world, _server) = World::connected().await;
    let (_, outcome) = world.send(letter()).await;
    let undone = world.runtime.undo_run(outcome.call_id, Caller::local()).await;
    let said = match &undone {
        Ok(outcome) => outcome.error().map(|error| error.message().to_owned()).unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    assert!(said.contains("undo"), "{said}");
}

#[tokio::test]
async fn what_a_store_finds_is_what_the_embedded_one_has() {
    let world = World::new();
    world.put("Inbox", &mail(1, "one", "Ann <ann@example.org>", "x")).await;
    let id = helve_office::text::MessageId::new("<1@example.net>").unwrap();
    assert_eq!(world.local.find("Inbox", &id).await.unwrap().len(), 1);
    assert!(world.local.find("Sent", &id).await.unwrap().is_empty());
    let page = world.local.changes("Inbox", None).await.unwrap();
    assert!(page.reset && !page.more && page.new.len() == 1);
    assert!(world.local.fetch("Inbox", &page.new[0].key, 10).await.is_err());
    world.local.remove("Inbox", &page.new[0].key).await.unwrap();
    world.local.remove("Inbox", &page.new[0].key).await.unwrap();
    assert!(world.local.changes("Nowhere", None).await.is_err());
    assert!(world.found(json!({ "query": "one" })).await.is_empty());
}
