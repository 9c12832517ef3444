//! MCP messages: what is passed on is the same message, and one line.
#![no_main]

use helve_mcp::message::{Fields, Message, push_line};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    if let Ok(fields) = serde_json::from_slice::<Fields>(text) {
        let again: Fields = serde_json::from_str(fields.to_raw().get()).expect("our own JSON");
        assert_eq!(again.to_raw().get(), fields.to_raw().get());
    }
    let Ok(message) = Message::parse(text) else { return };
    let written = message.to_text();
    let again = Message::parse(written.as_bytes()).expect("we read what we write");
    assert_eq!(again.to_text(), written);
    match (&message, &again) {
        (Message::Request(one), Message::Request(other)) => {
            assert_eq!((&one.id, &one.method), (&other.id, &other.method));
        }
        (Message::Notification(one), Message::Notification(other)) => assert_eq!(one.method, other.method),
        (Message::Response(one), Message::Response(other)) => {
            assert_eq!((&one.id, one.result.is_ok()), (&other.id, other.result.is_ok()));
        }
        _ => panic!("another kind of message"),
    }
    let mut line = Vec::new();
    push_line(&mut line, &written);
    let (end, rest) = line.split_last().expect("it has an end");
    assert!(*end == b'\n' && !rest.contains(&b'\n') && !rest.contains(&b'\r'), "it is one line");
    Message::parse(rest).expect("the line is the message");
});
