//! Addresses in arguments that lead outside.

use serde_json::Value;

/// Most values that are looked at.
const LOOK_MAX: usize = 10_000;

/// Whether some text in the arguments names a mail or web address that is not of one of these
/// domains, or below one. Without domains nothing is outside, since nobody has said what is inside.
pub(crate) fn leads_outside(arguments: &Value, own: &[String]) -> bool {
    let mut left = LOOK_MAX;
    !own.is_empty() && found(arguments, own, &mut left)
}

fn found(value: &Value, own: &[String], left: &mut usize) -> bool {
    // Arguments that are too large to look through may name anything.
    let Some(less) = left.checked_sub(1) else { return true };
    *left = less;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => hosts(text).any(|host| !is_own(&host, own)),
        Value::Array(items) => items.iter().any(|item| found(item, own, left)),
        Value::Object(fields) => fields.values().any(|field| found(field, own, left)),
    }
}

/// What stands after `@` and `://` in a text, in lower case.
fn hosts(text: &str) -> impl Iterator<Item = String> + '_ {
    let after = |mark: &'static str| text.match_indices(mark).map(move |(at, _)| &text[at + mark.len()..]);
    after("@").chain(after("://")).filter_map(|rest| {
        let is_host = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-');
        let end = rest.find(|c| !is_host(c)).unwrap_or(rest.len());
        // `user:pass@host` has its host after the `@`, which is found by itself.
        let host = rest[..end].trim_matches('.').to_lowercase();
        (!host.is_empty()).then_some(host)
    })
}

fn is_own(host: &str, own: &[String]) -> bool {
    own.iter().any(|domain| {
        let domain = domain.trim_matches('.').to_lowercase();
        host.strip_suffix(&domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::leads_outside;
    use serde_json::json;

    #[test]
    fn addresses_of_others_lead_outside() {
        let own = ["example.com".to_owned()];
        for inside in [
            json!({ "to": "Ada <ada@Example.com>" }),
            json!({ "url": "https://docs.example.com/a" }),
            json!({ "text": "see you at 5", "n": 7 }),
        ] {
            assert!(!leads_outside(&inside, &own), "{inside}");
        }
        for outside in [
            json!({ "to": ["ada@example.com", "eve@evil.org"] }),
            json!({ "deep": { "url": "https://example.com.evil.org" } }),
            json!({ "to": "ada@notexample.com" }),
            json!({ "url": "https://example.com@evil.org/" }),
        ] {
            assert!(leads_outside(&outside, &own), "{outside}");
            assert!(!leads_outside(&outside, &[]));
        }
    }
}
