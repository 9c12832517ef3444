//! What an IMAP server answers, and folder names in its alphabet.
#![no_main]

use helve_office::imap::{decode_folder, encode_folder, read_responses};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|stream: &[u8]| {
    assert!(read_responses(stream) <= stream.len(), "more values than bytes");
    if let Ok(name) = std::str::from_utf8(stream) {
        let coded = encode_folder(name);
        assert!(coded.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{coded:?}");
        assert_eq!(decode_folder(&coded).as_deref(), Some(name));
        let _ = decode_folder(name);
    }
});
