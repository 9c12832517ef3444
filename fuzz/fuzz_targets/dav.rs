//! What a CalDAV or CardDAV server answers: nothing in it leads off the server or out of the collection.
#![no_main]

use std::sync::LazyLock;

use helve_net::Url;
use helve_office::dav::read_multistatus;
use helve_office::web::{Login, WebSettings};
use libfuzzer_sys::fuzz_target;
use percent_encoding::percent_decode_str;

const ASKED: &str = "/calendars/ada/work/";

static HOME: LazyLock<Url> = LazyLock::new(|| Url::parse("https://dav.test/").expect("a URL"));
static SETTINGS: LazyLock<WebSettings> =
    LazyLock::new(|| WebSettings::new(HOME.clone(), Login::password("ada", "secret")));

fuzz_target!(|answer: &[u8]| {
    let Some((places, props)) = read_multistatus(&SETTINGS, ASKED, answer) else { return };
    assert!(places.len() + props <= answer.len());
    for place in places {
        assert_eq!(place.origin(), HOME.origin());
        let path = percent_decode_str(place.path()).collect::<Vec<u8>>();
        assert!(path.starts_with(ASKED.trim_end_matches('/').as_bytes()), "`{place}` is elsewhere");
        assert!(!place.path().split('/').any(|part| part == ".."), "`{place}`");
        assert!(place.query().is_none() && place.fragment().is_none() && place.username().is_empty());
    }
});
