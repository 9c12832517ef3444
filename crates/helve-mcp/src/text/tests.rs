//! What hides, what belongs, and that nothing else changes.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn check(text: &str, expected: &str, found: &[(Hidden, usize)]) {
    let cleaned = clean(text);
    assert_eq!(cleaned.text, expected, "{text:?}");
    let findings: Vec<_> = cleaned.findings.iter().map(|finding| (finding.kind, finding.count)).collect();
    assert_eq!(findings, found, "{text:?}");
}

#[test]
fn what_hides_is_taken_out_and_said() {
    use Hidden::*;
    check("\u{1b}[31;1mred\u{1b}[0m", "red", &[(Escape, 2)]);
    check("\u{9b}31mred", "red", &[(Escape, 1)]);
    check("a\u{1b}]8;;http://evil\u{7}link\u{1b}]8;;\u{1b}\\b", "alinkb", &[(Escape, 2)]);
    check("a\u{9d}0;title\u{9c}b", "ab", &[(Escape, 1)]);
    check("a\u{1b}(0b\u{1b}cd", "abd", &[(Escape, 2)]);
    check("a\u{1b}", "a", &[(Escape, 1)]);
    check("a\u{1b}[", "a", &[(Escape, 1)]);
    check("a\u{1b}[12é", "aé", &[(Escape, 1)]);
    check("safe\rhidden", "safehidden", &[(Control, 1)]);
    check("a\0b\u{8}c\u{7f}", "abc", &[(Control, 3)]);
    check("user\u{202e}gpj.exe\u{2066}", "usergpj.exe", &[(Direction, 2)]);
    check("pay\u{200b}pal\u{feff}\u{ad}\u{3164}", "paypal", &[(Invisible, 4)]);
    check("hi\u{e0049}\u{e0067}", "hi", &[(Tag, 2)]);
    check("x\u{e0100}\u{fe00}", "x", &[(Invisible, 2)]);
    check("\u{f8ff}\u{10fffd}\u{ffff}", "", &[(PrivateUse, 3)]);
    check("one\u{2028}two", "one\ntwo", &[(Control, 1)]);
}

#[test]
fn honest_text_is_untouched_and_not_copied() {
    for text in ["", "plain\n\ttext", "naïve, 日本, Ελλάδα", "👩‍👩‍👧 ❤️ 1️⃣ 🏳️‍🌈 👍🏽", "می‌خواهم", "क्‍ष", "ශ්‍රී"]
    {
        let cleaned = clean(text);
        assert!(matches!(cleaned.text, Cow::Borrowed(_)), "{text:?} became {:?}", cleaned.text);
        assert!(cleaned.findings.is_empty());
    }
    check("one\r\ntwo", "one\ntwo", &[]);
}

#[test]
fn no_character_that_hides_is_stepped_over() {
    for c in '\0'..=char::MAX {
        let mut buffer = [0; 4];
        let bytes = c.encode_utf8(&mut buffer).as_bytes();
        let length = usize::from(HARMLESS[usize::from(bytes[0])]);
        assert!(length == 0 || (kind(c).is_none() && length == bytes.len()), "{c:?}");
    }
}

#[test]
fn joiners_out_of_place_go() {
    check("a\u{200d}b\u{200c}c", "abc", &[(Hidden::Invisible, 2)]);
    check("می\u{200c}\u{200c}خ", "می\u{200c}خ", &[(Hidden::Invisible, 1)]);
    check("👩\u{200d}x", "👩x", &[(Hidden::Invisible, 1)]);
    check("x\u{fe0f}\u{fe0f}", "x", &[(Hidden::Invisible, 2)]);
    check("❤\u{fe0f}\u{fe0f}\u{fe0f}", "❤\u{fe0f}", &[(Hidden::Invisible, 2)]);
}

#[test]
fn a_terminals_string_that_never_ends_takes_nothing_along() {
    check("a\u{1b}]0;the rest", "a0;the rest", &[(Hidden::Escape, 1)]);
    let many = "\u{1b}]x".repeat(200_000);
    assert_eq!(clean(&many).text.len(), 200_000);
}

