//! Finds secrets that stand in the configuration itself.

use helve::secret::{is_secret_name, is_token};

use super::plan::is_literal;
use super::template::{Part, Template};

/// Why a template is refused, if it holds a secret in plain text.
pub(crate) fn refusal(name: &str, template: &Template) -> Option<String> {
    const HINT: &str = "a secret does not belong in the configuration; put it into an environment variable and write `${env:NAME}`";
    let texts = || {
        template.parts().iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Argument(_) | Part::Variable(_) => None,
        })
    };
    let looks_like_token = texts().any(|text| text.split([' ', '=', ':', ';', '"']).any(is_token));
    let under_secret_name =
        is_secret_name(name) && is_literal(template) && texts().any(|text| !text.trim().is_empty());
    (looks_like_token || under_secret_name).then(|| HINT.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_plain_text_are_refused_and_references_are_not() {
        let refused = |name: &str, text: &str| refusal(name, &Template::parse(text).unwrap()).is_some();
        for (name, text) in [
            ("Authorization", "Bearer abc"),
            ("X-Api-Key", "123"),
            ("api_key", "123"),
            ("access_token", "123"),
            ("Cookie", "session=1"),
            ("X-Note", "ghp_0123456789abcdef"),
            ("", "sk-0123456789abcdef"),
            ("Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9${env:REST}"),
        ] {
            assert!(refused(name, text), "{name}: {text}");
        }
        for (name, text) in [
            ("Authorization", "Bearer ${env:TOKEN}"),
            ("X-Api-Key", "{key}"),
            ("Accept", "application/json"),
            ("page_token", "{page}"),
            ("token", ""),
            ("token_type", "bearer"),
            ("max_tokens", "100"),
            ("q", "sk-short"),
        ] {
            assert!(!refused(name, text), "{name}: {text}");
        }
    }
}
