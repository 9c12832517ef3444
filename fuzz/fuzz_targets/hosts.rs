//! URLs that a model chose, and host patterns: nothing private is allowed under whatever spelling, and a pattern means
//! the same after it was written and read again.
#![no_main]

use std::io;
use std::sync::{Arc, LazyLock};

use helve_net::{HostPattern, Lookup, NetPolicy, Verdict, address, check};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

fuzz_target!(|text: &str| {
    if let Ok(pattern) = text.parse::<HostPattern>() {
        let again: HostPattern = pattern.to_string().parse().expect("our own pattern");
        assert_eq!(again, pattern);
    }
    // No name has an address, so only addresses that stand in the URL itself can be allowed.
    let lookup: Lookup = Arc::new(|_| Box::pin(async { Err(io::ErrorKind::NotFound.into()) }));
    let report = RUNTIME.block_on(check(&NetPolicy::default(), text, &lookup));
    if report.verdict == Verdict::Allow {
        let host = report.host.expect("an allowed URL has a host");
        let found: std::net::IpAddr = host.parse().expect("names have no address here");
        assert!(address::special(address::unwrap_embedded(found)).is_none(), "`{text}` leads inside");
    }
});
