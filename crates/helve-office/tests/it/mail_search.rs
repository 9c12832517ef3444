//! Mails found and read: words of every script, people, dates, pages, threads, and what hostile input does.

use helve::{Call, Caller};
use serde_json::{Value, json};

use crate::mail_world::{World, ids, mail, texts};

#[tokio::test]
async fn words_of_every_script_are_found_and_parts_of_words_without_spaces() {
    let world = World::new();
    world
        .put(
            "Inbox",
            &mail(1, "来週の会議について", "田中 <tanaka@example.jp>", "東京都の会議室を予約しました。"),
        )
        .await;
    world.put("Inbox", &mail(2, "اجتماع الميزانية", "سارة <sara@example.sa>", "مَرحبًا، الاجتماع غدًا")).await;
    world
        .put("Inbox", &mail(3, "Über den Straßenbau", "Jörg <joerg@example.de>", "Der Café-Besuch kostet 5€"))
        .await;
    world.put("Inbox", &mail(4, "회의 일정", "김 <kim@example.kr>", "회의를 연기합니다")).await;
    for (query, number) in [
        ("会議", 1),
        ("京都", 1),
        ("予約", 1),
        ("田中", 1),
        ("اجتماع", 2),
        ("مرحبا", 2),
        ("uber", 3),
        ("cafe", 3),
        ("jorg", 3),
        ("회의", 4),
        ("연기", 4),
    ] {
        let found = world.ok("search_emails", json!({ "query": query })).await;
        let read = world.ok("read_email", json!({ "id": ids(&found)[0] })).await;
        assert_eq!(read["emails"][0]["message_id"], format!("<{number}@example.net>"), "{query}");
        assert_eq!(ids(&found).len(), 1, "{query}");
    }
    assert!(world.found(json!({ "query": "東北" })).await.is_empty());
    let read =
        world.ok("read_email", json!({ "id": world.found(json!({ "query": "会議" })).await[0] })).await;
    assert_eq!(read["emails"][0]["body"].as_str().unwrap().trim(), "東京都の会議室を予約しました。");
}

#[tokio::test]
async fn words_have_no_meaning_beyond_their_letters() {
    let world = World::new();
    world
        .put("Inbox", &mail(1, "c++ and budget-2026", "Ann <ann@example.org>", "NOT a NEAR thing \"OR\" AND"))
        .await;
    world.put("Inbox", &mail(2, "other", "Bob <bob@example.org>", "nothing")).await;
    for query in [
        "c++",
        "budget-2026",
        "ann@example.org",
        "NEAR",
        "\"a near thing\"",
        "OR",
        "AND NOT",
        "subject:budget",
        "bud*",
        "2026 budget",
    ] {
        let found = world.found(json!({ "query": query })).await;
        assert!(found.len() <= 1, "{query}");
        assert_eq!(found.len(), usize::from(query != "subject:budget" && query != "bud*"), "{query}");
    }
    for query in ["+++", "\"\"", "-", "a\u{0}b", "a\r\nb", "a\u{202e}b"] {
        let (name, message) = world.fails("search_emails", json!({ "query": query })).await;
        assert_eq!(name, "validation_failed", "{query:?}: {message}");
    }
}

#[tokio::test]
async fn people_dates_and_marks_narrow_a_search() {
    let world = World::new();
    for number in 0..4 {
        let from =
            if number % 2 == 0 { "Sarah Connor <sarah@acme.example>" } else { "Bob <bob@example.org>" };
        world.put("Inbox", &mail(number, &format!("report {number}"), from, "quarterly numbers")).await;
    }
    world
        .put(
            "Archive",
            &mail(9, "old report", "Sarah Connor <sarah@acme.example>", "x").replace("2 Nov", "2 Oct"),
        )
        .await;
    let count = async |arguments: Value| world.found(arguments).await.len();
    assert_eq!(count(json!({ "from": "sarah" })).await, 3);
    assert_eq!(count(json!({ "from": "sarah@acme.example", "query": "report" })).await, 3);
    assert_eq!(count(json!({ "from": "connor", "subject": "old" })).await, 1);
    assert_eq!(count(json!({ "to": "me@example.org" })).await, 5);
    assert_eq!(count(json!({ "subject": "quarterly" })).await, 0);
    assert_eq!(count(json!({ "after": "2026-11-01" })).await, 4);
    assert_eq!(count(json!({ "before": "2026-11-01" })).await, 1);
    assert_eq!(count(json!({ "after": "2026-11-02T10:00:01Z", "before": "2026-11-02T10:00:03Z" })).await, 2);
    assert_eq!(count(json!({ "folder": "archive" })).await, 1);
    assert_eq!(count(json!({ "folder": "Inbox", "unread": true })).await, 4);
    assert_eq!(count(json!({ "unread": false })).await, 0);
    assert_eq!(count(json!({ "has_attachment": true })).await, 0);
    assert_eq!(count(json!({ "has_attachment": false, "account": "local" })).await, 5);
    assert_eq!(world.subjects(json!({ "from": "sarah" })).await, ["report 2", "report 0", "old report"]);
    for (arguments, wrong) in [
        (json!({ "after": "yesterday" }), "after is no date"),
        (json!({ "before": "2026-13-40" }), "before is no date"),
        (json!({ "folder": "Nowhere" }), "no folder is called so"),
        (json!({ "folder": "In*" }), "pattern"),
        (json!({ "cursor": "c-1-zzz" }), "not of this search"),
        (json!({ "account": "theirs" }), "no mail account is connected under that name"),
    ] {
        let (_, message) = world.fails("search_emails", arguments.clone()).await;
        assert!(message.contains(wrong), "{arguments}: {message}");
    }
}

