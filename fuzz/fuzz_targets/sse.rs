//! Server-sent events: how the network cuts a stream changes nothing, and no event is beyond the limit.
#![no_main]

use helve_mcp::client::read_events;
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 64;

fuzz_target!(|input: &[u8]| {
    let Some((&cut, stream)) = input.split_first() else { return };
    let whole = read_events(&[stream], LIMIT);
    let size = usize::from(cut % 16) + 1;
    let pieces: Vec<&[u8]> = stream.chunks(size).collect();
    assert_eq!(read_events(&pieces, LIMIT), whole, "cut every {size} bytes");
    for event in &whole.0 {
        // Three fields, each within the limit; Debug escapes a byte with ten at most.
        assert!(event.len() <= 3 * 10 * LIMIT + 100, "an event beyond the limit");
    }
});
