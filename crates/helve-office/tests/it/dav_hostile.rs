//! CalDAV and CardDAV against servers that are broken, or mean ill.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use helve_net::NetPolicy;
use helve_office::account::{Expected, Fault, ObjectStore, PutFault};
use helve_office::connect::discover_dav::check;
use helve_office::dav::{DavAccount, Layout};
use helve_office::objects::OBJECT_BYTES_MAX;
use helve_office::sync::sync_objects;
use helve_office::text::Address;
use helve_office::web::{Login, WebSettings};
use helve_store::office::{AccountRow, OfficeDb};

use super::dav_server::{Fake, Reply, Seen};
use super::utc;

const CAL: &str = "/home/cal/";
const EVENT: &str = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:a\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

/// One home, `/home/`.
fn layout() -> Layout {
    Layout {
        calendars: vec!["/home/".to_owned()],
        outbox: Some("/home/outbox/".to_owned()),
        addresses: vec!["alice@example.test".to_owned()],
        ..Layout::default()
    }
}

fn account(fake: &Fake) -> DavAccount {
    DavAccount::new(&fake.settings(), layout()).unwrap()
}

/// What a server says of a collection.
fn about(reports: &str, ctag: &str) -> String {
    format!(
        "<multistatus xmlns='DAV:' xmlns:c='urn:ietf:params:xml:ns:caldav' xmlns:s='http://calendarserver.org/ns/'><response>\
         <href>{CAL}</href><propstat><prop><resourcetype><collection/><c:calendar/></resourcetype>{reports}\
         <s:getctag>{ctag}</s:getctag></prop><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>"
    )
}

const SYNCS: &str = "<supported-report-set><supported-report><report><sync-collection/></report></supported-report>\
                     </supported-report-set>";

fn etag(href: &str, etag: &str) -> String {
    format!(
        "<response><href>{href}</href><propstat><prop><getetag>{etag}</getetag></prop><status>HTTP/1.1 200 OK</status>\
         </propstat></response>"
    )
}

fn multistatus(content: &str) -> Reply {
    Reply::xml(format!(
        "<multistatus xmlns='DAV:' xmlns:c='urn:ietf:params:xml:ns:caldav'>{content}</multistatus>"
    ))
}

fn object(tag: &str) -> Reply {
    Reply::Whole("200 OK", vec![format!("ETag: {tag}")], EVENT.into())
}

