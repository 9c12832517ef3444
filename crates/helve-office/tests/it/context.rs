//! `query_context` and `list_accounts`, on the demo data of the embedded account.

use std::sync::Arc;

use helve::{Call, Caller, Layer, Registry, Runtime};
use helve_office::account::{Flags, MailStore as _};
use helve_office::demo;
use helve_office::embedded::{EmbeddedMails, EmbeddedObjects, EmbeddedOutbox};
use helve_office::import::import_objects;
use helve_office::text::Mailbox;
use helve_office::tools::office_tools;
use helve_office::{Account, Office, OfficeSettings};
use helve_store::office::OfficeDb;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tempfile::TempDir;

struct World {
    _dir: TempDir,
    runtime: Runtime,
    objects: EmbeddedObjects,
    mails: EmbeddedMails,
}

/// The demo data in an account that is everybody's, or somebody's alone.
async fn world(owner: Option<&str>) -> World {
    let dir = tempfile::tempdir().unwrap();
    let db = OfficeDb::open(&dir.path().join("office.db")).unwrap();
    let me = Mailbox::parse("Me Myself <me@example.org>").unwrap();
    let objects = EmbeddedObjects::open(&db).await.unwrap();
    let mails = EmbeddedMails::new(&db, Some(me.address().clone()));
    let account = Account {
        id: "local".to_owned(),
        kind: "embedded".to_owned(),
        owner: owner.map(str::to_owned),
        mails: Some(Arc::new(mails.clone())),
        submit: Some(Arc::new(EmbeddedOutbox)),
        objects: Some(Arc::new(objects.clone())),
        person: Some(me),
    };
    demo::load(&account, &Zoned::now()).await.unwrap();
    let settings =
        OfficeSettings { zone: TimeZone::get("Europe/Berlin").unwrap(), ..OfficeSettings::default() };
    let office = Arc::new(Office::new(db, settings));
    office.set_accounts([Arc::new(account)]);
    let registry = Registry::default();
    registry.register_many(Layer::BuiltIn, office_tools(&office)).unwrap();
    World {
        _dir: dir,
        runtime: Runtime::builder().registry(registry).integrations(office).build(),
        objects,
        mails,
    }
}

impl World {
    async fn ask(&self, tool: &str, arguments: Value) -> Value {
        self.runtime.call(Call::new(tool, arguments)).await.into_result().unwrap()
    }

