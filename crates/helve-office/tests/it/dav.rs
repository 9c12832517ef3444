//! CalDAV and CardDAV against Radicale and Cyrus.

use bytes::Bytes;
use helve_office::account::{Collection, Expected, Fault, ObjectChanges, ObjectStore, PutFault};
use helve_office::availability::{Interval, State, Timeline};
use helve_office::connect::discover_dav::{Service, candidates, check};
use helve_office::dav::{DavAccount, DavPair};
use helve_office::text::Address;
use helve_office::web::{PlainHttp, WebSettings};
use helve_testkit::OfficeServers;

use super::dav_server::{Pass, other_program, proxy, settings};
use super::discover_mail::{MX, SRV, TXT, mx, name_server, srv};
use super::utc;

const CALENDAR: &str = "<c:mkcalendar xmlns='DAV:' xmlns:c='urn:ietf:params:xml:ns:caldav'><set><prop><displayname>NAME</displayname>\
     <c:supported-calendar-component-set><c:comp name='KIND'/></c:supported-calendar-component-set></prop></set></c:mkcalendar>";
const BOOK: &str = "<mkcol xmlns='DAV:' xmlns:k='urn:ietf:params:xml:ns:carddav'><set><prop><resourcetype><collection/>\
     <k:addressbook/></resourcetype><displayname>Friends</displayname></prop></set></mkcol>";

/// Radicale with a calendar, a task list and an address book of alice.
struct Radicale {
    servers: OfficeServers,
}

impl Radicale {
    async fn start() -> Self {
        let servers = OfficeServers::start();
        let url = servers.text("/dav/url");
        let calendar = |name: &str, kind: &str| CALENDAR.replace("NAME", name).replace("KIND", kind);
        for (method, path, body) in [
            ("MKCALENDAR", "work", calendar("Arbeit &amp; more", "VEVENT")),
            ("MKCALENDAR", "todo", calendar("To do", "VTODO")),
            ("MKCOL", "friends", BOOK.to_owned()),
        ] {
            let said = other_program("alice", method, &format!("{url}alice/{path}/"), &[], &body).await;
            assert!(said.contains(" 201 "), "{said}");
        }
        Self { servers }
    }

    fn url(&self) -> String {
        self.servers.text("/dav/url")
    }

    async fn account(&self) -> DavAccount {
        account(&settings(&self.url(), "alice")).await
    }
}

async fn account(settings: &WebSettings) -> DavAccount {
    DavAccount::new(settings, check(settings).await.unwrap().layout).unwrap()
}

fn event(uid: &str, lines: &str) -> Bytes {
    let text = format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\nBEGIN:VEVENT\r\nUID:{uid}\r\n\
         DTSTAMP:20261101T000000Z\r\nDTSTART:20261201T100000Z\r\nDTEND:20261201T110000Z\r\n{lines}\
         END:VEVENT\r\nEND:VCALENDAR\r\n"
    );
    Bytes::from(text)
}

async fn put_new(store: &DavAccount, collection: &str, uid: &str, bytes: Bytes) -> (String, Option<String>) {
    let href = store.new_href(collection, uid);
    let version = store.put(&href, bytes, Expected::Nothing).await.unwrap();
    (href, version)
}

/// All pages from a state on, as one.
async fn all_changes(store: &DavAccount, collection: &str, since: Option<&str>) -> (ObjectChanges, usize) {
    let mut whole = store.changes(collection, since).await.unwrap();
    let mut pages = 1;
    while whole.more {
        let state = whole.state.clone();
        let next = store.changes(collection, Some(&state)).await.unwrap();
        assert!(!next.reset);
        whole.changed.extend(next.changed);
        whole.gone.extend(next.gone);
        (whole.state, whole.more) = (next.state, next.more);
        pages += 1;
    }
    (whole, pages)
}

