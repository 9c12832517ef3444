//! Encodings: which one a file has, and the way there and back.

use bytes::Bytes;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};
use faststr::FastStr;

/// How much of a file is looked at to find out what it is.
pub(super) const SNIFF_BYTES: usize = 8 * 1024;
/// How much text is shown to the detector of old encodings.
const DETECT_BYTES: usize = 64 * 1024;

/// What the bytes of a file are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Text in an encoding, after so many bytes of byte order mark.
    Text { encoding: &'static Encoding, bom: usize },
    /// Something else, in a word where it is known.
    Binary(&'static str),
}

/// What bytes are. `head` is where the file begins; `piece` is the part that is wanted of it.
pub(super) fn detect(head: &[u8], piece: &[u8]) -> Kind {
    // Its mark begins as the one of UTF-16 does.
    if is_utf_32(head) {
        return Kind::Binary(UTF_32);
    }
    if let Some((encoding, bom)) = Encoding::for_bom(head) {
        return Kind::Text { encoding, bom };
    }
    let sniffed = &head[..head.len().min(SNIFF_BYTES)];
    if memchr::memchr(0, sniffed).is_some() {
        return match utf_16_without_mark(sniffed) {
            Some(encoding) => Kind::Text { encoding, bom: 0 },
            None => Kind::Binary(binary_kind(head)),
        };
    }
    if speaks_japanese(sniffed) {
        return Kind::Text { encoding: ISO_2022_JP, bom: 0 };
    }
    if is_utf_8(sniffed) && is_utf_8(piece) {
        return Kind::Text { encoding: UTF_8, bom: 0 };
    }
    if binary_kind(head) != UNKNOWN || has_many_controls(sniffed) || memchr::memchr(0, piece).is_some() {
        return Kind::Binary(binary_kind(head));
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    let shown = if is_utf_8(sniffed) { piece } else { head };
    detector.feed(&shown[..shown.len().min(DETECT_BYTES)], true);
    Kind::Text { encoding: detector.guess(None, Utf8Detection::Deny), bom: 0 }
}

/// Text in an encoding that no decoder of ours knows.
pub(super) const UTF_32: &str = "text in UTF-32";

/// Whether a file begins with the mark of UTF-32.
pub(super) fn is_utf_32(head: &[u8]) -> bool {
    head.starts_with(b"\xFF\xFE\0\0") || head.starts_with(b"\0\0\xFE\xFF")
}

/// Whether an encoding that nobody named and no mark tells was made out by how the bytes look.
pub(super) fn is_guess(encoding: &'static Encoding, bom: usize) -> bool {
    bom == 0 && encoding != UTF_8 && encoding != ISO_2022_JP
}

/// Whether a file that begins like this may be UTF-8. Cheap, and no proof.
pub(super) fn may_be_utf_8(head: &[u8]) -> bool {
    let sniffed = &head[..head.len().min(SNIFF_BYTES)];
    memchr::memchr(0, sniffed).is_none() && !is_utf_16(sniffed) && !speaks_japanese(sniffed)
}

/// Whether bytes are ISO-2022-JP: nothing but ASCII, and the sequences that change to Japanese characters and back.
fn speaks_japanese(bytes: &[u8]) -> bool {
    const CHANGES: [&[u8]; 3] = [b"\x1B$B", b"\x1B$@", b"\x1B(J"];
    if memchr::memchr(0x1B, bytes).is_none() || !bytes.is_ascii() {
        return false;
    }
    let changes = CHANGES.iter().any(|change| memchr::memmem::find(bytes, change).is_some());
    changes && ISO_2022_JP.decode_without_bom_handling_and_without_replacement(bytes).is_some()
}

/// The encoding that a call names, with the bytes of its byte order mark: that says which of the two UTF-16 it is.
pub(super) fn with_mark(named: &'static Encoding, head: &[u8]) -> (&'static Encoding, usize) {
    let is_wide = |encoding: &'static Encoding| encoding == UTF_16LE || encoding == UTF_16BE;
    match Encoding::for_bom(head) {
        Some((marked, bom)) if is_wide(marked) && is_wide(named) => (marked, bom),
        Some(_) | None => (named, 0),
    }
}

/// Whether a file that begins like this is UTF-16.
pub(super) fn is_utf_16(head: &[u8]) -> bool {
    let sniffed = &head[..head.len().min(SNIFF_BYTES)];
    match Encoding::for_bom(sniffed) {
        Some((encoding, _)) => encoding == UTF_16LE || encoding == UTF_16BE,
        None => memchr::memchr(0, sniffed).is_some() && utf_16_without_mark(sniffed).is_some(),
    }
}

/// Whether bytes are UTF-8, but for characters that are cut off at either end.
fn is_utf_8(bytes: &[u8]) -> bool {
    let bytes = &bytes[cut_at_start(bytes)..];
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

/// How many bytes at the start belong to a character that began before.
pub(super) fn cut_at_start(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..0xC0).contains(*byte)).count()
}

/// Text in UTF-16 is mostly Latin somewhere: then every second byte is zero.
fn utf_16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let zeros = |from: usize| bytes.iter().skip(from).step_by(2).filter(|byte| **byte == 0).count();
    let (even, odd, pairs) = (zeros(0), zeros(1), bytes.len() / 2);
    let mostly = |many: usize, few: usize| many * 10 >= pairs * 4 && few * 50 <= pairs && pairs > 0;
    match (mostly(odd, even), mostly(even, odd)) {
        (true, false) => Some(UTF_16LE),
        (false, true) => Some(UTF_16BE),
        (true, true) | (false, false) => None,
    }
}