#[tokio::test]
async fn limits_of_parameters_are_in_the_schema() {
    let world = World::new();
    for arguments in [
        json!({ "query": "" }),
        json!({ "query": "x".repeat(501) }),
        json!({ "limit": 0 }),
        json!({ "limit": 101 }),
        json!({ "from": "x".repeat(301) }),
        json!({ "cursor": "x".repeat(101) }),
        json!({ "nonsense": 1 }),
    ] {
        let (name, _) = world.fails("search_emails", arguments.clone()).await;
        assert_eq!(name, "validation_failed", "{arguments}");
    }
    for arguments in [
        json!({}),
        json!({ "id": "m-1-00000000", "max_bytes": 399 }),
        json!({ "id": "m-1-00000000", "max_bytes": 60_001 }),
    ] {
        assert_eq!(world.fails("read_email", arguments).await.0, "validation_failed");
    }
}

#[tokio::test]
async fn a_walk_over_a_hundred_pages_sees_every_mail_once() {
    let world = World::new();
    for number in 0..300 {
        world.put("Inbox", &mail(number, &format!("number {number}"), "Ann <ann@example.org>", "walk")).await;
    }
    let mut seen: Vec<String> = Vec::new();
    let mut arguments = json!({ "query": "walk", "limit": 3 });
    let mut pages = 0;
    loop {
        let answer = world.ok("search_emails", arguments.clone()).await;
        seen.extend(texts(&answer["emails"], "subject"));
        pages += 1;
        let Some(next) = answer["next_cursor"].as_str() else { break };
        arguments["cursor"] = json!(next);
    }
    assert_eq!(pages, 100);
    let expected: Vec<String> = (0..300).rev().map(|number| format!("number {number}")).collect();
    assert_eq!(seen, expected);
    arguments["query"] = json!("number");
    let (_, message) = world.fails("search_emails", arguments).await;
    assert!(message.contains("not of this search"), "{message}");
}

fn in_reply_to(message: &str, ids: &str) -> String {
    message.replacen("MIME-Version", &format!("References: {ids}\nMIME-Version"), 1)
}

#[tokio::test]
async fn conversations_are_found_whatever_order_their_mails_come_in() {
    let world = World::new();
    // The answer comes first, then what it answers, then one between them.
    world
        .put(
            "Inbox",
            &in_reply_to(
                &mail(3, "Re: plan", "Cy <cy@example.org>", "third"),
                "<1@example.net> <2@example.net>",
            ),
        )
        .await;
    world.put("Inbox", &mail(1, "plan", "Ann <ann@example.org>", "first")).await;
    world
        .put("Sent", &in_reply_to(&mail(2, "Re: plan", "Me <me@example.org>", "second"), "<1@example.net>"))
        .await;
    world.put("Inbox", &mail(4, "plan", "Eve <eve@example.org>", "another plan")).await;
    let found = world.ok("search_emails", json!({ "query": "plan" })).await;
    let threads = texts(&found["emails"], "thread");
    assert_eq!(threads.len(), 4);
    assert_eq!(threads.iter().filter(|thread| **thread == threads[3]).count(), 3, "{threads:?}");
    let grouped = world.ok("search_emails", json!({ "query": "plan", "group_by_thread": true })).await;
    assert_eq!(texts(&grouped["emails"], "preview"), ["another plan", "third"]);
    let one =
        world.ok("search_emails", json!({ "query": "plan", "group_by_thread": true, "limit": 1 })).await;
    let rest = json!({ "query": "plan", "group_by_thread": true, "limit": 1, "cursor": one["next_cursor"] });
    assert_eq!(texts(&world.ok("search_emails", rest).await["emails"], "preview"), ["third"]);
    let id = &ids(&grouped)[1];
    let thread = world.ok("read_email", json!({ "id": id, "thread": true })).await;
    let bodies: Vec<_> = texts(&thread["emails"], "body").iter().map(|body| body.trim().to_owned()).collect();
    assert_eq!(bodies, ["first", "second", "third"]);
}