fn named<'a>(collections: &'a [Collection], name: &str) -> &'a Collection {
    collections.iter().find(|collection| collection.name == name).unwrap_or_else(|| panic!("{collections:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn radicale_has_a_calendar_a_task_list_and_an_address_book() {
    let radicale = Radicale::start().await;
    let found = check(&settings(&radicale.url(), "alice")).await.unwrap();
    let names = |collections: Vec<&Collection>| -> Vec<String> {
        collections.iter().map(|collection| collection.name.clone()).collect()
    };
    assert_eq!(names(found.calendars().collect()), ["Arbeit & more"]);
    assert_eq!(names(found.task_lists().collect()), ["To do"]);
    assert_eq!(names(found.address_books().collect()), ["Friends"]);
    assert!(found.collections.iter().all(|collection| collection.writable));
    assert!(!found.layout.schedules);
    assert_eq!(found.layout.outbox, None);

    // A wrong password is told from a server that is not there.
    let wrong = check(&settings(&radicale.url(), "bobby")).await.unwrap_err();
    assert!(matches!(&wrong, Fault::Login(text) if !text.contains("bobby-pw")), "{wrong:?}");
    let nobody = check(&settings("http://127.0.0.1:9/", "alice")).await.unwrap_err();
    assert!(matches!(nobody, Fault::Unreachable(_)), "{nobody:?}");
    // Without TLS only where the configuration says so.
    let plain = WebSettings { plain_http: PlainHttp::No, ..settings(&radicale.url(), "alice") };
    assert!(matches!(check(&plain).await.unwrap_err(), Fault::Refused(text) if text.contains("https://")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_look_hands_out_everything_and_the_next_only_what_changed() {
    let radicale = Radicale::start().await;
    let store = radicale.account().await;
    let collections = store.collections().await.unwrap();
    let work = &named(&collections, "Arbeit & more").href;
    for number in 0..230 {
        put_new(&store, work, &format!("event-{number}"), event(&format!("event-{number}"), "SUMMARY:s\r\n"))
            .await;
    }

    let (first, pages) = all_changes(&store, work, None).await;
    assert_eq!((first.changed.len(), pages, first.reset, first.gone.len()), (230, 2, false, 0));

    // Another process goes on in the middle of a list, and misses nothing that changes meanwhile.
    let page = store.changes(work, None).await.unwrap();
    assert!(page.more && page.changed.len() == 200);
    let left = page.changed.first().unwrap();
    store
        .put(&left.href, event("event-x", "SUMMARY:later\r\n"), Expected::Version(&left.version))
        .await
        .unwrap_err();
    let uid = left.href.rsplit('/').next().unwrap().trim_end_matches(".ics").to_owned();
    store.put(&left.href, event(&uid, "SUMMARY:later\r\n"), Expected::Version(&left.version)).await.unwrap();
    let other = radicale.account().await;
    let (rest, _) = all_changes(&other, work, Some(&page.state)).await;
    assert_eq!(rest.changed.len(), 30);
    let (then, _) = all_changes(&other, work, Some(&rest.state)).await;
    assert_eq!(
        then.changed.iter().map(|object| object.href.as_str()).collect::<Vec<_>>(),
        [left.href.as_str()]
    );

    // One is new, one changes, one goes.
    let (made, _) = put_new(&store, work, "made/with a slash", event("made/with a slash", "")).await;
    let gone = &first.changed[100];
    store.delete(&gone.href, &gone.version).await.unwrap();
    let (delta, _) = all_changes(&store, work, Some(&then.state)).await;
    assert_eq!(delta.changed.iter().map(|object| &object.href).collect::<Vec<_>>(), [&made]);
    assert_eq!(delta.gone, [gone.href.as_str()]);
    let (none, _) = all_changes(&store, work, Some(&delta.state)).await;
    assert!(none.changed.is_empty() && none.gone.is_empty() && !none.reset);

    // A token that the server does not know, and a state that nobody wrote.
    for state in
        [r#"{"token":"http://radicale.org/ns/sync/0"}"#, "nonsense", r#"{"seen":{"ctag":null,"objects":{}}}"#]
    {
        let (again, _) = all_changes(&store, work, Some(state)).await;
        assert!(again.reset, "{state}");
        assert_eq!(again.changed.len(), 230, "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_edit_one_event_and_nothing_is_lost() {
    for is_cyrus in [false, true] {
        let (radicale, cyrus);
        let settings = match is_cyrus {
            false => {
                radicale = Radicale::start().await;
                settings(&radicale.url(), "alice")
            }
            true => {
                cyrus = OfficeServers::start_jmap();
                settings(&cyrus.text("/caldav/url"), "alice")
            }
        };
        let (one, two) = (account(&settings).await, account(&settings).await);
        let collections = one.collections().await.unwrap();
        let calendar = &collections.iter().find(|collection| collection.holds.events).unwrap().href;
        let (href, version) = put_new(&one, calendar, "shared", event("shared", "SUMMARY:first\r\n")).await;
        let seen = two.get(&href).await.unwrap();
        assert_eq!(version.as_deref(), Some(seen.version.as_str()));

        let by_one =
            one.put(&href, event("shared", "SUMMARY:one\r\n"), Expected::Version(&seen.version)).await;
        let by_one = by_one.unwrap().unwrap();
        let by_two =
            two.put(&href, event("shared", "SUMMARY:two\r\n"), Expected::Version(&seen.version)).await;
        assert_eq!(by_two, Err(PutFault::Conflict));
        assert_eq!(two.delete(&href, &seen.version).await, Err(PutFault::Conflict));
        let again = two.put(&href, event("shared", "SUMMARY:new\r\n"), Expected::Nothing).await;
        assert_eq!(again, Err(PutFault::Conflict));

        let now = two.get(&href).await.unwrap();
        assert!(String::from_utf8_lossy(&now.bytes).contains("SUMMARY:one"));
        assert_eq!(now.version, by_one);
        two.delete(&href, &now.version).await.unwrap();
        assert!(matches!(one.get(&href).await, Err(Fault::Gone(_))));
        let gone = one.put(&href, event("shared", "SUMMARY:back\r\n"), Expected::Version(&now.version)).await;
        assert!(matches!(gone, Err(PutFault::Conflict | PutFault::Fault(Fault::Gone(_)))), "{gone:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_comes_back_from_the_server() {
    let radicale = Radicale::start().await;
    let cyrus = OfficeServers::start_jmap();
    let odd = "SUMMARY:Grüße \\, 日本語\r\nX-UNKNOWN;X-PARAM=\"a;b:c\":kept as it is\r\nATTENDEE;CN=B;X-Y=1:mailto:b@elsewhere.test\r\n\
               BEGIN:VALARM\r\nACTION:X-ODD\r\nTRIGGER:-PT5M\r\nX-IN:1\r\nEND:VALARM\r\n";
    for settings in [settings(&radicale.url(), "alice"), settings(&cyrus.text("/caldav/url"), "alice")] {
        let store = account(&settings).await;
        let collections = store.collections().await.unwrap();
        let calendar = &collections.iter().find(|collection| collection.holds.events).unwrap().href;
        let (href, _) = put_new(&store, calendar, "odd", event("odd", odd)).await;
        let got = store.get(&href).await.unwrap();
        let (synced, _) = all_changes(&store, calendar, None).await;
        assert_eq!(synced.changed.len(), 1);
        // By a report it is the same, byte for byte, as by itself.
        assert_eq!(synced.changed[0], got, "{settings:?}");
        let lines = |bytes: &[u8]| -> std::collections::BTreeSet<String> {
            helve_office::ical::Document::parse(bytes).unwrap();
            String::from_utf8(bytes.to_vec())
                .unwrap()
                .replace("\r\n ", "")
                .lines()
                .map(str::to_owned)
                .collect()
        };
        let missing: Vec<String> =
            lines(&event("odd", odd)).difference(&lines(&got.bytes)).cloned().collect();
        assert!(missing.is_empty(), "{missing:?} of {:?}", settings.url.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_and_contacts_are_objects_like_events() {
    let radicale = Radicale::start().await;
    let cyrus = OfficeServers::start_jmap();
    for settings in [settings(&radicale.url(), "alice"), settings(&cyrus.text("/caldav/url"), "alice")] {
        let store = account(&settings).await;
        let collections = store.collections().await.unwrap();
        let tasks = &collections.iter().find(|collection| collection.holds.tasks).unwrap().href;
        let book = &collections.iter().find(|collection| collection.holds.contacts).unwrap().href;
        let task = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VTODO\r\nUID:t\r\nDTSTAMP:20261101T000000Z\r\n\
                    SUMMARY:Milch\r\nX-A:b\r\nEND:VTODO\r\nEND:VCALENDAR\r\n";
        let card =
            "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:c\r\nFN:Ada\r\nN:Lovelace;Ada;;;\r\nX-ODD:1\r\nEND:VCARD\r\n";
        put_new(&store, tasks, "t", Bytes::from_static(task.as_bytes())).await;
        let (href, _) = put_new(&store, book, "c", Bytes::from_static(card.as_bytes())).await;
        assert!(href.ends_with(".vcf"), "{href}");
        for (collection, line) in [(tasks, "X-A:b"), (book, "X-ODD:1")] {
            let (seen, _) = all_changes(&store, collection, None).await;
            assert_eq!(seen.changed.len(), 1);
            assert!(String::from_utf8_lossy(&seen.changed[0].bytes).contains(line));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cyrus_pages_by_itself_and_tells_attendees() {
    let cyrus = OfficeServers::start_jmap();
    let alice = account(&settings(&cyrus.text("/caldav/url"), "alice")).await;
    let bob = account(&settings(&cyrus.text("/caldav/url"), "bob")).await;
    assert!(alice.schedules());
    assert_eq!(alice.layout().addresses, ["alice@example.test"]);
    let collections = alice.collections().await.unwrap();
    assert!(collections.iter().all(|collection| !["Inbox", "Outbox"].contains(&collection.name.as_str())));
    let calendar = &collections.iter().find(|collection| collection.holds.events).unwrap().href;
    for number in 0..210 {
        put_new(&alice, calendar, &format!("event-{number}"), event(&format!("event-{number}"), "")).await;
    }
    let (all, pages) = all_changes(&alice, calendar, None).await;
    assert_eq!((all.changed.len(), pages), (210, 2));

    // The server adds to what was written, so it gives no version.
    let meeting = "SUMMARY:Together\r\nORGANIZER:mailto:alice@example.test\r\n\
                   ATTENDEE;PARTSTAT=ACCEPTED:mailto:alice@example.test\r\nATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:bob@example.test\r\n";
    let (href, version) = put_new(&alice, calendar, "meeting", event("meeting", meeting)).await;
    assert_eq!(version, None);
    let got = alice.get(&href).await.unwrap();
    assert!(!got.version.is_empty());
    let bobs = bob.collections().await.unwrap();
    let bobs = &bobs.iter().find(|collection| collection.holds.events).unwrap().href;
    let (invited, _) = all_changes(&bob, bobs, None).await;
    assert!(String::from_utf8_lossy(&invited.changed[0].bytes).contains("SUMMARY:Together"));
    // What is bob's is not ours to read.
    let theirs = alice.get(&invited.changed[0].href).await;
    assert!(matches!(theirs, Err(Fault::Refused(_))), "{theirs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_busy_is_asked_of_the_server_and_unknown_is_not_free() {
    let cyrus = OfficeServers::start_jmap();
    let bob = account(&settings(&cyrus.text("/caldav/url"), "bob")).await;
    let bobs = bob.collections().await.unwrap();
    let bobs = &bobs.iter().find(|collection| collection.holds.events).unwrap().href;
    put_new(&bob, bobs, "busy", event("busy", "SUMMARY:secret\r\n")).await;
    let range = Interval::new(utc("20261201T000000Z"), utc("20261202T000000Z")).unwrap();
    let alice = account(&settings(&cyrus.text("/caldav/url"), "alice")).await;
    let ask = |who: &str| Address::new(who).unwrap();

    let parts = alice.free_busy(&ask("bob@example.test"), range).await.unwrap().unwrap();
    let timeline = Timeline::new(range, State::Free, parts);
    let at = |from, to| timeline.state(Interval::new(utc(from), utc(to)).unwrap());
    assert_eq!(at("20261201T100000Z", "20261201T110000Z"), State::Busy);
    assert_eq!(at("20261201T110000Z", "20261201T120000Z"), State::Free);
    // Nobody knows them: that is no free day.
    for stranger in ["nobody@elsewhere.test", "nobody@example.test"] {
        assert_eq!(alice.free_busy(&ask(stranger), range).await.unwrap(), None, "{stranger}");
    }
    let radicale = Radicale::start().await;
    assert_eq!(radicale.account().await.free_busy(&ask("bob@example.test"), range).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn calendars_and_contacts_on_two_servers_are_one_account() {
    let radicale = Radicale::start().await;
    let cyrus = OfficeServers::start_jmap();
    let part = |settings: WebSettings, part: Service| async move {
        DavAccount::new(&settings, check(&settings).await.unwrap().layout.only(part)).unwrap()
    };
    let calendars = part(settings(&cyrus.text("/caldav/url"), "alice"), Service::Calendars).await;
    let contacts = part(settings(&radicale.url(), "alice"), Service::Contacts).await;
    let both = DavPair::new(calendars, contacts);
    let collections = both.collections().await.unwrap();
    assert!(both.schedules());
    let holds: Vec<_> = collections.iter().map(|one| (one.holds.events, one.holds.contacts)).collect();
    assert_eq!(holds, [(true, false), (false, true)], "{collections:?}");
    let card = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:c\r\nFN:Ada\r\nN:Lovelace;Ada;;;\r\nEND:VCARD\r\n";
    for (collection, bytes) in
        [(&collections[0], event("c", "")), (&collections[1], Bytes::from_static(card.as_bytes()))]
    {
        let href = both.new_href(&collection.href, "c");
        let version = both.put(&href, bytes, Expected::Nothing).await.unwrap().unwrap();
        assert_eq!(both.get(&href).await.unwrap().href, href);
        let seen = both.changes(&collection.href, None).await.unwrap();
        assert_eq!(
            seen.changed.iter().map(|object| object.href.as_str()).collect::<Vec<_>>(),
            [href.as_str()]
        );
        both.delete(&href, &version).await.unwrap();
        assert_eq!(both.changes(&collection.href, Some(&seen.state)).await.unwrap().gone, [href]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_leaves_open_what_became_of_a_write() {
    let radicale = Radicale::start().await;
    let url =
        proxy(&radicale.url(), |seen| match (seen.method.as_str(), seen.body.contains("SUMMARY:lost")) {
            ("PUT", true) | ("DELETE", _) => Pass::LoseReply,
            ("PUT", false) => Pass::LoseRequest,
            _ => Pass::On,
        })
        .await;
    let store = account(&settings(url.as_str(), "alice")).await;
    let direct = radicale.account().await;
    let collections = store.collections().await.unwrap();
    let work = &named(&collections, "Arbeit & more").href;
    let href = store.new_href(work, "doubtful");
    // One was done and one was not, and from here both look alike.
    for (summary, is_there) in [("never", false), ("lost", true)] {
        let bytes = event("doubtful", &format!("SUMMARY:{summary}\r\n"));
        let put = store.put(&href, bytes, Expected::Nothing).await;
        assert!(matches!(put, Err(PutFault::Fault(Fault::Unknown(_)))), "{put:?}");
        assert_eq!(direct.get(&href).await.is_ok(), is_there, "{summary}");
    }
    let version = direct.get(&href).await.unwrap().version;
    let delete = store.delete(&href, &version).await;
    assert!(matches!(delete, Err(PutFault::Fault(Fault::Unknown(_)))), "{delete:?}");
    assert!(matches!(direct.get(&href).await, Err(Fault::Gone(_))));
}

#[tokio::test]
async fn where_to_look_comes_from_presets_then_from_dns_and_then_from_the_domain() {
    let txt = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let resolver = name_server(vec![
        ("_caldavs._tcp.example.org", SRV, srv(1, 0, 8443, "dav.example.net")),
        ("_caldavs._tcp.example.org", SRV, srv(2, 0, 443, "other.example.net")),
        ("_caldavs._tcp.example.org", TXT, txt("path=/cal/")),
        ("_carddavs._tcp.example.org", SRV, srv(1, 0, 443, "dav.example.net")),
        ("_carddavs._tcp.example.org", TXT, txt("path=@evil.example/")),
        ("company.example", MX, mx("aspmx.l.google.com")),
    ])
    .await;
    let urls = |address: &'static str, service| {
        let resolver = &resolver;
        async move {
            let found = candidates(&Address::new(address).unwrap(), service, resolver).await;
            found.into_iter().map(String::from).collect::<Vec<_>>()
        }
    };
    assert_eq!(
        urls("ada@example.org", Service::Calendars).await,
        [
            "https://dav.example.net:8443/cal/",
            "https://other.example.net/cal/",
            "https://example.org/.well-known/caldav"
        ]
    );
    assert_eq!(
        urls("ada@example.org", Service::Contacts).await[0],
        "https://dav.example.net/.well-known/carddav"
    );
    assert_eq!(
        urls("ada@nothing.example", Service::Contacts).await,
        ["https://nothing.example/.well-known/carddav"]
    );
    assert_eq!(
        urls("a?b#c/d@company.example", Service::Calendars).await,
        ["https://apidata.googleusercontent.com/caldav/v2/a%3Fb%23c%2Fd%40company.example/user"]
    );
}
