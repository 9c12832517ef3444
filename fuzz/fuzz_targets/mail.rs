//! Mails of strangers: what is shown acts on nobody, pages add up to the body, and attachments have safe names.
//!
//! A long run may end with `Invalid part ID` of mail-parser 0.11.9, for attached messages in a row whose parts are cut short.
//! That is a check which only debug builds have; where it fails, a release build takes the mail as it is.
#![no_main]

use helve_office::mail::{Body, Mail};
use libfuzzer_sys::fuzz_target;

fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fuzz_target!(|message: &[u8]| {
    let Ok(mail) = Mail::read(message) else { return };
    assert!(is_plain(&mail.subject), "{:?}", mail.subject);
    for person in mail.from.iter().chain(&mail.to).chain(&mail.cc).chain(&mail.reply_to) {
        assert!(is_plain(&person.address) && person.name.as_deref().is_none_or(is_plain), "{person:?}");
        if let Some(mailbox) = person.mailbox() {
            assert!(is_plain(&mailbox.to_string()));
        }
    }
    for file in &mail.attachments {
        assert!(is_plain(&file.name) && !file.name.contains(['/', '\\']) && !file.name.starts_with('.'));
        let bytes = Mail::attachment(message, file.part).expect("it was listed");
        assert_eq!(bytes.len(), file.bytes);
    }
    if let Body::Text(body) = &mail.body {
        let (mut read, mut from) = (String::new(), Some(0));
        while let Some(at) = from {
            let page = mail.page(at, 50);
            assert!(!page.text.is_empty() || page.next.is_none(), "a page that never ends");
            read.push_str(page.text);
            from = page.next;
        }
        assert_eq!(&read, body);
    }
    let _ = Mail::html(message);
});
