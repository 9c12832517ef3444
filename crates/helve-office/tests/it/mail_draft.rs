//! Drafts: new, replies, forwards, replaced, deleted, undone, and asked about after a call was cut short.

use std::time::{Duration, Instant};

use helve::run::Recalled;
use helve::{CallId, Caller, Context, Tool};
use helve_office::mail::Mail;
use helve_office::tools::office_tools;
use serde_json::{Value, json};

use crate::mail_world::{World, ids, mail, texts};

pub(crate) fn tool(world: &World, name: &str) -> Tool {
    office_tools(&world.office).into_iter().find(|tool| tool.name().as_str() == name).unwrap()
}

pub(crate) fn context(tool: &Tool) -> Context {
    let deadline = Instant::now() + Duration::from_secs(30);
    Context::new(CallId::new(jiff::Timestamp::now()), tool.name().clone(), Caller::local(), deadline)
}

async fn drafts(world: &World) -> Vec<String> {
    texts(&world.ok("list_drafts", json!({})).await["drafts"], "subject")
}

#[tokio::test]
async fn a_new_draft_is_in_drafts_with_everything_it_was_given() {
    let world = World::new();
    let made = world
        .ok(
            "draft_email",
            json!({
                "to": ["Ada Lovelace <ada@example.org>", "bob@example.org"], "cc": ["cy@example.org"],
                "bcc": ["eve@example.org"], "subject": "Lunch? 昼食", "body": "Friday?\n", "html": "<p>Friday?</p>"
            }),
        )
        .await;
    assert_eq!(made["bcc"], json!(["eve@example.org"]));
    let listed = world.ok("list_drafts", json!({})).await;
    assert_eq!(listed["drafts"][0]["id"], made["id"]);
    assert_eq!(listed["drafts"][0]["version"], made["version"]);
    let read = world.ok("read_email", json!({ "id": made["id"] })).await;
    let read = &read["emails"][0];
    assert_eq!(read["subject"], "Lunch? 昼食");
    assert_eq!(read["from"][0]["address"], "me@example.org");
    assert_eq!(read["bcc"][0]["address"], "eve@example.org");
    assert_eq!(read["body"].as_str().unwrap().trim(), "Friday?");
    assert_eq!(read["folder"], "Drafts");
}

#[tokio::test]
async fn what_hides_in_a_quoted_mail_is_not_told_to_a_model() {
    let world = World::new();
    world.put("Inbox", &mail(1, "plan", "Ann <ann@example.org>", "a\u{202e}b\u{e0041}\u{200b}c")).await;
    let id = world.found(json!({ "query": "plan" })).await.remove(0);
    for draft in [json!({ "reply_to": id, "body": "Yes." }), json!({ "forward": id, "body": "Yes." })] {
        let answer = world.ok("draft_email", draft).await;
        assert!(answer["body"].as_str().unwrap().contains("abc\n"), "{answer}");
    }
}

#[tokio::test]
async fn replies_and_forwards_thread_and_quote() {
    let world = World::new();
    let original = mail(1, "plan", "Ann <ann@example.org>", "first line\nsecond line")
        .replace("MIME-Version", "Cc: Cy <cy@example.org>\nReferences: <0@example.net>\nMIME-Version");
    world.put("Inbox", &original).await;
    let id = world.found(json!({ "query": "plan" })).await.remove(0);
    let reply = world.ok("draft_email", json!({ "reply_to": id, "body": "Yes.\n" })).await;
    assert_eq!((&reply["to"], &reply["subject"]), (&json!(["Ann <ann@example.org>"]), &json!("Re: plan")));
    assert!(reply["body"].as_str().unwrap().starts_with("Yes.\n\nOn 2026-11-02"));
    assert!(reply["body"].as_str().unwrap().contains("> first line\n> second line"));
    let all = world.ok("draft_email", json!({ "reply_to": id, "reply_all": true, "body": "Yes.\n" })).await;
    assert_eq!(all["cc"], json!(["Cy <cy@example.org>"]));
    let forward =
        world.ok("draft_email", json!({ "forward": id, "to": ["bob@example.org"], "body": "See." })).await;
    assert_eq!(forward["subject"], "Fwd: plan");
    assert!(forward["body"].as_str().unwrap().contains("Forwarded message"));
    let row =
        world.office.db().mail_by_message_id("local", reply["message_id"].as_str().unwrap()).await.unwrap();
    let row = row.unwrap();
    let bytes = world.office.db().raw_mail(row.collection, &row.key).await.unwrap().unwrap();
    let read = Mail::read(&bytes).unwrap();
    assert_eq!(read.in_reply_to[0].as_str(), "<1@example.net>");
    assert_eq!(
        read.references.iter().map(|id| id.as_str()).collect::<Vec<_>>(),
        ["<0@example.net>", "<1@example.net>"]
    );
    let thread = world.ok("read_email", json!({ "id": id, "thread": true })).await;
    assert_eq!(thread["emails"].as_array().unwrap().len(), 3, "the forward begins a thread of its own");
}