fn has_many_controls(bytes: &[u8]) -> bool {
    let is_control = |byte: &&u8| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127);
    bytes.iter().filter(is_control).count() * 20 > bytes.len()
}

const UNKNOWN: &str = "binary data";

fn binary_kind(head: &[u8]) -> &'static str {
    const KINDS: [(&[u8], &str); 14] = [
        (b"\x89PNG", "a PNG image"),
        (b"\xFF\xD8\xFF", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive, or a document that is one"),
        (b"\x1F\x8B", "gzip data"),
        (b"\x28\xB5\x2F\xFD", "zstd data"),
        (b"BZh", "bzip2 data"),
        (b"\xFD7zXZ", "xz data"),
        (b"\x7FELF", "a program"),
        (b"MZ", "a Windows program"),
        (b"\0asm", "a WebAssembly module"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"OggS", "an Ogg recording"),
    ];
    KINDS.iter().find(|(magic, _)| head.starts_with(magic)).map_or(UNKNOWN, |(_, kind)| kind)
}

/// The name of an encoding as our tools say it.
pub(super) fn name_of(encoding: &'static Encoding, bom: usize) -> String {
    let name = encoding.name().to_ascii_lowercase();
    if encoding == UTF_8 && bom > 0 { "utf-8-bom".to_owned() } else { name }
}

/// A whole text file, with what it takes to write it back as it was.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) text: String,
    encoding: &'static Encoding,
    bom: Vec<u8>,
}

/// Reads a whole file as text, in the encoding that is named or that is found out; else says what it is.
pub(super) fn decode(bytes: Vec<u8>, named: Option<&'static Encoding>) -> Result<Decoded, &'static str> {
    let (encoding, bom) = match (named, detect(&bytes, &bytes)) {
        (Some(named), _) => with_mark(named, &bytes),
        (None, Kind::Text { encoding, bom }) => (encoding, bom),
        (None, Kind::Binary(what)) => return Err(what),
    };
    if encoding == UTF_8 && bom == 0 {
        return String::from_utf8(bytes)
            .map(|text| Decoded { text, encoding, bom: Vec::new() })
            .map_err(|_| "text that is not quite UTF-8");
    }
    let (text, had_errors) = encoding.decode_without_bom_handling(&bytes[bom..]);
    let decoded = Decoded { text: text.into_owned(), encoding, bom: bytes[..bom].to_vec() };
    // What does not come back as it was would be changed where nobody asked for it.
    match !had_errors && decoded.encode(&decoded.text).as_ref() == Ok(&bytes) {
        true => Ok(decoded),
        false => Err("text in an encoding that cannot be written back as it was"),
    }
}

impl Decoded {
    /// Text in the file's own encoding; else the first character that it has no place for.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u8>, char> {
        let mut bytes = self.bom.clone();
        // The web's encoder writes no UTF-16.
        if self.encoding == UTF_16LE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        } else if self.encoding == UTF_16BE {
            bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
        } else {
            let (encoded, _, had_errors) = self.encoding.encode(text);
            if had_errors {
                let alien = |char: &char| self.encoding.encode(char.encode_utf8(&mut [0; 4])).2;
                return Err(text.chars().find(alien).unwrap_or('?'));
            }
            bytes.extend_from_slice(&encoded);
        }
        Ok(bytes)
    }

    pub(super) fn encoding(&self) -> String {
        name_of(self.encoding, self.bom.len())
    }
}

