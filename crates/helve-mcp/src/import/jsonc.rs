//! JSON as people write it: with comments, and a comma after the last item.

/// The same document as plain JSON. What is wrong stays wrong, for the parser to say so.
pub(super) fn to_json(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut json = Vec::with_capacity(text.len());
    // Where the last thing stands that is neither space nor comment.
    let mut last: Option<usize> = None;
    let mut at = 0;
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            (b'"', _) => {
                let end = string_end(text, at + 1);
                last = Some(json.len());
                json.extend_from_slice(&text[at..end]);
                at = end;
            }
            (b'/', Some(b'/')) => {
                at += text[at..].iter().position(|b| *b == b'\n').unwrap_or(text.len() - at)
            }
            (b'/', Some(b'*')) => {
                let end = text[at + 2..].windows(2).position(|pair| pair == b"*/");
                at = end.map_or(text.len(), |end| at + 2 + end + 2);
                json.push(b' ');
            }
            (byte, _) => {
                if matches!(byte, b'}' | b']')
                    && let Some(comma) = last.filter(|last| json[*last] == b',')
                {
                    json[comma] = b' ';
                }
                if !byte.is_ascii_whitespace() {
                    last = Some(json.len());
                }
                json.push(byte);
                at += 1;
            }
        }
    }
    json
}

fn string_end(text: &[u8], mut at: usize) -> usize {
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn parse(text: &str) -> Option<Value> {
        serde_json::from_slice(&to_json(text.as_bytes())).ok()
    }

    #[test]
    fn comments_and_last_commas_go() {
        let text =
            "\u{feff}{ // one\n \"a//b\": \"/* x */, ]\", /* two\n */ \"c\": [1, 2, /* , */ ], // , }\n}";
        assert_eq!(parse(text), Some(json!({ "a//b": "/* x */, ]", "c": [1, 2] })));
        assert_eq!(parse(r#"{"a": "\",}", }"#), Some(json!({ "a": "\",}" })));
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        for text in ["{\"a\": 1,,}", "{\"a\" /* ", "\"abc", "\"abc\\", "/", "{,,}", "// all"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn plain_json_is_left_as_it_is(text in r#"\{"[a-z/*,]{0,6}": ?(\["[]},/*"\\]?"\]|[0-9]{1,3}|"[]},/ *]{0,5}")\}"#) {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(parse(&text), Some(value));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop::sample::select(b"\"\\/*,]}[{ \n1a\xff".to_vec()), 0..40)) {
            let _ = to_json(&bytes);
        }
    }
}
