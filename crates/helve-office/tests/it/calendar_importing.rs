//! `.ics` and `.vcf` files, and people who are known from them.

use bytes::Bytes;
use helve_office::account::ObjectStore;
use helve_office::import::{ImportError, import_objects};

use crate::calendar_world::World;
use crate::crlf;

async fn contacts(world: &World) -> i64 {
    let rows = world.office.db().collections(Some("local")).await.unwrap();
    rows.iter().find(|row| row.told.contacts).unwrap().id
}

#[tokio::test]
async fn real_exports_are_taken_apart_and_nothing_is_lost() {
    for export in [
        include_str!("exports/apple.ics"),
        include_str!("exports/google.ics"),
        include_str!("exports/nextcloud.ics"),
        include_str!("exports/outlook.ics"),
    ] {
        let world = World::new().await;
        let file = Bytes::from(export.replace("\r\n", "\n").replace('\n', "\r\n"));
        let first = import_objects(&world.store, file.clone()).await.unwrap();
        assert!(first.events + first.tasks > 0 && first.skipped == 0, "{first:?}");
        let mut stored = String::new();
        for collection in ["calendar/", "tasks/"] {
            for object in world.store.changes(collection, None).await.unwrap().changed {
                stored.push_str(std::str::from_utf8(&object.bytes).unwrap());
            }
        }
        for line in std::str::from_utf8(&file).unwrap().split("\r\n") {
            assert!(stored.contains(line), "{line}");
        }
        // Once more changes nothing.
        let again = import_objects(&world.store, file).await.unwrap();
        assert_eq!((again.events, again.tasks, again.skipped), (0, 0, 0), "{again:?}");
        assert_eq!(again.unchanged, first.events + first.tasks);
    }
}

#[tokio::test]
async fn what_is_skipped_is_told_with_the_reason() {
    let world = World::new().await;
    let imported = world
        .import(
            "BEGIN:VJOURNAL
            UID:j
            SUMMARY:Diary
            END:VJOURNAL
            BEGIN:VFREEBUSY
            UID:f
            SUMMARY:Taken
            END:VFREEBUSY
            BEGIN:VEVENT
            SUMMARY:Without UID
            DTSTART:20260302T100000Z
            END:VEVENT
            BEGIN:VTODO
            UID:t
            SUMMARY:A task
            END:VTODO",
        )
        .await;
    assert_eq!((imported.events, imported.tasks, imported.notes, imported.skipped), (1, 1, 1, 1));
    assert_eq!(imported.reasons[0].what, "VFREEBUSY `Taken`");
    world.event("e", "DTSTART:20260302T100000Z\nSUMMARY:First").await;
    let other =
        world.import("BEGIN:VEVENT\nUID:e\nDTSTART:20260302T100000Z\nSUMMARY:Second\nEND:VEVENT").await;
    assert_eq!((other.events, other.skipped), (0, 1), "{other:?}");
    assert!(world.stored("calendar/e.ics").await.contains("SUMMARY:First"));
    for broken in ["", "nothing", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n", "BEGIN:VCALENDAR\r\nEND:VCARD\r\n"] {
        let error = import_objects(&world.store, Bytes::from_static(broken.as_bytes())).await.unwrap_err();
        assert!(matches!(error, ImportError::Parse(_)), "{broken}: {error}");
    }
}

const CARDS: &str = "
    BEGIN:VCARD
    VERSION:3.0
    UID:s
    FN:Sarah Connor
    N:Connor;Sarah;;;
    ORG:Cyberdyne\\, Inc.;Research
    item1.EMAIL;TYPE=work:Sarah@Example.org
    EMAIL:sarah.home@example.com
    X-UNKNOWN:kept
    END:VCARD
    BEGIN:VCARD
    VERSION:4.0
    N:山田;太郎;;;
    FN:山田太郎
    EMAIL:taro@example.jp
    END:VCARD
    BEGIN:VCARD
    VERSION:2.1
    N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:=C3=84rger
    END:VCARD";

#[tokio::test]
async fn contacts_come_from_vcards_of_the_versions_that_can_be_read() {
    let world = World::new().await;
    let imported = import_objects(&world.store, crlf(CARDS).into()).await.unwrap();
    assert_eq!((imported.contacts, imported.skipped), (2, 1), "{imported:?}");
    assert!(imported.reasons[0].why.contains("3.0 or 4.0"), "{imported:?}");
    assert!(world.stored("contacts/s.vcf").await.contains("X-UNKNOWN:kept\r\n"));
    let again = import_objects(&world.store, crlf(CARDS).into()).await.unwrap();
    assert_eq!((again.contacts, again.unchanged), (0, 2));
}

#[tokio::test]
async fn who_sarah_is_is_known_from_contacts_and_invitations() {
    let world = World::new().await;
    import_objects(&world.store, crlf(CARDS).into()).await.unwrap();
    world
        .event("e", "DTSTART:20260302T100000Z\nSUMMARY:Talk\nORGANIZER;CN=Bob Sarahson:mailto:bob@example.org\nATTENDEE;CN=S. Connor:mailto:SARAH@example.org\nATTENDEE:mailto:quiet@example.org")
        .await;
    let rows = world.office.db().collections(Some("local")).await.unwrap();
    let all: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let find = async |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let found = world.office.db().find_people(all.clone(), words, 10).await.unwrap();
        found.into_iter().map(|one| (one.name, one.address, one.role, one.seen)).collect::<Vec<_>>()
    };
    let person = |name: &str, address: &str, role: &str, seen| {
        (name.to_owned(), address.to_owned(), role.to_owned(), seen)
    };
    assert_eq!(
        find(&["sarah"]).await,
        [
            person("Sarah Connor", "sarah@example.org", "contact", 2),
            person("Sarah Connor", "sarah.home@example.com", "contact", 1),
            person("Bob Sarahson", "bob@example.org", "organizer", 1),
        ]
    );
    assert_eq!(find(&["cyberdyne"]).await.len(), 2);
    assert_eq!(find(&["山田"]).await, [person("山田太郎", "taro@example.jp", "contact", 1)]);
    assert_eq!(find(&["田太郎"]).await.len(), 1);
    assert_eq!(find(&["quiet"]).await, [person("", "quiet@example.org", "attendee", 1)]);
    assert_eq!(find(&["sarah\" OR \"bob"]).await, []);
    // What is gone is not found any more.
    let version = world.store.get("contacts/s.vcf").await.unwrap().version;
    world.store.delete("contacts/s.vcf", &version).await.unwrap();
    assert_eq!(find(&["cyberdyne"]).await, []);
    assert_eq!(
        world.office.db().count_objects(contacts(&world).await).await.unwrap(),
        [("contact".to_owned(), 1)]
    );
}