#[tokio::test]
async fn a_draft_is_replaced_in_part_or_deleted_by_id_and_version() {
    let world = World::new();
    let first = world
        .ok("draft_email", json!({ "to": ["ada@example.org"], "bcc": ["eve@example.org"], "subject": "one", "body": "long" }))
        .await;
    let stale = json!({ "draft": first["id"], "version": "v-0000000000000000", "body": "x" });
    assert_eq!(world.fails("draft_email", stale).await.0, "CONFLICT");
    let second = world
        .ok("draft_email", json!({ "draft": first["id"], "version": first["version"], "body": "short" }))
        .await;
    assert_eq!(second["replaced"], first["id"]);
    assert_eq!(
        (&second["to"], &second["bcc"], &second["subject"]),
        (&json!(["ada@example.org"]), &json!(["eve@example.org"]), &json!("one"))
    );
    assert_eq!(drafts(&world).await, ["one"]);
    assert_eq!(world.fails("draft_email", json!({ "draft": first["id"], "body": "x" })).await.0, "NOT_FOUND");
    let gone = world.ok("draft_email", json!({ "draft": second["id"], "delete": true })).await;
    assert_eq!(gone["replaced"], second["id"]);
    assert!(drafts(&world).await.is_empty());
    world.put("Inbox", &mail(1, "no draft", "Ann <ann@example.org>", "x")).await;
    let id = world.found(json!({ "query": "draft" })).await.remove(0);
    let (_, message) = world.fails("draft_email", json!({ "draft": id, "delete": true })).await;
    assert!(message.contains("no draft"), "{message}");
    assert_eq!(world.fails("draft_email", json!({ "delete": true })).await.0, "validation_failed");
}

#[tokio::test]
async fn every_field_refuses_what_would_be_another_header() {
    let world = World::new();
    let base = || json!({ "to": ["ada@example.org"], "subject": "hi", "body": "text" });
    for hostile in ["a\r\nBcc: eve@example.org", "a\nb", "a\u{0}b", "a\u{202e}b", "a\u{2028}b", "a\u{200b}b"]
    {
        for field in ["subject", "to", "cc", "bcc"] {
            let mut arguments = base();
            arguments[field] = match field {
                "subject" => json!(hostile),
                _ => json!([format!("{hostile} <ada@example.org>")]),
            };
            let (name, message) = world.fails("draft_email", arguments.clone()).await;
            assert_eq!(name, "validation_failed", "{arguments}: {message}");
            let mut send = arguments.clone();
            send["body"] = json!("x");
            assert_eq!(world.fails("send_email", send).await.0, "validation_failed", "{arguments}");
        }
    }
    let mut arguments = base();
    arguments["body"] = json!("a\u{0}b");
    assert_eq!(world.fails("draft_email", arguments).await.0, "validation_failed");
    for (field, value) in [
        ("subject", json!("")),
        ("subject", json!("x".repeat(999))),
        ("body", json!("x".repeat(100_001))),
        ("html", json!("x".repeat(100_001))),
        ("to", json!(vec!["a@example.org"; 51])),
        ("to", json!(["not an address"])),
        ("attachments", json!(["nonsense"])),
        ("attachments", json!(["m-1-00000000/x"])),
        ("reply_to", json!("nonsense")),
        ("forward", json!("nonsense")),
        ("draft", json!("nonsense")),
        ("version", json!("v-1")),
        ("reply_all", json!(true)),
        ("from", json!("eve@example.org")),
    ] {
        let mut arguments = base();
        arguments[field] = value;
        let (name, message) = world.fails("draft_email", arguments).await;
        assert_eq!(name, "validation_failed", "{field}: {message}");
    }
    let many: Vec<String> = (0..26).map(|number| format!("a{number}@example.org")).collect();
    let mut arguments = base();
    arguments["to"] = json!(many);
    arguments["cc"] = json!(many.iter().map(|address| format!("b{address}")).collect::<Vec<_>>());
    let (_, message) = world.fails("draft_email", arguments).await;
    assert!(message.contains("52 addresses"), "{message}");
    assert!(drafts(&world).await.is_empty());
}