#[test]
fn findings_are_lines_for_a_person() {
    let words: Vec<_> = clean("\u{1b}[0m\u{e0041}\u{e0041}\u{e000}\u{e001}")
        .findings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        words,
        [
            "1 terminal escape sequence was taken out, which could repaint or hide what a terminal shows",
            "2 tag characters were taken out, which spell out text that models read and people do not see",
            "2 characters without a public meaning were taken out, which could look like anything",
        ]
    );
}

#[test]
fn a_value_is_cleaned_to_its_last_key() {
    let mut value = json!({
        "description": "a\u{200b}b", "n": 1,
        "properties": { "to\u{202e}": { "enum": ["x\0"] }, "to": 1 },
    });
    let findings = clean_json(&mut value, JsonLimits::default()).unwrap();
    assert_eq!(value["description"], "ab");
    assert_eq!(value["properties"], json!({ "to": 1 }));
    assert_eq!(findings.len(), 2);
    let mut value = json!({ "a": ["x\0"] });
    assert_eq!(clean_json(&mut value, JsonLimits::default()).unwrap()[0].kind, Hidden::Control);
    assert_eq!(value, json!({ "a": ["x"] }));
}

#[test]
fn a_value_beyond_the_limits_is_refused() {
    let limits = JsonLimits { bytes: 100, values: 10, depth: 3 };
    assert!(matches!(clean_json(&mut json!("x".repeat(101)), limits), Err(JsonError::TooLarge { .. })));
    assert!(matches!(
        clean_json(&mut json!({ "x".repeat(101): 1 }), limits),
        Err(JsonError::TooLarge { .. })
    ));
    assert!(matches!(
        clean_json(&mut json!([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), limits),
        Err(JsonError::TooMany { .. })
    ));
    assert!(matches!(clean_json(&mut json!([[[[0]]]]), limits), Err(JsonError::TooDeep { .. })));
}

#[test]
fn spaces_of_every_kind_stay() {
    check("10\u{a0}km\u{3000}\u{2800}", "10\u{a0}km\u{3000}\u{2800}", &[]);
}

fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "\u{1b}",
        "[",
        "]",
        "\\",
        "0;",
        "m",
        "\u{7}",
        "\u{9b}",
        "\u{9d}",
        "\u{9c}",
        "\u{200b}",
        "\u{200c}",
        "\u{200d}",
        "\u{fe0f}",
        "\u{202e}",
        "\u{e0041}",
        "\u{e000}",
        "\r",
        "\n",
        "\u{2028}",
        "❤",
        "👩",
        "م",
        "ی",
        "क",
        "a",
        "1",
        "\u{20e3}",
        "\0",
        "é",
        "\u{180b}",
        "ᠠ",
    ]);
    prop_oneof![prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat()), any::<String>(),]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn cleaning_twice_changes_nothing_more(text in hostile()) {
        let once = clean(&text).text.into_owned();
        let again = clean(&once);
        prop_assert_eq!(&again.text, &once);
        prop_assert!(again.findings.is_empty());
    }

    #[test]
    fn nothing_hidden_is_left_but_joiners_that_belong(text in hostile()) {
        for c in clean(&text).text.chars() {
            let joiner = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
            prop_assert!(joiner || kind(c).is_none(), "{c:?} stayed");
        }
    }

    #[test]
    fn what_is_left_stood_there_before_in_the_same_order(text in hostile()) {
        let mut before = text.chars().map(|c| if matches!(c, '\u{2028}' | '\u{2029}') { '\n' } else { c });
        for c in clean(&text).text.chars() {
            prop_assert!(before.any(|b| b == c), "{c:?} was made up");
        }
    }

    #[test]
    fn no_finding_means_no_change_but_line_ends(text in hostile()) {
        let cleaned = clean(&text);
        if cleaned.findings.is_empty() {
            prop_assert_eq!(cleaned.text, text.replace("\r\n", "\n"));
        }
    }
}