/// Whether a request asks for a list of collections or about one.
fn asks_about(seen: &Seen) -> bool {
    seen.method == "PROPFIND" && seen.body.contains("resourcetype") && seen.body.contains("displayname")
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_measure_are_refused() {
    let deep = format!("<multistatus xmlns='DAV:'>{}", "<a>".repeat(1_000_000));
    let wide = format!("<multistatus xmlns='DAV:'>{}</multistatus>", "<b/>".repeat(2_000_000));
    let many = etag("/home/x.ics", "1").repeat(60_000);
    let bomb = "<!DOCTYPE m [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;'>]>\
                <multistatus xmlns='DAV:'><response><href>&b;</href></response></multistatus>";
    let outside = "<!DOCTYPE m SYSTEM 'file:///etc/passwd'><multistatus xmlns='DAV:'/>";
    for (name, body) in [
        ("deep", deep),
        ("wide", wide),
        ("many", format!("<multistatus xmlns='DAV:'>{many}</multistatus>")),
        ("bomb", bomb.to_owned()),
        ("outside", outside.to_owned()),
        ("page", "<html><body>Please log in</body></html>".to_owned()),
        ("text", "it works!".to_owned()),
        ("cut", "<multistatus xmlns='DAV:'><response>".to_owned()),
        ("bytes", "\u{0}\u{1}".to_owned()),
    ] {
        let fake = Fake::start(move |_| Reply::xml(body.clone())).await;
        let said = account(&fake).collections().await.unwrap_err();
        assert!(matches!(said, Fault::Nonsense(_)), "{name}: {said:?}");
    }
    let fake = Fake::start(|_| Reply::Endless("207 Multi-Status")).await;
    let said = account(&fake).collections().await.unwrap_err();
    assert!(matches!(&said, Fault::Nonsense(text) if text.contains("larger than")), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_goes_to_the_users_server_and_nowhere_else() {
    let thief = Fake::start(|_| Reply::status("200 OK")).await;
    let (origin, url) = (thief.url.to_string(), thief.url.clone());
    // By a redirect, as the account's owner, as a home, and as a collection.
    let answer = |path: &'static str, to: String| {
        move |seen: &Seen| match (path, seen.path.as_str()) {
            ("redirect", _) => Reply::redirect(&to),
            ("principal", _) => multistatus(&format!(
                "<response><href>/</href><propstat><prop><current-user-principal><href>{to}</href></current-user-principal></prop>\
                 </propstat></response>"
            )),
            ("home", _) => multistatus(&format!(
                "<response><href>/</href><propstat><prop><c:calendar-home-set><href>{to}</href></c:calendar-home-set></prop>\
                 </propstat></response>"
            )),
            _ => Reply::status("404 Not Found"),
        }
    };
    for path in ["redirect", "principal", "home"] {
        let fake = Fake::start(answer(path, origin.clone())).await;
        let said = check(&fake.settings()).await.unwrap_err();
        assert!(matches!(&said, Fault::Refused(text) if text.contains(url.authority())), "{path}: {said:?}");
        assert!(fake.seen().iter().all(Seen::has_login), "{path}");
    }
    // As a place in a list, a way out of the collection, and a place that is no place.
    let list = [
        &etag(&format!("{origin}home/cal/a.ics"), "1"),
        &etag("/home/other/b.ics", "1"),
        &etag("/home/cal/../../etc/c.ics", "1"),
        &etag("/home/cal/%2e%2e/%2e%2e/d.ics", "1"),
        &etag("//evil.example/home/cal/e.ics", "1"),
        &etag("/home/cal/f.ics?x=1", "1"),
        &etag("javascript:alert(1)", "1"),
        &etag("/home/cal/good%20one.ics", "1"),
    ]
    .map(String::as_str)
    .concat();
    let fake = Fake::start(move |seen: &Seen| match seen.method.as_str() {
        "PROPFIND" => Reply::xml(about(SYNCS, "1")),
        "REPORT" if seen.body.contains("sync-collection") => {
            multistatus(&format!("{list}<sync-token>t</sync-token>"))
        }
        "GET" => object("\"1\""),
        _ => Reply::status("403 Forbidden"),
    })
    .await;
    let changes = account(&fake).changes(CAL, None).await.unwrap();
    assert_eq!(
        changes.changed.iter().map(|object| object.href.as_str()).collect::<Vec<_>>(),
        ["/home/cal/good%20one.ics"]
    );
    let got: Vec<String> =
        fake.seen().into_iter().filter(|seen| seen.method == "GET").map(|seen| seen.path).collect();
    assert_eq!(got, ["/home/cal/good%20one.ics"]);
    // Redirects of anything but a first look are not followed at all.
    let to = origin.clone();
    let fake = Fake::start(move |_| Reply::redirect(&to)).await;
    let store = account(&fake);
    assert!(matches!(store.collections().await.unwrap_err(), Fault::Refused(_)));
    let put = store.put("/home/cal/a.ics", Bytes::from_static(EVENT.as_bytes()), Expected::Nothing).await;
    assert!(matches!(put, Err(PutFault::Fault(Fault::Refused(_)))), "{put:?}");
    // What callers name is held to the account as well.
    for href in
        ["http://evil.example/a.ics", "//evil.example/a", "/elsewhere/a.ics", "/home/../x", "a.ics", ""]
    {
        assert!(matches!(store.get(href).await.unwrap_err(), Fault::Refused(_)), "{href}");
    }
    assert_eq!(thief.seen().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_without_end_are_left() {
    let fake = Fake::start(|seen: &Seen| Reply::redirect(&format!("{}x/", seen.path))).await;
    let said = check(&fake.settings()).await.unwrap_err();
    assert!(matches!(said, Fault::Nonsense(_)), "{said:?}");
    assert!(fake.seen().len() <= 20, "{}", fake.seen().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_in_the_middle_is_unreachable_and_a_write_is_in_doubt() {
    let cut = b"HTTP/1.1 207 Multi-Status\r\nContent-Length: 1000\r\n\r\n<multistatus xmlns='DAV:'>".to_vec();
    for gone in [true, false] {
        let cut = cut.clone();
        let fake = Fake::start(move |_| if gone { Reply::Gone } else { Reply::Raw(cut.clone()) }).await;
        let store = account(&fake);
        let read = store.collections().await.unwrap_err();
        assert!(matches!(read, Fault::Unreachable(_)), "{read:?}");
        let put = store.put("/home/cal/a.ics", Bytes::from_static(EVENT.as_bytes()), Expected::Nothing).await;
        assert!(matches!(put, Err(PutFault::Fault(Fault::Unknown(_)))), "{put:?}");
        assert_eq!(fake.seen().iter().filter(|seen| seen.method == "PUT").count(), 1, "it is sent once");
    }
    // Where nothing could be sent, nothing is in doubt.
    let settings = super::dav_server::settings("http://127.0.0.1:9/", "alice");
    let layout = Layout { calendars: vec!["/".to_owned()], ..Layout::default() };
    let store = DavAccount::new(&settings, layout).unwrap();
    let put = store.put("/a.ics", Bytes::from_static(EVENT.as_bytes()), Expected::Nothing).await;
    assert!(matches!(put, Err(PutFault::Fault(Fault::Unreachable(_)))), "{put:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_left_in_time() {
    let fake = Fake::start(|_| Reply::Silent).await;
    let settings = WebSettings { timeout_max: Duration::from_millis(300), ..fake.settings() };
    let store = DavAccount::new(&settings, layout()).unwrap();
    let got = store.get("/home/cal/a.ics").await.unwrap_err();
    assert!(matches!(&got, Fault::Unreachable(text) if text.contains("in time")), "{got:?}");
    let put = store.put("/home/cal/a.ics", Bytes::from_static(EVENT.as_bytes()), Expected::Nothing).await;
    assert!(matches!(put, Err(PutFault::Fault(Fault::Unknown(_)))), "{put:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_say_what_to_do() {
    for (status, expected) in [
        ("401 Unauthorized", "login"),
        ("403 Forbidden", "refused"),
        ("404 Not Found", "gone"),
        ("429 Too Many", "unreachable"),
        ("500 Oops", "unreachable"),
        ("503 Busy", "unreachable"),
        ("301 Moved", "refused"),
        ("200 OK", "nonsense"),
        ("299 What", "nonsense"),
    ] {
        let fake = Fake::start(move |_| Reply::status(status)).await;
        let said = account(&fake).get("/home/cal/a.ics").await.unwrap_err();
        let kind = match &said {
            Fault::Login(_) => "login",
            Fault::Refused(_) => "refused",
            Fault::Gone(_) => "gone",
            Fault::Unreachable(_) => "unreachable",
            Fault::Nonsense(_) => "nonsense",
            other => panic!("{other:?}"),
        };
        assert_eq!(kind, expected, "{status}: {said}");
        assert!(!format!("{said} {said:?}").contains("alice-pw"));
    }
    // A write that meets trouble inside the server may have been done; one that it had no time for was not.
    for (status, expected) in [
        ("500 Oops", "Unknown"),
        ("502 Bad", "Unknown"),
        ("503 Busy", "Unreachable"),
        ("507 Full", "Refused"),
        ("412 No", "Conflict"),
    ] {
        let fake = Fake::start(move |_| Reply::status(status)).await;
        let put = account(&fake)
            .put("/home/cal/a.ics", Bytes::from_static(EVENT.as_bytes()), Expected::Nothing)
            .await;
        assert!(format!("{put:?}").contains(expected), "{status}: {put:?}");
    }
    let rule = "<error xmlns='DAV:' xmlns:c='urn:ietf:params:xml:ns:caldav'><c:no-uid-conflict/></error>";
    let fake = Fake::start(move |_| Reply::Whole("409 Conflict", Vec::new(), rule.into())).await;
    let put =
        account(&fake).put("/home/cal/a.ics", Bytes::from_static(EVENT.as_bytes()), Expected::Nothing).await;
    assert!(put.unwrap_err().to_string().contains("no-uid-conflict"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tokens_is_compared_with_what_was_seen() {
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    let fake = Fake::start(|seen: &Seen| {
        let round = ROUND.load(Ordering::SeqCst);
        match seen.method.as_str() {
            "PROPFIND" if asks_about(seen) => Reply::xml(about("", &format!("tag-{}", round.min(1)))),
            "PROPFIND" => {
                let list: Vec<String> = match round {
                    0 => (0..250).map(|n| etag(&format!("/home/cal/{n}.ics"), "\"1\"")).collect(),
                    _ => vec![etag("/home/cal/0.ics", "\"1\""), etag("/home/cal/1.ics", "\"2\"")],
                };
                multistatus(&list.concat())
            }
            "GET" => object("\"1\""),
            _ => Reply::status("501 Not Implemented"),
        }
    })
    .await;
    let store = account(&fake);
    let first = store.changes(CAL, None).await.unwrap();
    assert!(first.more && !first.reset && first.changed.len() == 200);
    let second = store.changes(CAL, Some(&first.state)).await.unwrap();
    assert_eq!((second.changed.len(), second.more), (50, false));
    // Nothing changed, so nothing is listed.
    let asked = fake.seen().len();
    let third = store.changes(CAL, Some(&second.state)).await.unwrap();
    assert!(third.changed.is_empty() && third.gone.is_empty());
    assert_eq!(fake.seen().len(), asked + 1);
    ROUND.store(1, Ordering::SeqCst);
    let fourth = store.changes(CAL, Some(&third.state)).await.unwrap();
    assert_eq!((fourth.changed.len(), fourth.gone.len()), (1, 248));
    assert_eq!(fourth.changed[0].href, "/home/cal/1.ics");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_that_cannot_be_got_does_not_keep_the_others_away() {
    static HEALED: AtomicUsize = AtomicUsize::new(0);
    let fake = Fake::start(|seen: &Seen| {
        let healed = HEALED.load(Ordering::SeqCst) > 0;
        match (seen.method.as_str(), seen.path.as_str()) {
            ("PROPFIND", "/home/cal/") | ("PROPFIND", "/home/") => Reply::xml(about(SYNCS, "1")),
            ("REPORT", _) if seen.body.contains("multiget") => Reply::status("403 Forbidden"),
            ("REPORT", _) if seen.body.contains("<sync-token>t</sync-token>") => {
                multistatus("<sync-token>t</sync-token>")
            }
            ("REPORT", _) => {
                let names = ["a", "denied", "page", "trouble", "z"];
                let list = names.map(|name| etag(&format!("{CAL}{name}.ics"), "1")).concat();
                multistatus(&format!("{list}<sync-token>t</sync-token>"))
            }
            (_, "/home/cal/denied.ics") if !healed => Reply::status("403 Forbidden"),
            (_, "/home/cal/trouble.ics") if !healed => Reply::status("500 Internal Server Error"),
            (_, "/home/cal/page.ics") if !healed => {
                Reply::Whole("200 OK", vec!["ETag: \"1\"".to_owned()], b"<html>Log in</html>".to_vec())
            }
            _ => object("\"1\""),
        }
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let db = OfficeDb::open(&dir.path().join("office.db")).unwrap();
    db.add_account(AccountRow {
        id: "far".to_owned(),
        kind: "dav".to_owned(),
        address: None,
        name: None,
        owner: None,
        settings: "{}".to_owned(),
        created_at: jiff::Timestamp::now(),
        synced_at: None,
        trouble: None,
    })
    .await
    .unwrap();
    let account = helve_office::Account {
        id: "far".to_owned(),
        kind: "dav".to_owned(),
        person: None,
        owner: None,
        mails: None,
        submit: None,
        objects: Some(std::sync::Arc::new(account(&fake))),
    };
    let said = sync_objects(&db, &account, &|_| {}).await.unwrap_err();
    assert!(matches!(&said, Fault::Refused(text) if text.contains("403")), "{said:?}");
    let collection = db.collections(Some("far")).await.unwrap()[0].clone();
    assert!(collection.synced_at.is_some());
    let unread = async || {
        let rows = db.objects_after(collection.id, 0, 10).await.unwrap();
        (rows.len(), rows.iter().filter(|row| row.unreadable.is_some() && row.version.is_empty()).count())
    };
    assert_eq!(unread().await, (5, 3));
    HEALED.store(1, Ordering::SeqCst);
    sync_objects(&db, &account, &|_| {}).await.unwrap();
    assert_eq!(unread().await, (5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_spellings_of_a_place_are_one_object() {
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    let fake = Fake::start(|seen: &Seen| {
        let round = ROUND.load(Ordering::SeqCst);
        let name = ["a@b", "a%40b"][round % 2];
        match seen.method.as_str() {
            "PROPFIND" if asks_about(seen) => Reply::xml(about("", &format!("tag-{round}"))),
            "PROPFIND" => multistatus(&etag(&format!("{CAL}{name}.ics"), "1")),
            "GET" => object("\"1\""),
            _ => Reply::status("501 Not Implemented"),
        }
    })
    .await;
    let store = account(&fake);
    let first = store.changes(CAL, None).await.unwrap();
    assert_eq!(first.changed[0].href, "/home/cal/a%40b.ics");
    ROUND.store(1, Ordering::SeqCst);
    let second = store.changes(CAL, Some(&first.state)).await.unwrap();
    assert!(second.changed.is_empty() && second.gone.is_empty(), "{second:?}");
    assert_eq!(store.new_href("/home/c@l/", "a"), "/home/c%40l/a.ics");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_list_that_was_cut_short_leaves_out_is_not_gone() {
    static ROUND: AtomicUsize = AtomicUsize::new(0);
    let fake = Fake::start(|seen: &Seen| {
        let round = ROUND.load(Ordering::SeqCst);
        let list = |names: &[&str]| names.iter().map(|name| etag(&format!("{CAL}{name}.ics"), "1")).collect();
        match seen.method.as_str() {
            "PROPFIND" if asks_about(seen) => Reply::xml(about("", &format!("tag-{round}"))),
            "PROPFIND" if round == 0 => multistatus(&list(&["a", "b"]) as &String),
            "PROPFIND" => multistatus(&format!(
                "{}<response><href>{CAL}</href><status>HTTP/1.1 507 Insufficient Storage</status></response>",
                list(&["b", "c"]) as String
            )),
            "GET" => object("\"1\""),
            _ => Reply::status("501 Not Implemented"),
        }
    })
    .await;
    let store = account(&fake);
    let all = store.changes(CAL, None).await.unwrap();
    assert_eq!((all.changed.len(), all.more), (2, false));
    ROUND.store(1, Ordering::SeqCst);
    let part = store.changes(CAL, Some(&all.state)).await.unwrap();
    assert_eq!((part.changed.len(), part.gone.len(), part.more), (1, 0, true));
    let said = store.changes(CAL, Some(&part.state)).await.unwrap_err();
    assert!(matches!(&said, Fault::Nonsense(text) if text.contains("only a part")), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_void_in_any_way_begins_anew() {
    for (status, body) in [
        ("403 Forbidden", "<error xmlns='DAV:'><valid-sync-token/></error>"),
        ("410 Gone", ""),
        ("409 Conflict", "<error xmlns='DAV:'><valid-sync-token/></error>"),
        ("400 Bad Request", "oops"),
    ] {
        let fake = Fake::start(move |seen: &Seen| match seen.method.as_str() {
            "PROPFIND" => Reply::xml(about(SYNCS, "1")),
            "REPORT" if seen.body.contains("old") => Reply::Whole(status, Vec::new(), body.into()),
            "REPORT" if seen.body.contains("multiget") => Reply::status("501 No"),
            "REPORT" => multistatus(&format!("{}<sync-token>new</sync-token>", etag("/home/cal/a.ics", "1"))),
            _ => object("\"1\""),
        })
        .await;
        let changes = account(&fake).changes(CAL, Some(r#"{"token":"old"}"#)).await.unwrap();
        assert!(changes.reset && changes.changed.len() == 1, "{status}");
        assert_eq!(changes.state, r#"{"token":"new"}"#);
    }
    // One that knows no limits, one that goes round in circles, one without a token.
    let fake = Fake::start(|seen: &Seen| match seen.body.contains("nresults") {
        _ if seen.method == "PROPFIND" => Reply::xml(about(SYNCS, "1")),
        true => Reply::status("507 Insufficient Storage"),
        false => multistatus("<sync-token>new</sync-token>"),
    })
    .await;
    assert!(!account(&fake).changes(CAL, None).await.unwrap().more);
    for answer in [
        "<response><href>/home/cal/</href><status>HTTP/1.1 507 No</status></response><sync-token>t</sync-token>",
        "",
    ] {
        let fake = Fake::start(move |seen: &Seen| match seen.method.as_str() {
            "PROPFIND" => Reply::xml(about(SYNCS, "1")),
            _ => multistatus(answer),
        })
        .await;
        let said = account(&fake).changes(CAL, Some(r#"{"token":"t"}"#)).await.unwrap_err();
        assert!(matches!(said, Fault::Nonsense(_)), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weak_version_is_looked_at_before_a_write() {
    let put = |now: &'static str, version: &'static str| async move {
        let fake = Fake::start(move |seen: &Seen| match seen.method.as_str() {
            "GET" => object(now),
            _ => Reply::Whole("204 No Content", vec!["ETag: W/\"3\"".to_owned()], Vec::new()),
        })
        .await;
        let bytes = Bytes::from_static(EVENT.as_bytes());
        let put = account(&fake).put("/home/cal/a.ics", bytes, Expected::Version(version)).await;
        let sent = fake.seen().into_iter().find(|seen| seen.method == "PUT");
        (put, sent.map(|seen| seen.header("if-match").map(str::to_owned)))
    };
    // A weak version of what was written is none.
    assert_eq!(put("-", "\"1\"").await, (Ok(None), Some(Some("\"1\"".to_owned()))));
    assert_eq!(put("W/\"1\"", "W/\"1\"").await, (Ok(None), Some(None)));
    assert_eq!(put("\"1\"", "W/\"1\"").await, (Ok(None), Some(Some("\"1\"".to_owned()))));
    assert_eq!(put("W/\"2\"", "W/\"1\"").await, (Err(PutFault::Conflict), None));
    // What would match anything, or end the line, is no version.
    for version in ["*", "\"1\"\r\nX-Evil: 1", "1, 2"] {
        let fake = Fake::start(|_| Reply::status("204 No Content")).await;
        let store = account(&fake);
        let bytes = Bytes::from_static(EVENT.as_bytes());
        let put = store.put("/home/cal/a.ics", bytes, Expected::Version(version)).await;
        assert!(matches!(put, Err(PutFault::Fault(Fault::Refused(_)))), "{version}: {put:?}");
        assert!(store.delete("/home/cal/a.ics", version).await.is_err());
        assert_eq!(fake.seen().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_too_long_is_seen_to_be_and_one_that_went_is_passed_over() {
    let fake = Fake::start(|seen: &Seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("PROPFIND", _) => Reply::xml(about(SYNCS, "1")),
        ("REPORT", _) if seen.body.contains("multiget") => multistatus(
            "<response><href>/home/cal/gone.ics</href><status>HTTP/1.1 404 Not Found</status></response>",
        ),
        ("REPORT", _) => {
            let list =
                ["good", "gone", "huge"].map(|name| etag(&format!("/home/cal/{name}.ics"), "1")).concat();
            multistatus(&format!("{list}<sync-token>t</sync-token>"))
        }
        (_, "/home/cal/huge.ics") => {
            let content = [EVENT.as_bytes(), &vec![b' '; 20 << 20]].concat();
            Reply::Whole("200 OK", vec!["ETag: \"9\"".to_owned()], content)
        }
        _ => object("\"1\""),
    })
    .await;
    let store = account(&fake);
    let changes = store.changes(CAL, None).await.unwrap();
    let lengths: Vec<_> = changes.changed.iter().map(|object| object.bytes.len()).collect();
    // One byte more than is kept, and not one more than that.
    assert_eq!(lengths, [EVENT.len(), OBJECT_BYTES_MAX + 1]);
    assert_eq!(changes.state, r#"{"token":"t"}"#);
    assert!(matches!(store.get("/home/cal/huge.ics").await.unwrap_err(), Fault::Refused(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_answers_about_free_time_are_unknown() {
    let range =
        helve_office::availability::Interval::new(utc("20261201T000000Z"), utc("20261202T000000Z")).unwrap();
    let bob = Address::new("bob@example.test").unwrap();
    let reply = |who: &str, status: &str, data: &str| {
        format!(
            "<c:schedule-response xmlns:c='urn:ietf:params:xml:ns:caldav' xmlns='DAV:'><c:response><c:recipient><href>mailto:{who}</href>\
             </c:recipient><c:request-status>{status}</c:request-status><c:calendar-data>{data}</c:calendar-data></c:response>\
             </c:schedule-response>"
        )
    };
    let calendar =
        |lines: &str| format!("BEGIN:VCALENDAR\nBEGIN:VFREEBUSY\n{lines}END:VFREEBUSY\nEND:VCALENDAR\n");
    for (name, body) in [
        ("another's", reply("carol@example.test", "2.0;Success", &calendar(""))),
        ("refused", reply("bob@example.test", "3.8;No authority", &calendar(""))),
        ("no data", reply("bob@example.test", "2.0;Success", "")),
        ("not a calendar", reply("bob@example.test", "2.0;Success", "hello")),
        ("no times", reply("bob@example.test", "2.0;Success", &calendar("FREEBUSY:tomorrow\n"))),
    ] {
        let fake = Fake::start(move |_| Reply::Whole("200 OK", Vec::new(), body.clone().into())).await;
        assert_eq!(account(&fake).free_busy(&bob, range).await.unwrap(), None, "{name}");
    }
    // The server knows half of the day.
    let half = calendar("DTSTART:20261201T120000Z\nDTEND:20261202T000000Z\n");
    let body = reply("bob@example.test", "2.0;Success", &half);
    let fake = Fake::start(move |_| Reply::Whole("200 OK", Vec::new(), body.clone().into())).await;
    let parts = account(&fake).free_busy(&bob, range).await.unwrap().unwrap();
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].state, helve_office::availability::State::Unknown);
    assert_eq!((parts[0].interval.from, parts[0].interval.to), (range.from, utc("20261201T120000Z")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_fetched_for_each_request_and_never_shown() {
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    let fake = Fake::start(|_| Reply::status("404 Not Found")).await;
    let login = Login::Token(std::sync::Arc::new(|| {
        Box::pin(async { Ok(format!("secret-token-{}", GIVEN.fetch_add(1, Ordering::SeqCst)).into()) })
    }));
    let settings = WebSettings { login, ..fake.settings() };
    assert!(!format!("{settings:?}").contains("secret"));
    let store = DavAccount::new(&settings, layout()).unwrap();
    for _ in 0..2 {
        let said = store.get("/home/cal/a.ics").await.unwrap_err();
        assert!(!format!("{said:?}").contains("secret"));
    }
    let sent: Vec<_> =
        fake.seen().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(sent, ["Bearer secret-token-0", "Bearer secret-token-1"]);
    // What the machine's policy denies, an account does not open.
    let net = NetPolicy { deny: vec!["127.0.0.0/8".parse().unwrap()], ..NetPolicy::default() };
    let store = DavAccount::new(&WebSettings { net, ..fake.settings() }, layout()).unwrap();
    assert!(matches!(store.get("/home/cal/a.ics").await.unwrap_err(), Fault::Refused(_)));
}
