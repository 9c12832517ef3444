//! Finds secrets that stand where a reference belongs.

use std::ops::Range;

pub(crate) use helve::secret::is_secret_name;
use helve::secret::{is_token, password_in_address};

/// Whether what stands under this name is a secret in plain text, by its name or by its looks.
pub(crate) fn is_plain_secret(name: &str, text: &str) -> bool {
    is_secret_value(text) || (is_secret_name(name) && could_be_secret(text))
}

/// Whether an address has a secret in plain text in it.
pub(crate) fn has_plain_secret(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    is_secret_value(url) || pairs.any(|(name, value)| is_plain_secret(name, value))
}

/// Switches, numbers of one digit and references are no secrets, whatever they are called.
pub(crate) fn could_be_secret(text: &str) -> bool {
    let switch = ["true", "false", "yes", "no", "on", "off", "none", "null"];
    let text = text.trim();
    text.len() > 1 && !text.contains("${env:") && !switch.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a text holds a secret, whatever its name: a well-known token, or a password in an
/// address.
pub(crate) fn is_secret_value(text: &str) -> bool {
    embedded_secret(text).is_some()
}

/// Where in a text something stands that is a secret by its looks.
pub(crate) fn embedded_secret(text: &str) -> Option<Range<usize>> {
    let token =
        text.split([' ', '=', ':', ';', '"', '\'', ',', '/', '?', '&', '@']).find(|word| is_token(word));
    let token = token.and_then(|token| text.find(token).map(|at| at..at + token.len()));
    token.or_else(|| password_in_address(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name_or_by_look() {
        for name in [
            "Authorization",
            "X-Api-Key",
            "GITHUB_TOKEN",
            "clientSecret",
            "DB_PASSWORD",
            "GITHUB_PAT",
            "pat",
            "Cookie",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in
            ["PATH", "token_type", "OPENAI_COMPAT", "max_tokens", "TOKEN_FILE", "Accept", "secret_path", ""]
        {
            assert!(!is_secret_name(name), "{name}");
        }
        for text in [
            "ghp_0123456789abcdef",
            "Bearer sk-0123456789abcdef",
            "--key=xoxb-0123456789abcdef",
            "postgres://me:hunter2@db.example/x",
        ] {
            assert!(is_secret_value(text), "{text}");
        }
        for text in [
            "sk-short",
            "https://a.example/x@y:z",
            "postgres://me@db/x",
            "postgres://me:${env:PW}@db/x",
            "-y",
            "",
        ] {
            assert!(!is_secret_value(text), "{text}");
        }
        assert_eq!(embedded_secret("postgres://me:e@db/x"), Some(14..15));
    }

    #[test]
    fn switches_and_references_are_no_secrets() {
        for (name, text, secret) in [
            ("API_KEY", "hush", true),
            ("API_KEY", "1", false),
            ("USE_TOKEN", "True", false),
            ("API_KEY", "${env:A}", false),
            ("API_KEY", " ", false),
            ("NOTE", "ghp_0123456789abcdef", true),
        ] {
            assert_eq!(is_plain_secret(name, text), secret, "{name}={text}");
        }
        assert!(has_plain_secret("https://a.example/?x=1&exaApiKey=hush"));
        assert!(!has_plain_secret("https://a.example/?x=1&exaApiKey=${env:A}&y"));
    }
}