/// Bytes as text without a copy, or the bytes again where they are none.
pub(super) fn utf_8(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    let bytes = Bytes::from(bytes);
    let text = FastStr::from_bytes(bytes.clone());
    match text {
        Ok(text) => {
            // The text is the last to hold them then, and need not copy.
            drop(bytes);
            Ok(text.into())
        }
        Err(_) => Err(bytes.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf_16(text: &str, mark: bool) -> Vec<u8> {
        let mark = if mark { vec![0xFF, 0xFE] } else { Vec::new() };
        mark.into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
    }

    fn kind(bytes: &[u8]) -> String {
        match detect(bytes, bytes) {
            Kind::Text { encoding, bom } => name_of(encoding, bom),
            Kind::Binary(what) => what.to_owned(),
        }
    }

    #[test]
    fn encodings_and_binary_data_are_told_apart() {
        for (bytes, expected) in [
            (b"plain".to_vec(), "utf-8"),
            (b"".to_vec(), "utf-8"),
            ("grüße".into(), "utf-8"),
            ("grüße".as_bytes()[1..4].to_vec(), "utf-8"),
            (b"\xEF\xBB\xBFx".to_vec(), "utf-8-bom"),
            (utf_16("hello there", true), "utf-16le"),
            (utf_16("hello there", false), "utf-16le"),
            (b"Gr\xFC\xDFe aus K\xF6ln, sch\xF6n war es\n".to_vec(), "windows-1252"),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec(), "a PNG image"),
            (b"\x1F\x8B\x08\xAA\xBB\xCC".to_vec(), "gzip data"),
            (vec![0; 100], "binary data"),
            (b"\xFF\xFE\0\0h\0\0\0".to_vec(), UTF_32),
            (b"\0\0\xFE\xFF\0\0\0h".to_vec(), UTF_32),
            ((0..=255).collect(), "binary data"),
        ] {
            assert_eq!(kind(&bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn text_goes_back_into_its_own_encoding() {
        let latin = b"sch\xF6n war es in K\xF6ln\n".to_vec();
        for bytes in [b"x\n".to_vec(), b"\xEF\xBB\xBFx".to_vec(), utf_16("hello there", true), latin.clone()]
        {
            let decoded = decode(bytes.clone(), None).unwrap();
            assert_eq!(decoded.encode(&decoded.text).unwrap(), bytes);
        }
        assert_eq!(decode(latin, None).unwrap().encode("日"), Err('日'));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_back_as_they_were_or_refused(bytes in proptest::collection::vec(0u8.., 0..200)) {
            if let Ok(decoded) = decode(bytes.clone(), None) {
                assert_eq!(decoded.encode(&decoded.text).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn text_of_bytes_is_no_copy() {
        for length in [0, 5, 100, 70_000] {
            let bytes = vec![b'a'; length];
            let at = bytes.as_ptr();
            let text = utf_8(bytes).unwrap();
            assert_eq!(text, "a".repeat(length));
            assert!(length < 1_000 || text.as_ptr() == at);
        }
        let mut bytes = "ä".repeat(50_000).into_bytes();
        assert!(utf_8(bytes.clone()).is_ok());
        bytes.truncate(99_999);
        assert_eq!(utf_8(bytes.clone()), Err(bytes));
    }
}