#[tokio::test]
async fn a_conversation_that_a_page_has_shown_does_not_come_again() {
    let world = World::new();
    world.put("Inbox", &mail(1, "plan", "Ann <ann@example.org>", "old")).await;
    world.put("Inbox", &mail(2, "another plan", "Eve <eve@example.org>", "other")).await;
    world
        .put("Inbox", &in_reply_to(&mail(3, "Re: plan", "Cy <cy@example.org>", "new"), "<1@example.net>"))
        .await;
    for limit in [1, 2] {
        let mut asked = json!({ "query": "plan", "group_by_thread": true, "limit": limit });
        let mut found = Vec::new();
        loop {
            let page = world.ok("search_emails", asked.clone()).await;
            found.extend(texts(&page["emails"], "preview"));
            asked["cursor"] = page["next_cursor"].clone();
            if asked["cursor"].is_null() {
                break;
            }
        }
        assert_eq!(found, ["new", "other"], "{limit} a page");
    }
}

#[tokio::test]
async fn the_newest_mail_of_an_address_is_what_that_address_wrote() {
    let world = World::new();
    world.put("Inbox", &mail(1, "first", "Ann <ANN@example.org>", "x")).await;
    world.put("Inbox", &mail(2, "second", "Ann <Ann@Example.org>", "x")).await;
    world.put("Inbox", &mail(3, "about", "\"ann@example.org\" <eve@example.org>", "ann@example.org")).await;
    world.put("Archive", &mail(4, "away", "Ann <ann@example.org>", "x")).await;
    let db = world.office.db();
    let rows = db.collections(Some("local")).await.unwrap();
    let inbox = rows.iter().find(|row| row.told.name == "Inbox").unwrap().id;
    let newest = async |folders: Vec<i64>, address: &str| {
        db.newest_mail_from(folders, address).await.unwrap().map(|mail| mail.subject)
    };
    assert_eq!(newest(vec![inbox], "ann@example.org").await.as_deref(), Some("second"));
    let all = rows.iter().map(|row| row.id).collect();
    assert_eq!(newest(all, "ann@example.org").await.as_deref(), Some("away"));
    assert_eq!(newest(vec![inbox], "me@example.org").await, None, "whom it went to did not write it");
}

#[tokio::test]
async fn a_reply_without_ids_threads_only_where_its_people_fit() {
    let world = World::new();
    let to_ann = |number, subject: &str, from: &str| {
        mail(number, subject, from, "x").replace("To: Me <me@example.org>", "To: ann@example.org")
    };
    world.put("Inbox", &to_ann(1, "trip", "Bob <bob@example.org>")).await;
    world.put("Inbox", &mail(2, "Re: Trip", "Ann <ann@example.org>", "x")).await;
    world.put("Inbox", &mail(3, "Re: trip", "Stranger <s@example.com>", "x")).await;
    world.put("Inbox", &mail(4, "trip", "Ann <ann@example.org>", "x")).await;
    let found = world.ok("search_emails", json!({ "query": "trip" })).await;
    let threads = texts(&found["emails"], "thread");
    assert_eq!(threads[3], threads[2]);
    assert_ne!(threads[3], threads[1]);
    assert_ne!(threads[3], threads[0]);
}

