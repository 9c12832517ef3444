//! Content lines: nothing is lost that no edit names.

use bytes::Bytes;
use helve_office::ical::{
    Component, DateValue, Document, DurationValue, EditError, Eol, Limits, NewProperty, ParseError,
    PeriodValue, escape, split_list, unescape,
};
use proptest::prelude::*;

use crate::{calendar, printed};

fn first(document: &Document) -> &Component {
    document.events("VEVENT").next().unwrap()
}

fn event(lines: &str) -> Document {
    let text = format!("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n{lines}END:VEVENT\r\nEND:VCALENDAR\r\n");
    Document::parse(text.as_bytes()).unwrap()
}

#[test]
fn odd_documents_are_printed_as_they_came() {
    for text in [
        "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n",
        "BEGIN:VCALENDAR\nEND:VCALENDAR",
        "\u{feff}begin:vcalendar\r\nend:VCALENDAR\r\n\r\n",
        "BEGIN:VCALENDAR\r\n\r\nDESCRIPTION:a\r\n b\r\n\tc\r\n\r\nno colon here\r\nX:\u{7}\r\nEND:VCALENDAR\r\n",
        "BEGIN:VCARD\nitem1.EMAIL;type=INTERNET:a@b\nTEL;HOME:1\nEND:VCARD\nBEGIN:VCARD\nEND:VCARD\n",
        "BEGIN:VCALENDAR\r\nA;B=\"c:d;e\":f\nG:h\r\n \r\n \r\nEND:VCALENDAR\r\n",
    ] {
        assert_eq!(printed(&Document::parse(text.as_bytes()).unwrap()), text);
    }
    let broken = b"BEGIN:VCALENDAR\r\nSUMMARY:\xff\xfe\r\nEND:VCALENDAR\r\n";
    assert_eq!(Document::parse(broken).unwrap().print(), broken, "bytes that are no UTF-8 stay");
}

#[test]
fn folds_are_undone_on_octets_even_within_a_character() {
    let bytes = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Gr\xc3\r\n \xbc\xc3\r\n\t\x9fe\r\n  and more\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    let document = Document::parse(bytes).unwrap();
    assert_eq!(first(&document).property("summary").unwrap().value(), "Grüße and more");
    let split = event("SUMM\r\n ARY:x\r\n");
    assert_eq!(first(&split).property("SUMMARY").unwrap().value(), "x", "even the name may be folded");
}

#[test]
fn new_lines_are_folded_between_characters_at_75_octets() {
    let text = "ü".repeat(200);
    let mut document = event("");
    document.events_mut("VEVENT").next().unwrap().add(&NewProperty::text("SUMMARY", &text).unwrap());
    let printed = printed(&document);
    assert!(printed.split("\r\n").all(|line| line.len() <= 75));
    assert!(printed.split("\r\n").filter(|line| line.starts_with(' ')).count() >= 5);
    let read = Document::parse(printed.as_bytes()).unwrap();
    assert_eq!(first(&read).property("SUMMARY").unwrap().text_value(), text);
}

#[test]
fn parameters_are_read_with_quotes_carets_and_commas() {
    let document = event(
        "ATTENDEE;CN=\"Lovelace, Ada: ^'Countess^' ^^ ^n\";ROLE=CHAIR;MEMBER=\"mailto:a@b\",\"mailto:c@d\":mailto:ada@example.org\r\n\
         DTSTART;TZID=\"(UTC+01:00) Amsterdam, Berlin\":20260301T100000\r\n\
         X-ODD;FLAG;A=;B=\"open:value\r\nX-EMPTY;:\r\n",
    );
    let event = first(&document);
    let attendee = event.property("ATTENDEE").unwrap();
    assert_eq!(attendee.value(), "mailto:ada@example.org");
    assert_eq!(attendee.param("cn").unwrap(), "Lovelace, Ada: \"Countess\" ^ \n");
    assert_eq!(attendee.param("ROLE").unwrap(), "CHAIR");
    let members: Vec<_> = attendee.params().last().unwrap().values().collect();
    assert_eq!(members, ["mailto:a@b", "mailto:c@d"]);
    assert_eq!(event.property("DTSTART").unwrap().param("TZID").unwrap(), "(UTC+01:00) Amsterdam, Berlin");
    let odd = event.property("X-ODD").unwrap();
    assert_eq!((odd.value(), odd.param("FLAG").as_deref(), odd.param("NONE")), ("value", Some(""), None));
    assert_eq!(event.property("X-EMPTY").unwrap().value(), "");
}

