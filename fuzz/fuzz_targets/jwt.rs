//! Tokens of strangers: the header on the first line, the claims on the second, or a whole token where there is one line.
#![no_main]

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use helve_server::jwt::read_token;
use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;

const ISSUER: &str = "https://login.test";
const AUDIENCE: &str = "https://helve.test/mcp";
const NOW_S: i64 = 1_800_000_000;
const LEEWAY_S: f64 = 30.0;

fuzz_target!(|text: &str| {
    let token = match text.split_once('\n') {
        Some((header, claims)) => {
            let coded = |part: &str| BASE64_URL_SAFE_NO_PAD.encode(part);
            format!("{}.{}.{}", coded(header), coded(claims), coded("signature"))
        }
        None => text.to_owned(),
    };
    let now = Timestamp::from_second(NOW_S).expect("a time");
    let Some((claims, until)) = read_token(&token, ISSUER, AUDIENCE, now) else { return };
    assert_eq!(token.matches('.').count(), 2);
    assert!(token.len() <= 8_192 && claims.is_object());
    let Some(until) = until else { return };
    // A second reading of what makes claims good.
    assert_eq!(claims["iss"], ISSUER);
    let audiences = match &claims["aud"] {
        serde_json::Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let is_ours = |said: &serde_json::Value| {
        said.as_str().is_some_and(|said| said.trim_end_matches('/') == AUDIENCE.trim_end_matches('/'))
    };
    assert!(audiences.iter().any(is_ours));
    let seconds = |name: &str| claims[name].as_f64();
    assert!(seconds("exp").is_some_and(|exp| exp > NOW_S as f64 - LEEWAY_S - 1.0));
    assert!(until.as_second() as f64 > NOW_S as f64 - LEEWAY_S - 1.0);
    for name in ["nbf", "iat"] {
        assert!(
            claims[name].is_null() || seconds(name).is_some_and(|from| from <= NOW_S as f64 + LEEWAY_S + 1.0)
        );
    }
});