#[tokio::test]
async fn a_draft_is_undone_and_a_replaced_one_comes_back() {
    let (world, server) = World::connected().await;
    let made = world
        .call("draft_email", json!({ "to": ["ada@example.org"], "subject": "one", "body": "first" }))
        .await;
    assert!(made.is_success(), "{made:?}");
    let (call, first) = (made.call_id, made.into_result().unwrap());
    assert_eq!(server.in_folder("Drafts").len(), 1);
    let replaced = world.call("draft_email", json!({ "draft": first["id"], "body": "second" })).await;
    let second = replaced.call_id;
    assert!(replaced.is_success(), "{replaced:?}");
    assert_eq!(server.in_folder("Drafts").len(), 1);
    let undone = world.runtime.undo_run(second, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    let left = server.in_folder("Drafts");
    assert_eq!(left.len(), 1);
    assert!(String::from_utf8_lossy(&left[0]).contains("first"));
    let undone = world.runtime.undo_run(call, Caller::local()).await.unwrap();
    assert!(undone.is_success(), "{undone:?}");
    assert!(server.in_folder("Drafts").is_empty());
}

#[tokio::test]
async fn a_deleted_draft_comes_back_when_undone() {
    let world = World::new();
    let made = world
        .ok("draft_email", json!({ "to": ["ada@example.org"], "subject": "one", "body": "first" }))
        .await;
    let deleted = world.call("draft_email", json!({ "draft": made["id"], "delete": true })).await;
    assert!(world.runtime.undo_run(deleted.call_id, Caller::local()).await.unwrap().is_success());
    assert_eq!(drafts(&world).await, ["one"]);
}

#[tokio::test]
async fn a_draft_that_was_cut_short_is_found_by_its_message_id() {
    let (world, server) = World::connected().await;
    let tool = tool(&world, "draft_email");
    let context = context(&tool);
    let recall = async || tool.recall_handler().unwrap().recall(json!({}), context.clone()).await.unwrap();
    assert_eq!(recall().await, Recalled::WillNotHappen);
    let arguments = json!({ "to": ["ada@example.org"], "subject": "one", "body": "first" });
    *server.appends.lock().unwrap() = false;
    assert!(tool.handler().call(arguments.clone(), context.clone()).await.is_err());
    assert_eq!(recall().await, Recalled::DidNotHappen);
    *server.appends.lock().unwrap() = true;
    let answer = tool.handler().call(arguments, context.clone()).await.unwrap();
    assert_eq!(recall().await, Recalled::Happened(answer));
    assert_eq!(server.in_folder("Drafts").len(), 1);
}

#[tokio::test]
async fn files_of_other_mails_go_along_by_their_handles() {
    let world = World::new();
    let with_file = "From: Ann <ann@example.org>\nTo: me@example.org\nSubject: report\nMessage-ID: <f@example.net>\n\
        Date: Mon, 2 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n\
        --b\nContent-Type: text/plain\n\nsee file\n--b\nContent-Type: application/pdf; name=\"../q3.pdf\"\n\
        Content-Disposition: attachment; filename=\"../q3.pdf\"\nContent-Transfer-Encoding: base64\n\nJVBERi0xLjQ=\n--b--\n";
    world.put("Inbox", with_file).await;
    let found = world.ok("search_emails", json!({ "has_attachment": true })).await;
    let id = ids(&found).remove(0);
    let read = world.ok("read_email", json!({ "id": id })).await;
    let file = &read["emails"][0]["attachments"][0];
    assert_eq!((&file["name"], &file["bytes"]), (&json!("q3.pdf"), &json!(8)));
    let sent = json!({ "to": ["bob@example.org"], "subject": "the report", "body": "here", "attachments": [file["handle"]] });
    let made = world.ok("draft_email", sent).await;
    assert_eq!(made["attachments"], 1);
    let draft = world.ok("read_email", json!({ "id": made["id"] })).await;
    assert_eq!(draft["emails"][0]["attachments"][0]["media_type"], "application/pdf");
    let forward = world.ok("draft_email", json!({ "forward": id, "to": ["bob@example.org"] })).await;
    assert_eq!(forward["attachments"], 1);
    let missing = json!({ "to": ["bob@example.org"], "subject": "x", "body": "y", "attachments": [format!("{id}/99")] });
    assert_eq!(world.fails("draft_email", missing).await.0, "validation_failed");
    let (preview, outcome) = world.send(json!({ "draft": made["id"] })).await;
    assert!(outcome.is_success(), "{outcome:?}");
    let hash = helve::json::sha256_hex(b"%PDF-1.4");
    assert!(
        preview.contains(&format!("Attachment: q3.pdf (application/pdf, 8 bytes, SHA-256 {hash})")),
        "{preview}"
    );
}

#[tokio::test]
async fn every_example_fits_and_runs() {
    let world = World::new();
    world.put("Inbox", &mail(1, "budget contract", "Sarah <sarah@acme.example>", "会議")).await;
    let mut count = 0;
    for tool in office_tools(&world.office) {
        let name = tool.name().to_string();
        if !["search_emails", "read_email", "list_drafts", "draft_email", "send_email"]
            .contains(&name.as_str())
        {
            continue;
        }
        assert!(tool.definition().examples.len() >= 4, "{name}");
        assert!(tool.definition().when_to_use.is_some(), "{name}");
        for example in &tool.definition().examples {
            let helve::Example::Arguments { arguments, .. } = example else { panic!("{name}") };
            let mail_id = world.found(json!({ "query": "budget" })).await.remove(0);
            let draft = world
                .ok("draft_email", json!({ "to": ["ada@example.org"], "subject": "s", "body": "b" }))
                .await;
            let arguments = filled(arguments, &mail_id, &draft);
            if arguments.to_string().contains("attachments") {
                continue;
            }
            let (_, outcome) =
                world.approved(helve::Call::new(name.clone(), arguments.clone()).by(Caller::local())).await;
            assert!(outcome.is_success(), "{name} {arguments}: {outcome:?}");
            count += 1;
        }
    }
    assert!(count >= 20, "{count}");
}

/// An example with ids that are there.
fn filled(arguments: &Value, mail: &str, draft: &Value) -> Value {
    let text = arguments.to_string();
    let text = text.replace("m-12-1f0c9a3b", mail).replace("m-31-9c2e77d0", draft["id"].as_str().unwrap());
    let text = text.replace("v-9c2e77d01b5a4f60", draft["version"].as_str().unwrap());
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn a_draft_stays_in_its_account() {
    let (world, server) = World::connected().await;
    let other = world.connect("other", None).await;
    let new = json!({ "to": ["ada@example.org"], "subject": "one", "body": "first", "account": "work" });
    let made = world.ok("draft_email", new).await;
    for change in [json!({ "body": "second" }), json!({ "delete": true })] {
        let mut input = json!({ "draft": made["id"], "account": "other" });
        input.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (_, message) = world.fails("draft_email", input).await;
        assert!(message.contains("the account `work`"), "{message}");
    }
    assert_eq!((server.in_folder("Drafts").len(), other.in_folder("Drafts").len()), (1, 0));
}

#[tokio::test]
async fn text_and_html_of_a_changed_draft_say_the_same() {
    let world = World::new();
    world.put("Inbox", &mail(1, "plan", "Ann <ann@example.org>", "first line")).await;
    let id = world.found(json!({ "query": "plan" })).await.remove(0);
    let draft = world
        .ok("draft_email", json!({ "subject": "s", "body": "old words", "html": "<p>old words</p>" }))
        .await;
    let (_, message) =
        world.fails("draft_email", json!({ "draft": draft["id"], "html": "<p>other</p>" })).await;
    assert!(message.contains("`body`"), "{message}");
    let input = json!({ "draft": draft["id"], "reply_to": id, "body": "new words" });
    let reply = world.ok("draft_email", input).await;
    let row = world.office.db().mail_by_message_id("local", reply["message_id"].as_str().unwrap()).await;
    let row = row.unwrap().unwrap();
    let bytes = world.office.db().raw_mail(row.collection, &row.key).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("new words") && !text.contains("old words"), "{text}");
}

/// A draft as another program writes it.
const OTHERS: &str = "From: Me <me@example.org>\nTo: ada@example.org\nCc: bob@example.org\nReply-To: Desk <desk@example.org>\n\
    X-Priority: 1 (Highest)\nImportance: high\nX-Unsent: 1\nSubject: logo\nMessage-ID: <d@example.org>\n\
    Date: Mon, 2 Nov 2026 10:00:00 +0000\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary=r\n\n\
    --r\nContent-Type: multipart/alternative; boundary=a\n\n--a\nContent-Type: text/plain\n\nsee logo\n\
    --a\nContent-Type: text/html\n\n<p>see logo</p><img src=\"cid:logo@x\">\n--a--\n\
    --r\nContent-Type: image/png; name=logo.png\nContent-ID: <logo@x>\nContent-Disposition: inline\n\
    Content-Transfer-Encoding: base64\n\nAQID\n--r--\n";

async fn stored(world: &World, draft: &Value) -> String {
    let id = draft["message_id"].as_str().unwrap();
    let row = world.office.db().mail_by_message_id("local", id).await.unwrap().unwrap();
    let bytes = world.office.db().raw_mail(row.collection, &row.key).await.unwrap().unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_changed_draft_keeps_what_other_programs_wrote() {
    let world = World::new();
    world.put("Drafts", OTHERS).await;
    let listed = world.ok("list_drafts", json!({})).await;
    let id = &listed["drafts"][0]["id"];
    let changed = world.ok("draft_email", json!({ "draft": id, "subject": "the logo" })).await;
    let text = stored(&world, &changed).await;
    for line in [
        "Reply-To: Desk <desk@example.org>\r\n",
        "X-Priority: 1 (Highest)\r\n",
        "Importance: high\r\n",
        "Content-ID: <logo@x>\r\n",
        "multipart/related",
        "cid:logo@x",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let (preview, outcome) = world.send(json!({ "draft": changed["id"] })).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(preview.contains("Reply-To: Desk <desk@example.org>\n"), "{preview}");
    assert!(preview.contains("X-Priority: 1 (Highest)\n"), "{preview}");
}

#[tokio::test]
async fn an_empty_list_takes_away_and_an_absent_one_keeps() {
    let world = World::new();
    world.put("Drafts", OTHERS).await;
    let id = world.ok("list_drafts", json!({})).await["drafts"][0]["id"].clone();
    let fewer = json!({ "draft": id, "cc": [], "attachments": [], "body": "no logo" });
    let changed = world.ok("draft_email", fewer).await;
    assert_eq!((&changed["to"], changed.get("cc")), (&json!(["ada@example.org"]), None));
    assert_eq!(changed["attachments"], 0);
    let nobody = world.ok("draft_email", json!({ "draft": changed["id"], "to": [] })).await;
    assert_eq!(nobody["to"], json!([]));
}

#[tokio::test]
async fn what_is_quoted_counts_and_the_error_says_how_much_is_too_much() {
    let world = World::new();
    world.put("Inbox", &mail(1, "plan", "Ann <ann@example.org>", &"0123456789\n".repeat(1_000))).await;
    let id = world.found(json!({ "query": "plan" })).await.remove(0);
    let (_, message) =
        world.fails("draft_email", json!({ "reply_to": id, "body": "x".repeat(99_000) })).await;
    assert!(message.contains("body has 99000 characters, and 1"), "{message}");
    assert!(message.contains("quoted below it; the limit is 100000"), "{message}");
}

#[tokio::test]
async fn a_name_alone_is_answered_with_how_to_find_the_address() {
    let world = World::new();
    let wrong = json!({ "to": ["Sarah"], "subject": "s", "body": "b" });
    let error = world.call("draft_email", wrong).await.into_result().unwrap_err();
    assert!(error.message().contains("to[0] is no mail address"), "{error}");
    assert!(error.suggestions().iter().any(|text| text.contains("`query_context`")), "{error:?}");
}
