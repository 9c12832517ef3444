//! From bytes to text, as browsers do it: byte order mark, header, what the page says, a guess.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a page its own word about its encoding is looked for.
const PRESCAN_BYTES: usize = 1_024;

/// The text of a page. Bytes that fit no character become replacement characters.
pub(in crate::web) fn decode(bytes: &[u8], content_type: Option<&str>) -> String {
    let by_header = content_type.and_then(|text| label(text.as_bytes()));
    let by_page = || label(&bytes[..bytes.len().min(PRESCAN_BYTES)]).map(not_utf16);
    // `decode` lets a byte order mark win over whatever is said here.
    let encoding = by_header.or_else(by_page).unwrap_or_else(|| guess(bytes));
    encoding.decode(bytes).0.into_owned()
}

/// The encoding that is named behind `charset=`, in a header or in a `<meta>`.
fn label(text: &[u8]) -> Option<&'static Encoding> {
    const NAME: &[u8] = b"charset";
    let at = text.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))?;
    let rest = text[at + NAME.len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or(rest.strip_prefix(b"'")).unwrap_or(rest);
    let end = rest.iter().position(|b| b" \t\r\n;\"'/>".contains(b)).unwrap_or(rest.len());
    Encoding::for_label(&rest[..end])
}

/// A page whose own ASCII words we could read is not UTF-16, whatever they say.
fn not_utf16(encoding: &'static Encoding) -> &'static Encoding {
    if encoding.is_ascii_compatible() { encoding } else { UTF_8 }
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_found_wherever_it_is_said() {
        let cases: [(&[u8], Option<&str>, &str); 9] = [
            (b"caf\xc3\xa9", None, "café"),
            (b"caf\xe9", None, "café"),
            (b"caf\xe9", Some("text/html; charset=ISO-8859-1"), "café"),
            (b"\xef\xbb\xbfcaf\xc3\xa9", Some("text/html; charset=latin1"), "café"),
            (b"\xff\xfeh\0i\0", None, "hi"),
            (b"<meta charset='windows-1251'>\xcf\xf0", None, "<meta charset='windows-1251'>Пр"),
            (b"<meta charset=shift_jis>\x82\xa0", None, "<meta charset=shift_jis>あ"),
            (b"<meta charset=utf-16>a", None, "<meta charset=utf-16>a"),
            (b"a", Some("text/html; charset=nonsense"), "a"),
        ];
        for (bytes, header, expected) in cases {
            assert_eq!(decode(bytes, header), expected, "{header:?}");
        }
    }
}
