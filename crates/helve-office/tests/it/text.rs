//! Arguments of every kind, honest and not.

use helve_office::text::{
    Address, CalendarText, FolderName, HeaderValue, Mailbox, MessageId, Problem, Recipients, Refusal,
    SearchWords, Subject,
};
use proptest::prelude::*;

type Check = fn(&str) -> Result<(), Refusal>;

/// Every check that takes one line, by its name.
fn one_line_checks() -> [(&'static str, Check); 7] {
    [
        ("address", |text| Address::new(text).map(drop)),
        ("mailbox", |text| Mailbox::parse(text).map(drop)),
        ("subject", |text| Subject::new(text).map(drop)),
        ("header", |text| HeaderValue::new(text).map(drop)),
        ("message id", |text| MessageId::new(text).map(drop)),
        ("folder", |text| FolderName::new(text).map(drop)),
        ("words", |text| SearchWords::new(text).map(drop)),
    ]
}

#[test]
fn nothing_that_acts_on_its_reader_passes_in_any_place_of_any_field() {
    let hidden = [
        '\r',
        '\n',
        '\0',
        '\t',
        '\u{7}',
        '\u{1b}',
        '\u{7f}',
        '\u{85}',
        '\u{9b}',
        '\u{2028}',
        '\u{2029}',
        '\u{200b}',
        '\u{200d}',
        '\u{200e}',
        '\u{202e}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{ad}',
        '\u{e0041}',
        '\u{e000}',
    ];
    for (field, check) in one_line_checks() {
        for c in hidden {
            for text in [
                format!("{c}ada@example.org"),
                format!("ada{c}@example.org"),
                format!("ada@exa{c}mple.org"),
                format!("ada@example.org{c}x"),
            ] {
                assert!(check(&text).is_err(), "{field} took U+{:04X} in {text:?}", u32::from(c));
            }
        }
    }
    for c in hidden.into_iter().filter(|c| !matches!(c, '\n' | '\t')) {
        assert!(CalendarText::new(&format!("a{c}b")).is_err(), "calendar text took U+{:04X}", u32::from(c));
    }
}

#[test]
fn a_refusal_says_what_to_change_and_does_not_repeat_the_text() {
    let said = |result: Result<(), Refusal>| result.unwrap_err().to_string();
    for (found, expected) in [
        (
            said(Subject::new("Hi\r\nBcc: eve@example.org").map(drop)),
            "subject has a line break at character 3; write it on one line",
        ),
        (
            said(Subject::new("Hi\u{202e}").map(drop)),
            "subject has a right-to-left override (U+202E) at character 3; remove it",
        ),
        (said(Subject::new("  ").map(drop)), "subject is empty; give at least one character"),
        (said(Subject::new(&"x".repeat(999)).map(drop)), "subject has 999 characters; the limit is 998"),
        (
            said(HeaderValue::new("a\tb").map(drop)),
            "header value has a tab (U+0009) at character 2; remove it",
        ),
        (
            said(FolderName::new("Work/*").map(drop)),
            "folder has a `*` or `%`, which IMAP takes for a pattern; give the exact name of one folder",
        ),
        (
            said(Address::new("nobody").map(drop)),
            "address is no mail address: it has no `@`; give one such as `ada@example.org`",
        ),
        (
            said(CalendarText::new("a\0b").map(drop)),
            "text has a control character (U+0000) at character 2; remove it",
        ),
        (
            said(Recipients::new(&["ada@example.org".into()], &[], &["x".into()]).map(drop)),
            "bcc[0] is no mail address: it has no `@`; give one such as `ada@example.org`",
        ),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn honest_text_in_any_script_passes() {
    for text in [
        "Grüße aus Köln",
        "会議のお知らせ　七月",
        "اجتماع فريق العمل",
        "می‌خواهم",
        "Team 👩‍👩‍👧 and ❤️",
        "50 % *off*",
        "naïve “quoted” – text",
        "क्‍ष",
    ] {
        assert_eq!(Subject::new(text).unwrap().as_str(), text);
        assert_eq!(CalendarText::new(text).unwrap().as_str(), text);
        SearchWords::new(text).unwrap();
    }
    assert_eq!(Subject::new(&"ü".repeat(998)).unwrap().as_str().len(), 1996);
    assert_eq!(CalendarText::new("a\r\nb\n\tc").unwrap().as_str(), "a\nb\n\tc");
}

#[test]
fn addresses_are_those_that_mail_can_go_to() {
    for (text, expected) in [
        ("ada@example.org", Some("ada@example.org")),
        ("Ada.Love+tag@Example.ORG", Some("Ada.Love+tag@example.org")),
        ("o'brien@example.co.uk", Some("o'brien@example.co.uk")),
        ("info@müller.example", Some("info@xn--mller-kva.example")),
        ("x@例え.テスト", Some("x@xn--r8jz45g.xn--zckzah")),
        ("x@p\u{430}ypal.example", Some("x@xn--pypal-4ve.example")),
        ("ada", None),
        ("@example.org", None),
        ("ada@", None),
        ("ada@localhost", None),
        ("ada@example..org", None),
        ("ada@.example.org", None),
        ("ada@example.org.", None),
        ("ada@-example.org", None),
        ("ada@127.0.0.1", None),
        ("ada@[127.0.0.1]", None),
        ("ada@example.123", None),
        ("ada@exam%70le.org", None),
        ("ada@exa_mple.org", None),
        (".ada@example.org", None),
        ("ada..b@example.org", None),
        ("a b@example.org", None),
        ("\"a b\"@example.org", None),
        ("a@b@example.org", None),
        ("ada@example.org,eve@example.org", None),
        ("ada@example.org>", None),
        ("<ada@example.org>", None),
        ("ädä@example.org", None),
        ("ada(comment)@example.org", None),
    ] {
        assert_eq!(Address::new(text).ok().as_ref().map(Address::as_str), expected, "{text}");
    }
    assert!(Address::new(&format!("{}@example.org", "a".repeat(65))).is_err());
    assert!(Address::new(&format!("a@{}.org", "b".repeat(64))).is_err());
    assert!(Address::new(&format!("a@{}org", "bcd.".repeat(80))).is_err());
    assert!(Address::new(&format!("a@{}", "é.".repeat(1 << 20))).is_err());
}

#[test]
fn names_of_mailboxes_are_read_and_written_with_their_quotes() {
    for (text, name, written) in [
        ("ada@example.org", None, "ada@example.org"),
        (" Ada Lovelace <ada@example.org> ", Some("Ada Lovelace"), "Ada Lovelace <ada@example.org>"),
        ("<ada@example.org>", None, "ada@example.org"),
        ("\"Lovelace, Ada\" <ada@example.org>", Some("Lovelace, Ada"), "\"Lovelace, Ada\" <ada@example.org>"),
        (
            "\"a \\\"b\\\" \\\\c\" <ada@example.org>",
            Some("a \"b\" \\c"),
            "\"a \\\"b\\\" \\\\c\" <ada@example.org>",
        ),
        ("田中　太郎 <t@example.org>", Some("田中　太郎"), "\"田中　太郎\" <t@example.org>"),
        (
            "ada@example.org <ada@example.org>",
            Some("ada@example.org"),
            "\"ada@example.org\" <ada@example.org>",
        ),
    ] {
        let mailbox = Mailbox::parse(text).unwrap();
        assert_eq!((mailbox.name(), mailbox.to_string().as_str()), (name, written));
        assert_eq!(Mailbox::parse(written).unwrap(), mailbox, "{written} is read as it was written");
    }
    for text in [
        "Ada <ada@example.org",
        "Ada <ada@example.org> x",
        "\"Ada <ada@example.org>",
        "\"a\" b <a@b.org>",
        "boss@example.org <eve@evil.example>",
        "a <b> <c@d.org>",
        "A: a@b.org, c@d.org;",
    ] {
        assert!(Mailbox::parse(text).is_err(), "{text}");
    }
}

#[test]
fn recipients_are_fifty_at_most_and_each_once() {
    let many = |count: usize| (0..count).map(|i| format!("a{i}@example.org")).collect::<Vec<_>>();
    assert_eq!(Recipients::new(&many(25), &many(25), &[]).unwrap().envelope().count(), 25);
    let refusal = Recipients::new(&many(30), &[], &many(21)).unwrap_err();
    assert_eq!(refusal.to_string(), "to has 51 addresses in to, cc and bcc; the limit is 50");
    assert_eq!(Recipients::new(&[], &[], &[]).unwrap_err().problem, Problem::Empty);
    let both = Recipients::new(&["a@b.org".into()], &["A <A@B.org>".into()], &["c@d.org".into()]).unwrap();
    assert_eq!((both.to().len(), both.cc().len(), both.bcc().len()), (1, 0, 1));
}

#[test]
fn message_ids_are_kept_as_others_wrote_them() {
    for text in ["<a@b>", "<odd..id@[x]y>", "<no-at-sign>", "<a@b@c>"] {
        assert_eq!(MessageId::new(text).unwrap().as_str(), text);
    }
    assert_eq!(MessageId::new("a@b").unwrap().as_str(), "<a@b>");
    for text in ["", "<>", "<a> <b>", "<a@b>\r\nBcc: x@y.org", "<é@b>", "<a<b>", &"x".repeat(251)] {
        assert!(MessageId::new(text).is_err(), "{text:?}");
    }
}

#[test]
fn words_to_search_for_have_no_meaning_beyond_their_letters() {
    let words = |text: &str| SearchWords::new(text).unwrap().words().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words("c++ budget-2026 OR ada@example.org"), ["c++", "budget-2026", "OR", "ada@example.org"]);
    assert_eq!(words("\"quarterly report\" q3 \"open"), ["quarterly report", "q3", "open"]);
    assert!(SearchWords::new("\"\" \" \"").is_err());
    assert!(SearchWords::new(&"a ".repeat(21)).is_err());
    assert!(SearchWords::new(&"a".repeat(501)).is_err());
}

proptest! {
    /// What passes has no character that could end its line, whatever it was made of.
    #[test]
    fn what_passes_stays_on_its_line(text in "\\PC{0,20}[\\x00-\\x1f\\u{80}-\\u{a0}\\u{200b}-\\u{202f}]{0,3}\\PC{0,20}") {
        for (field, check) in one_line_checks() {
            if check(&text).is_ok() {
                prop_assert!(!text.chars().any(char::is_control), "{field} took {text:?}");
            }
        }
        if let Ok(address) = Address::new(&text) {
            prop_assert!(address.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
        }
    }

    #[test]
    fn a_mailbox_is_read_as_it_was_written(name in "[a-zA-Zäß,.\"\\\\ ()<>;:]{1,20}") {
        let address = Address::new("ada@example.org").unwrap();
        if let Ok(mailbox) = Mailbox::new(Some(&name), address) {
            prop_assert_eq!(Mailbox::parse(&mailbox.to_string()).unwrap(), mailbox);
        }
    }
}
