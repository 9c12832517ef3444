//! Folder names in modified UTF-7 (RFC 3501, section 5.1.3), as servers write and want them.

use base64::Engine as _;
use base64::alphabet::IMAP_MUTF7;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

const BASE64: GeneralPurpose = GeneralPurpose::new(&IMAP_MUTF7, NO_PAD);

/// A name as people read it. None where it is not what the RFC says.
pub(super) fn decode(name: &str) -> Option<String> {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('&') {
        let (coded, behind) = after.split_once('-')?;
        plain.push_str(before);
        match coded {
            "" => plain.push('&'),
            coded => plain.push_str(&utf16(coded)?),
        }
        rest = behind;
    }
    plain.push_str(rest);
    Some(plain)
}

fn utf16(coded: &str) -> Option<String> {
    let bytes = BASE64.decode(coded).ok().filter(|bytes| bytes.len() % 2 == 0)?;
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    String::from_utf16(&units).ok()
}

/// A name as servers want it.
pub(super) fn encode(name: &str) -> String {
    let mut coded = String::with_capacity(name.len() + 8);
    let mut beyond: Vec<u8> = Vec::new();
    for c in name.chars() {
        if (' '..='~').contains(&c) {
            close(&mut coded, &mut beyond);
            coded.push(c);
            if c == '&' {
                coded.push('-');
            }
        } else {
            let mut units = [0; 2];
            beyond.extend(c.encode_utf16(&mut units).iter().flat_map(|unit| unit.to_be_bytes()));
        }
    }
    close(&mut coded, &mut beyond);
    coded
}

fn close(coded: &mut String, beyond: &mut Vec<u8>) {
    if !beyond.is_empty() {
        coded.push('&');
        coded.push_str(&BASE64.encode(&*beyond));
        coded.push('-');
        beyond.clear();
    }
}

/// For the fuzz targets: a folder's name as people read it.
#[cfg(fuzzing)]
pub fn decode_folder(name: &str) -> Option<String> {
    decode(name)
}

/// For the fuzz targets: a folder's name as servers want it.
#[cfg(fuzzing)]
pub fn encode_folder(name: &str) -> String {
    encode(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_the_rfc_does() {
        for (plain, coded) in [
            ("Entwürfe", "Entw&APw-rfe"),
            ("~peter/mail/台北/日本語", "~peter/mail/&U,BTFw-/&ZeVnLIqe-"),
            ("Q&A", "Q&-A"),
            ("📬", "&2D3c7A-"),
            ("INBOX", "INBOX"),
        ] {
            assert_eq!(encode(plain), coded);
            assert_eq!(decode(coded).as_deref(), Some(plain));
        }
    }

    #[test]
    fn what_is_not_utf7_is_not_guessed() {
        for broken in ["a&b", "&2D0-", "&AA-", "&!!-"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }
}