    async fn results(&self, arguments: Value) -> Vec<Value> {
        self.ask("query_context", arguments).await["results"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn who_somebody_is_comes_from_contacts_events_and_mails_with_its_sources() {
    let world = world(None).await;
    let people = world.results(json!({ "query": "Sarah", "entityType": "person" })).await;
    let sarah = &people[0];
    assert!(sarah["title"].as_str().unwrap().contains("Sarah"), "{sarah}");
    let facts = sarah["facts"].as_array().unwrap();
    let sources: Vec<_> = facts.iter().map(|fact| fact["source"].as_str().unwrap()).collect();
    assert!(sources.iter().any(|source| source.starts_with("contact in address book")), "{sources:?}");
    assert!(sources.iter().any(|source| source.starts_with("mails of account")), "{sources:?}");
    assert!(facts.iter().any(|fact| fact["fact"].as_str().unwrap().contains("Acme")), "{facts:?}");
    let recent = sarah["recent"].as_array().unwrap();
    assert!(recent.iter().any(|one| one["type"] == "email"), "{recent:?}");
    assert_eq!(people.iter().filter(|one| one["id"] == sarah["id"]).count(), 1, "one person is one result");
}

#[tokio::test]
async fn a_question_in_plain_words_finds_whom_it_is_about() {
    let world = world(None).await;
    let found = world.results(json!({ "query": "Who is Sarah?" })).await;
    assert_eq!(found[0]["type"], "person", "{:#?}", found[0]);
    assert!(found[0]["title"].as_str().unwrap().contains("Sarah Chen"), "{:#?}", found[0]);
    assert!(
        !world.results(json!({ "query": "the" })).await.is_empty(),
        "a query of such words alone is one too"
    );
}

#[tokio::test]
async fn everything_about_a_topic_is_ranked_in_one_answer() {
    let world = world(None).await;
    let found = world.results(json!({ "query": "Acme", "limit": 50 })).await;
    let of = |sort: &str| found.iter().filter(|one| one["type"] == sort).count();
    assert!(of("person") > 0 && of("email") > 0 && of("event") + of("task") > 0, "{found:#?}");
    let scores: Vec<_> = found.iter().map(|one| one["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    for one in &found {
        assert!(
            !one["id"].as_str().unwrap().is_empty() && !one["facts"].as_array().unwrap().is_empty(),
            "{one}"
        );
    }
    let few = world.results(json!({ "query": "Acme", "limit": 3 })).await;
    assert_eq!(few, found[..3]);
}

#[tokio::test]
async fn a_question_with_words_that_are_nowhere_finds_what_has_some_of_them() {
    let world = world(None).await;
    let answer = world.ask("query_context", json!({ "query": "Acme zzzunheardof" })).await;
    assert_eq!(answer["partialMatch"], true);
    assert!(!answer["results"].as_array().unwrap().is_empty());
    let nothing = world.ask("query_context", json!({ "query": "zzzunheardof" })).await;
    assert_eq!((nothing["total"].as_u64(), &nothing["partialMatch"]), (Some(0), &Value::Null));
}

#[tokio::test]
async fn notes_are_found_and_times_bound_what_is() {
    let world = world(None).await;
    let note = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t\r\nBEGIN:VJOURNAL\r\nUID:n1\r\nDTSTAMP:20260101T000000Z\r\n\
                DTSTART;VALUE=DATE:20260102\r\nSUMMARY:Gate code\r\nDESCRIPTION:The gate opens with quartz.\r\nEND:VJOURNAL\r\nEND:VCALENDAR\r\n";
    let imported = import_objects(&world.objects, note.into()).await.unwrap();
    assert_eq!((imported.notes, imported.skipped), (1, 0));
    let found = world.results(json!({ "query": "quartz", "entityType": "note" })).await;
    assert_eq!((found.len(), &found[0]["when"]), (1, &json!("2026-01-02")));
    let in_time = json!({ "query": "quartz", "startDate": "2026-01-01", "endDate": "2026-01-03" });
    assert_eq!(world.results(in_time).await.len(), 1);
    let later = json!({ "query": "quartz", "startDate": "2026-01-05" });
    assert_eq!(world.results(later).await.len(), 0);
}

#[tokio::test]
async fn an_event_that_repeats_is_shown_at_its_next_time_else_at_its_last() {
    let world = world(None).await;
    let now = Zoned::now().with_time_zone(TimeZone::UTC);
    let days = |days: i64| now.checked_add(jiff::Span::new().days(days)).unwrap();
    let stamp = |at: &Zoned| at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let at = |from: &Zoned, hours: i64| from.checked_add(jiff::Span::new().hours(hours)).unwrap();
    for (word, start, rule, expected) in [
        ("quokka", at(&days(-2000), 2), "FREQ=DAILY".to_owned(), at(&now, 2)),
        ("wombat", at(&now, -2), "FREQ=DAILY".to_owned(), at(&now, -2)),
        ("numbat", days(-500), "FREQ=DAILY;INTERVAL=900".to_owned(), days(400)),
        ("dingo", days(-1500), format!("FREQ=DAILY;UNTIL={}", stamp(&at(&days(-1000), 1))), days(-1000)),
        ("bilby", days(-40), "FREQ=DAILY;COUNT=3".to_owned(), days(-38)),
    ] {
        let text = format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:{word}\r\nDTSTAMP:20260101T000000Z\r\n\
             SUMMARY:{word}\r\nDTSTART:{}\r\nDURATION:PT3H\r\nRRULE:{rule}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
            stamp(&start)
        );
        let imported = import_objects(&world.objects, text.into()).await.unwrap();
        assert_eq!(imported.events, 1, "{imported:?}");
        let asked = json!({ "query": word, "entityType": "event", "timeZone": "UTC" });
        let found = world.results(asked).await;
        let shown: Zoned = found[0]["when"].as_str().unwrap().parse().unwrap();
        assert_eq!(shown.timestamp().as_second(), expected.timestamp().as_second(), "{word}: {found:?}");
    }
}

#[tokio::test]
async fn accounts_of_others_and_what_is_in_them_are_not_there() {
    let world = world(Some("ada")).await;
    let ask = |caller: &'static str, tool: &'static str, arguments: Value| {
        world.runtime.call(Call::new(tool, arguments).by(Caller::principal(caller)))
    };
    let hers = ask("ada", "query_context", json!({ "query": "Sarah" })).await.into_result().unwrap();
    assert!(hers["total"].as_u64().unwrap() > 0);
    let his = ask("bob", "query_context", json!({ "query": "Sarah" })).await.into_result().unwrap();
    assert_eq!(his["total"], 0);
    let accounts = ask("bob", "list_accounts", json!({})).await.into_result().unwrap();
    assert_eq!(accounts["accounts"], json!([]));
    assert_eq!(accounts["missing"][0]["command"], "helve connect mail");
    assert!(ask("bob", "list_accounts", json!({ "account": "local" })).await.into_result().is_err());
}

#[tokio::test]
async fn hostile_words_find_nothing_and_break_nothing() {
    let world = world(None).await;
    for query in
        ["\" OR 1=1 --", "NEAR(", "subject:*", "a AND", "%", "_", "'; DROP TABLE mails; --", "{\"a\":1}"]
    {
        let outcome = world.runtime.call(Call::new("query_context", json!({ "query": query }))).await;
        assert!(outcome.into_result().is_ok(), "{query}");
    }
    for query in ["", "a\u{202e}b", "a\0b"] {
        let outcome = world.runtime.call(Call::new("query_context", json!({ "query": query }))).await;
        let error = outcome.into_result().unwrap_err();
        assert_eq!(error.code().as_str(), "validation_failed", "{query:?}");
    }
}

#[tokio::test]
async fn what_is_connected_says_so_and_what_is_missing_too() {
    let world = world(None).await;
    let answer = world.ask("list_accounts", json!({})).await;
    let local = &answer["accounts"][0];
    assert_eq!(
        (&local["id"], &local["kind"], &local["sends"]),
        (&json!("local"), &json!("embedded"), &json!(false))
    );
    assert!(local["calendars"].as_array().is_some_and(|all| !all.is_empty()), "{local}");
    assert!(local["folders"].as_array().unwrap().iter().any(|folder| folder["role"] == "drafts"), "{local}");
    assert_eq!(answer["missing"].as_array().unwrap().len(), 4);
}

#[test]
fn every_office_tool_has_four_examples_at_least_and_says_when_to_use_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = OfficeDb::open(&dir.path().join("office.db")).unwrap();
    let tools = office_tools(&Arc::new(Office::new(db, OfficeSettings::default())));
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name().to_string()).collect();
    names.sort();
    let expected = [
        "check_availability",
        "create_calendar_event",
        "create_task",
        "draft_email",
        "list_accounts",
        "list_calendar_events",
        "list_drafts",
        "list_tasks",
        "query_context",
        "read_email",
        "search_emails",
        "send_email",
        "update_calendar_event",
        "update_task",
    ];
    assert_eq!(names, expected);
    for tool in &tools {
        let definition = tool.definition();
        assert!(definition.examples.len() >= 4, "{} has {}", tool.name(), definition.examples.len());
        assert!(definition.when_to_use.is_some() && definition.output_schema.is_some(), "{}", tool.name());
        assert!(definition.facets.is_some(), "{}", tool.name());
        assert!(tool.warnings().is_empty(), "{}: {:?}", tool.name(), tool.warnings());
    }
}

/// The table of seed 5, and the three tools that users of comparable ones ask for.
#[test]
fn each_tool_asks_as_the_seed_says() {
    use helve::{Category, Facet, Risk};
    let dir = tempfile::tempdir().unwrap();
    let db = OfficeDb::open(&dir.path().join("office.db")).unwrap();
    let tools = office_tools(&Arc::new(Office::new(db, OfficeSettings::default())));
    for (name, category, risk, asks) in [
        ("query_context", Category::Query, Risk::Low, false),
        ("search_emails", Category::Query, Risk::Low, false),
        ("read_email", Category::Query, Risk::Low, false),
        ("list_drafts", Category::Query, Risk::Low, false),
        ("list_accounts", Category::Query, Risk::Low, false),
        ("list_calendar_events", Category::Query, Risk::Low, false),
        ("check_availability", Category::Query, Risk::Low, false),
        ("list_tasks", Category::Query, Risk::Low, false),
        ("create_task", Category::Create, Risk::Medium, false),
        ("update_task", Category::Update, Risk::Medium, false),
        ("draft_email", Category::Draft, Risk::Low, false),
        ("send_email", Category::External, Risk::High, true),
        ("create_calendar_event", Category::Create, Risk::Medium, true),
        ("update_calendar_event", Category::Update, Risk::Medium, true),
    ] {
        let tool = tools.iter().find(|tool| tool.name().as_str() == name).unwrap();
        let definition = tool.definition();
        let found = (definition.category, definition.risk, definition.requires_approval);
        assert_eq!(found, (category, risk, asks), "{name}");
        let facets = definition.facets.as_ref().unwrap();
        let reads = category == Category::Query;
        assert_eq!(!facets.contains(&Facet::Mutates), reads, "{name}");
        assert!(
            !reads || facets.contains(&Facet::ReadsUntrusted) && facets.contains(&Facet::ReadsPrivate),
            "{name}"
        );
    }
}

#[tokio::test]
async fn people_and_accounts_have_a_version_too() {
    let world = world(None).await;
    let version = async || {
        let found = world.results(json!({ "query": "Sarah", "entityType": "person" })).await;
        assert!(found.iter().all(|one| one["version"].as_str().unwrap().len() == 32), "{found:?}");
        found[0]["version"].clone()
    };
    let before = version().await;
    assert_eq!(before, version().await);
    let mail =
        "From: me@example.org\r\nTo: sarah.chen@acme.example\r\nSubject: x\r\nMessage-ID: <n@x>\r\n\r\nx\r\n";
    world.mails.append("Sent", mail.into(), Flags::default()).await.unwrap();
    assert_ne!(before, version().await, "more is known of her");
    let account = world.ask("list_accounts", json!({})).await["accounts"][0].clone();
    assert_eq!(account["version"].as_str().unwrap().len(), 32, "{account}");
    assert_eq!(world.ask("list_accounts", json!({})).await["accounts"][0], account);
}

#[tokio::test]
async fn a_stranger_with_a_contacts_name_stands_behind_the_contact() {
    let world = world(None).await;
    let known = world.results(json!({ "query": "Sarah", "entityType": "person" })).await.remove(0);
    let name = known["title"].as_str().unwrap().split(" <").next().unwrap().to_owned();
    let date = jiff::fmt::rfc2822::to_string(&Zoned::now()).unwrap();
    let text = format!(
        "From: {name} <sarah@evil.example>\r\nTo: me@example.org\r\nSubject: hi\r\nDate: {date}\r\n\
         Message-ID: <1@evil.example>\r\n\r\nI am {name}.\r\n"
    );
    world.mails.append("Inbox", text.into(), Flags::default()).await.unwrap();
    let people = world.results(json!({ "query": name, "entityType": "person" })).await;
    assert_eq!(people[0]["id"], known["id"], "{people:#?}");
    assert!(people.iter().any(|one| one["id"] == "sarah@evil.example"), "{people:#?}");
}