#[test]
fn written_parameters_are_read_back() {
    let value = "a \"quoted\", ^caret; colon: and\nline";
    let property = NewProperty::raw("X-A", "v").unwrap().with_param("P", value).unwrap();
    let mut document = event("");
    document.events_mut("VEVENT").next().unwrap().add(&property);
    let read = Document::parse(&document.print()).unwrap();
    assert_eq!(first(&read).property("X-A").unwrap().param("P").unwrap(), value);
}

#[test]
fn edits_write_where_the_standard_wants_it() {
    let stored = "UID:1\r\nSUMMARY;LANGUAGE=de:alt\r\nsummary:second\r\nX-A:1\r\nBEGIN:VALARM\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\n";
    let mut document = event(stored);
    let component = document.events_mut("VEVENT").next().unwrap();
    component.set(&NewProperty::text("SUMMARY", "new").unwrap());
    component.set(&NewProperty::text("LOCATION", "Room 1; left").unwrap());
    component.add(&NewProperty::raw("X-A", "2").unwrap());
    assert_eq!(component.remove("NONE"), 0);
    let expected = "UID:1\r\nSUMMARY:new\r\nX-A:1\r\nLOCATION:Room 1\\; left\r\nX-A:2\r\nBEGIN:VALARM\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\n";
    assert!(printed(&document).contains(expected), "{}", printed(&document));
    let component = document.events_mut("VEVENT").next().unwrap();
    assert_eq!(component.remove_where("X-A", |property| property.value() == "1"), 1);
    assert_eq!(component.all("X-A").map(|property| property.value().to_owned()).collect::<Vec<_>>(), ["2"]);
    let mut kept = event(stored);
    let component = kept.events_mut("VEVENT").next().unwrap();
    assert_eq!(component.set_value("SUMMARY", "neu"), Ok(true));
    assert_eq!(component.set_value("NONE", "x"), Ok(false));
    assert!(printed(&kept).contains("SUMMARY;LANGUAGE=de:neu\r\nsummary:second\r\n"));
}