#[tokio::test]
async fn a_long_body_is_read_page_by_page_and_nothing_is_lost() {
    let world = World::new();
    let body: String = (0..3_000).map(|number| format!("line {number} of a long mail\n")).collect();
    world.put("Inbox", &mail(1, "long", "Ann <ann@example.org>", &body)).await;
    let id = world.found(json!({ "query": "long" })).await.remove(0);
    let (mut read, mut offset) = (String::new(), Some(0));
    while let Some(from) = offset {
        let answer = world.ok("read_email", json!({ "id": id, "offset": from, "max_bytes": 7_000 })).await;
        let text = answer["emails"][0]["body"].as_str().unwrap();
        assert!(text.len() <= 7_000);
        read.push_str(text);
        offset = answer["emails"][0]["next_offset"].as_u64();
    }
    assert_eq!(read.trim(), body.trim());
}

#[tokio::test]
async fn what_acts_on_its_reader_is_taken_out_and_html_becomes_text() {
    let world = World::new();
    let hostile = mail(
        1,
        "In\u{202e}voice\u{200b}",
        "E\u{202e}ve <eve@example.com>",
        "a\u{202e}b\u{0}c\u{e0041}\nnext",
    );
    world.put("Inbox", &hostile).await;
    let html = mail(
        2,
        "page",
        "Ann <ann@example.org>",
        "<p>Hello <b>you</b></p><script>alert(1)</script><p>bye</p>",
    )
    .replace("text/plain", "text/html");
    world.put("Inbox", &html).await;
    let found = world.ok("search_emails", json!({ "from": "eve@example.com" })).await;
    assert_eq!(found["emails"][0]["subject"], "Invoice");
    assert_eq!(found["emails"][0]["from"][0]["name"], "Eve");
    let read = world.ok("read_email", json!({ "id": found["emails"][0]["id"] })).await;
    assert_eq!(read["emails"][0]["body"].as_str().unwrap().trim(), "abc\nnext");
    let page =
        world.ok("read_email", json!({ "id": world.found(json!({ "query": "page" })).await[0] })).await;
    let text = page["emails"][0]["body"].as_str().unwrap();
    assert!(text.contains("Hello you") && !text.contains('<'), "{text}");
}

#[tokio::test]
async fn wrong_ids_and_those_of_others_are_not_there() {
    let world = World::new();
    let theirs = world.connect("theirs", Some("bob")).await;
    theirs.put("INBOX", &mail(7, "secret", "Ann <ann@example.org>", "for bob alone"));
    helve_office::sync::sync_mails(world.office.db(), &world.account("theirs"), &|_| {}).await.unwrap();
    world.put("Inbox", &mail(1, "mine", "Ann <ann@example.org>", "x")).await;
    let bob = Call::new("search_emails", json!({ "query": "secret" })).by(Caller::principal("bob"));
    let found = world.runtime.call(bob).await.into_result().unwrap();
    assert_eq!(texts(&found["emails"], "account"), ["theirs"]);
    let id = ids(&found).remove(0);
    assert!(world.found(json!({ "query": "secret" })).await.is_empty());
    assert_eq!(world.ok("search_emails", json!({})).await["accounts"], json!(["local"]));
    let (name, not_mine) = world.fails("read_email", json!({ "id": id })).await;
    assert_eq!(name, "NOT_FOUND");
    let mine = world.found(json!({ "query": "mine" })).await.remove(0);
    let forged = format!("{}{}", &mine[..mine.len() - 1], if mine.ends_with('0') { '1' } else { '0' });
    for wrong in [forged.as_str(), "m-999999-00000000"] {
        let (name, message) = world.fails("read_email", json!({ "id": wrong })).await;
        assert_eq!((name.as_str(), &message), ("NOT_FOUND", &not_mine), "{wrong}");
    }
    for wrong in
        ["1", "m-1", "m--1-00000000", "m-1-0", "m-1-00000000'; DROP TABLE mails", "../x", "m-+1-00000000"]
    {
        assert_eq!(world.fails("read_email", json!({ "id": wrong })).await.0, "validation_failed", "{wrong}");
    }
    let (name, _) = world.fails("search_emails", json!({ "account": "theirs" })).await;
    assert_eq!(name, "integration_missing");
}

#[tokio::test]
async fn an_id_never_comes_to_mean_another_mail() {
    let world = World::new();
    world.put("Drafts", &mail(1, "one", "Me <me@example.org>", "x")).await;
    let id = world.found(json!({ "query": "one" })).await.remove(0);
    world.ok("draft_email", json!({ "draft": id, "delete": true })).await;
    world.put("Drafts", &mail(2, "two", "Me <me@example.org>", "x")).await;
    assert_ne!(world.found(json!({ "query": "two" })).await[0], id);
    assert_eq!(world.fails("read_email", json!({ "id": id })).await.0, "NOT_FOUND");
}
