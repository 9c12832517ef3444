//! Subjects and names in encoded words (RFC 2047), and lists of addresses that are folded between them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::text::Mailbox;

/// How many bytes of text fit one encoded word of 75 characters.
const BYTES_MAX: usize = 45;

/// A word longer than this is encoded: headers are folded between words only, and a line has 998 octets at most.
const WORD_MAX: usize = 70;

/// Whether lettre would leave a line too long: it encodes what is beyond ASCII, and never splits a word of ASCII. Or
/// whether it would leave what reads as an encoded word: then the recipient sees another text than the one that was
/// approved.
pub(super) fn needs_encoding(text: &str) -> bool {
    looks_encoded(text) || text.split(' ').any(|word| word.len() > WORD_MAX)
}

fn looks_encoded(text: &str) -> bool {
    text.contains("=?")
}

/// A text as encoded words, one a line.
pub(super) fn encode(text: &str) -> String {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.floor_char_boundary(BYTES_MAX);
        words.push(format!("=?utf-8?B?{}?=", STANDARD.encode(&rest[..at])));
        rest = &rest[at..];
    }
    words.join("\r\n ")
}

/// Mailboxes as the value of a header, one a line: lettre writes them all on one.
pub(super) fn encode_mailboxes(mailboxes: &[Mailbox]) -> String {
    mailboxes.iter().map(encode_mailbox).collect::<Vec<_>>().join(",\r\n ")
}

fn encode_mailbox(mailbox: &Mailbox) -> String {
    match mailbox.name() {
        Some(name) if !name.is_ascii() || looks_encoded(name) => {
            format!("{}\r\n <{}>", encode(name), mailbox.address())
        }
        Some(_) | None => mailbox.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Address;

    #[test]
    fn what_reads_as_an_encoded_word_is_encoded_itself() {
        let evil = "=?utf-8?B?UGF5IEV2ZQ==?=";
        assert!(
            needs_encoding(evil) && needs_encoding(&format!("Lunch {evil}")) && !needs_encoding("Lunch?")
        );
        assert!(!encode(evil).contains("UGF5IEV2ZQ"));
        let mailbox = Mailbox::new(Some(evil), Address::new("ada@example.org").unwrap()).unwrap();
        assert!(!encode_mailboxes(&[mailbox]).contains("UGF5IEV2ZQ"));
    }
}