#[test]
fn new_lines_end_as_those_around_them() {
    let mut document =
        Document::parse(b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VEVENT\nEND:VCALENDAR\n").unwrap();
    document.events_mut("VEVENT").next().unwrap().add(&NewProperty::text("A", &"x".repeat(100)).unwrap());
    assert!(!printed(&document).contains('\r'));
}

#[test]
fn nothing_that_ends_a_line_can_be_written() {
    for c in ['\r', '\n', '\0', '\u{b}', '\u{7f}', '\u{85}'] {
        let value = format!("a{c}ATTENDEE:mailto:eve@example.org");
        assert_eq!(NewProperty::raw("X", &value), Err(EditError::Control("X".into())));
        let mut document = event("SUMMARY:a\r\n");
        assert!(document.events_mut("VEVENT").next().unwrap().set_value("SUMMARY", &value).is_err());
        for name in [format!("X{c}Y"), "X:Y".into(), "X;Y".into(), String::new(), "X Y".into(), "É".into()] {
            assert!(NewProperty::raw(&name, "v").is_err(), "{name:?}");
            assert!(Component::new(&name, Eol::Crlf).is_err());
        }
        if c != '\n' {
            assert!(NewProperty::text("X", &value).is_err(), "{c:?}");
            assert!(NewProperty::raw("X", "v").unwrap().with_param("P", &value).is_err());
        }
    }
}

#[test]
fn documents_that_cannot_be_trusted_are_refused() {
    let refused = |text: &str| Document::parse(text.as_bytes()).unwrap_err().to_string();
    for (text, expected) in [
        ("", "this is no calendar or contact: it has no `BEGIN:` line"),
        ("\r\n\r\n", "this is no calendar or contact: it has no `BEGIN:` line"),
        ("<html>", "line 1 stands outside of `BEGIN:` and `END:`"),
        ("BEGIN:A\nEND:A\nX:1\n", "line 3 stands outside of `BEGIN:` and `END:`"),
        ("BEGIN:A\nBEGIN:B\nEND:A\n", "line 3 ends a `A`, but `B` is open"),
        ("END:A\n", "line 1 ends a `A`, but `nothing` is open"),
        ("BEGIN:A\nX:1\n", "`A` is never ended: the data is cut off"),
    ] {
        assert_eq!(refused(text), expected);
    }
}

#[test]
fn size_depth_and_number_have_limits() {
    let limits = Limits { bytes: 1000, lines: 20, components: 5, depth: 3 };
    let within = |text: &str| Document::parse_within(Bytes::copy_from_slice(text.as_bytes()), limits);
    let large = |max, unit| Err(ParseError::TooLarge { max, unit });
    assert_eq!(within(&"x".repeat(1001)), large(1000, "bytes"));
    assert_eq!(within(&format!("BEGIN:A\n{}END:A\n", "X:\n".repeat(19))), large(20, "lines"));
    assert_eq!(within(&"BEGIN:A\nEND:A\n".repeat(6)), large(5, "components"));
    assert_eq!(within(&"BEGIN:A\n".repeat(4)), large(3, "components inside each other"));
    let deep = "BEGIN:A\n".repeat(3_000_000);
    assert!(matches!(Document::parse(deep.as_bytes()), Err(ParseError::TooLarge { .. })));
}

#[test]
fn values_are_read_and_written() {
    for text in ["20260301", "20260301T123456", "20260301T123456Z", "00010101"] {
        assert_eq!(DateValue::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(DateValue::parse("20161231T235960Z").unwrap().to_string(), "20161231T235959Z");
    for text in [
        "",
        "2026",
        "20260230",
        "20260301T",
        "20260301T250000",
        "20260301T123456X",
        "２０２６０３０１",
        "2026-03-01",
        "20260301é",
    ] {
        assert!(DateValue::parse(text).is_err(), "{text}");
    }
    for (text, days, seconds, written) in [
        ("P1D", 1, 0, "P1D"),
        ("P2W", 14, 0, "P14D"),
        ("PT1H30M", 0, 5400, "PT1H30M"),
        ("-PT15M", 0, -900, "-PT15M"),
        ("+P1DT2H3M4S", 1, 7384, "P1DT2H3M4S"),
        ("PT0S", 0, 0, "PT0S"),
        ("P7D", 7, 0, "P7D"),
    ] {
        let value = DurationValue::parse(text).unwrap();
        assert_eq!(
            (value.days, value.seconds, value.to_string().as_str()),
            (days, seconds, written),
            "{text}"
        );
    }
    for text in
        ["", "P", "PT", "1D", "P1H", "PT1D", "P1", "PTT1H", "P99999999999999999999D", "P400000D", "PT1H-"]
    {
        assert!(DurationValue::parse(text).is_err(), "{text}");
    }
    assert!(PeriodValue::parse("20260301T100000Z/PT1H").is_ok());
    assert!(PeriodValue::parse("20260301T100000Z/20260301T110000Z").is_ok());
    assert!(PeriodValue::parse("20260301T100000Z").is_err());
}

#[test]
fn lists_are_split_where_no_backslash_stands() {
    assert_eq!(split_list("a\\,b,c\\\\,d").collect::<Vec<_>>(), ["a\\,b", "c\\\\", "d"]);
    assert_eq!(
        unescape("C:\\temp\\new"),
        "C:\\temp\new",
        "a path that nobody escaped is read as well as it can be"
    );
}

/// A line of a document: often a property, folded or not, sometimes nonsense.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Z-]{1,12}(;[A-Z]{1,5}=[a-zA-Z0-9^'.]{0,8}){0,3}:[^\\x00-\\x1f]{0,100}",
        "[a-z]{1,5}\\.[A-Z]{1,8}:[^\\x00-\\x1f]{0,20}",
        "[^\\x00-\\x1f]{0,30}",
        "SUMMARY:[^\\x00-\\x1f]{0,40}\r\n [^\\x00-\\x1f]{0,40}\n\t[a-z]{0,9}",
    ]
    .prop_filter("the tree is given by others", |line| {
        let start = line.trim_start_matches('\u{feff}').to_ascii_uppercase();
        let is_tree = ["BEGIN", "END"].iter().any(|word| start.starts_with(word))
            || [".BEGIN", ".END"].iter().any(|word| start.contains(word));
        !is_tree && !line.starts_with([' ', '\t'])
    })
}

fn document() -> impl Strategy<Value = String> {
    let lines = || proptest::collection::vec((line(), prop_oneof![Just("\r\n"), Just("\n")]), 0..8);
    let joined =
        |lines: Vec<(String, &str)>| lines.into_iter().map(|(line, end)| line + end).collect::<String>();
    (lines(), lines(), lines()).prop_map(move |(a, b, c)| {
        format!(
            "BEGIN:VCALENDAR\r\n{}BEGIN:VEVENT\r\n{}BEGIN:VALARM\nEND:VALARM\nEND:VEVENT\r\n{}END:VCALENDAR\r\n",
            joined(a),
            joined(b),
            joined(c)
        )
    })
}

proptest! {
    #[test]
    fn what_is_read_is_printed_as_it_was(text in document()) {
        prop_assert_eq!(printed(&Document::parse(text.as_bytes()).unwrap()), text);
    }

    /// Whatever bytes come, reading ends, and what could be read is printed as it was.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut whole = b"BEGIN:A\r\n".to_vec();
        whole.extend(bytes);
        whole.extend(b"\r\nEND:A\r\n");
        if let Ok(document) = Document::parse(&whole) {
            prop_assert_eq!(document.print(), whole);
            for property in document.components().flat_map(Component::properties) {
                let _ = (property.params().count(), property.text_value());
            }
        }
    }

    /// An edit touches the lines that it names, and no others.
    #[test]
    fn an_edit_touches_only_what_it_names(text in document(), value in "[^\\x00-\\x1f\\x7f-\\x9f]{0,120}") {
        let mut document = Document::parse(text.as_bytes()).unwrap();
        let before: Vec<Vec<u8>> = first(&document)
            .lines()
            .filter(|line| !line.property().is_some_and(|property| property.is_named("SUMMARY")))
            .map(|line| line.raw().to_vec())
            .collect();
        let event = document.events_mut("VEVENT").next().unwrap();
        event.set(&NewProperty::text("SUMMARY", &value).unwrap());
        let read = Document::parse(&document.print()).unwrap();
        prop_assert_eq!(first(&read).property("SUMMARY").unwrap().text_value(), value);
        document.events_mut("VEVENT").next().unwrap().remove("SUMMARY");
        let after: Vec<Vec<u8>> = first(&document).lines().map(|line| line.raw().to_vec()).collect();
        prop_assert_eq!(after, before);
        let outside = |text: &str| text.split("BEGIN:VEVENT").next().unwrap().to_owned();
        prop_assert_eq!(outside(&printed(&document)), outside(&text));
    }

    #[test]
    fn text_is_unescaped_as_it_was_escaped(text in "[^\\r]{0,60}") {
        prop_assert_eq!(unescape(&escape(&text)), text.clone());
        let escaped = escape(&text);
        prop_assert_eq!(split_list(&escaped).count(), 1);
    }
}

#[test]
fn a_calendar_can_be_built_from_nothing() {
    let mut calendar_ = Component::new("VCALENDAR", Eol::Crlf).unwrap();
    calendar_.add(&NewProperty::raw("VERSION", "2.0").unwrap());
    calendar_.push(Component::new("VEVENT", Eol::Crlf).unwrap());
    let built = Document::of(calendar_);
    assert_eq!(printed(&built), printed(&calendar("BEGIN:VEVENT\nEND:VEVENT\n")));
}
