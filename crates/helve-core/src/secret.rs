//! What secrets are called, and where they stand in texts: one table for what is recorded, for what
//! configuration may hold and for what MCP servers are given.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::{memchr3_iter, memmem};

/// Names of fields, headers, variables and query parameters whose values are secret. A longer name that ends
/// with one of these is one too: `X-Api-Key`, `GITHUB_TOKEN`, `clientSecret`.
pub const SECRET_NAMES: [&str; 32] = [
    "access_key",
    "access_token",
    "account_key",
    "api_key",
    "api_token",
    "application_key",
    "auth_key",
    "auth_token",
    "authorization",
    "bearer",
    "client_secret",
    "connection_string",
    "cookie",
    "credential",
    "credentials",
    "encryption_key",
    "functions_key",
    "id_token",
    "master_key",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "private_key",
    "refresh_token",
    "secret",
    "secret_key",
    "session_token",
    "shared_key",
    "signing_key",
    "subscription_key",
    "token",
];

/// Tokens that are no secrets: they say where a list goes on, or which request a message is about.
const PUBLIC_NAMES: [&str; 8] = [
    "cancellation_token",
    "continuation_token",
    "next_token",
    "page_token",
    "pagination_token",
    "progress_token",
    "resume_token",
    "sync_token",
];

/// Query parameters that are secret where their value is long: short ones are ordinary words.
const QUERY_NAMES: [&str; 4] = ["auth", "key", "sig", "signature"];

/// The shortest value of a parameter in [`QUERY_NAMES`] that counts as a secret, in bytes.
const QUERY_VALUE_BYTES_MIN: usize = 16;

/// The longest name of a query parameter that is looked at, in bytes.
const PARAMETER_NAME_BYTES_MAX: usize = 64;

/// How tokens of well-known services start.
const TOKEN_PREFIXES: [&str; 24] = [
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "AIza",
    "eyJhbGci",
    "-----BEGIN",
    "hf_",
    "npm_",
    "pypi-",
    "tvly-",
    "ntn_",
    "lin_api_",
    "figd_",
];

static USUAL: LazyLock<Names> = LazyLock::new(|| Names::new(SECRET_NAMES));
static PUBLIC: LazyLock<Names> = LazyLock::new(|| Names::new(PUBLIC_NAMES));
static OF_QUERIES: LazyLock<Names> = LazyLock::new(|| Names::new(QUERY_NAMES));

/// Whether what has this name is a secret by everybody's measure.
///
/// ```
/// use helve_core::secret::is_secret_name;
/// for name in ["password", "X-Api-Key", "Proxy-Authorization", "GITHUB_TOKEN", "accessToken"] {
///     assert!(is_secret_name(name));
/// }
/// for name in ["path", "token_type", "max_tokens", "nextPageToken", "compat"] {
///     assert!(!is_secret_name(name));
/// }
/// ```
pub fn is_secret_name(name: &str) -> bool {
    USUAL.matches(name) && !PUBLIC.matches(name)
}

/// Whether a word looks like a token of a well-known service.
pub fn is_token(word: &str) -> bool {
    word.len() >= 16 && TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// Where the password of the first address in a text stands, as in `https://me:password@host`.
pub fn password_in_address(text: &str) -> Option<Range<usize>> {
    passwords(text).next()
}

/// Names that are compared without case, `-` and `_`, at the end of longer ones as well.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    folded: Vec<Box<[u8]>>,
    /// One bit for each pair of letters that some name ends with: most keys are ruled out by it.
    endings: u64,
}

impl Names {
    pub(crate) fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let fold = |name: S| -> Box<[u8]> {
            let bytes = name.as_ref().bytes().filter(|byte| !is_separator(*byte));
            bytes.map(|byte| byte.to_ascii_lowercase()).collect()
        };
        let folded: Vec<_> = names.into_iter().map(fold).filter(|name| !name.is_empty()).collect();
        let endings = folded.iter().fold(0, |bits, name| bits | ending_bit(name.iter().rev().copied()));
        Self { folded, endings }
    }

    pub(crate) fn matches(&self, key: &str) -> bool {
        // `password1` and `tokens[]` are passwords and tokens; `sha256` ends in no name anyway.
        let key = key.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | '[' | ']'));
        let letters = key.bytes().rev().filter(|byte| !is_separator(*byte));
        self.endings & ending_bit(letters.map(|byte| byte.to_ascii_lowercase())) != 0
            && self.folded.iter().any(|name| ends_with_word(key.as_bytes(), name))
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'-' | b'_' | b'.' | b' ')
}

/// Several pairs of letters share a bit.
fn ending_bit(mut backwards: impl Iterator<Item = u8>) -> u64 {
    let (last, before) = (backwards.next().unwrap_or(0), backwards.next().unwrap_or(0));
    1 << ((u32::from(last) * 31 + u32::from(before)) % 64)
}

/// Whether a key ends with a folded name, and a word of the key begins where the name does: `compat` is no
/// `pat`. Bytes, since reading letters would cost more than all the rest.
fn ends_with_word(key: &[u8], name: &[u8]) -> bool {
    let mut at = key.len();
    for wanted in name.iter().rev() {
        let Some(found) = key[..at].iter().rposition(|byte| !is_separator(*byte)) else { return false };
        if key[found].to_ascii_lowercase() != *wanted {
            return false;
        }
        at = found;
    }
    let Some(before) = at.checked_sub(1).map(|before| key[before]) else { return true };
    let is_hump = key[at].is_ascii_uppercase()
        && (!before.is_ascii_uppercase() || key.get(at + 1).is_some_and(u8::is_ascii_lowercase));
    !before.is_ascii_alphanumeric() || is_hump
}

/// Where secrets stand in a text, in order: query parameters that `is_secret` names, and passwords in
/// addresses.
pub(crate) fn in_text(text: &str, is_secret: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<_> = parameters(text, is_secret).chain(passwords(text)).collect();
    found.sort_unstable_by_key(|range| range.start);
    found.dedup_by(|next, kept| next.start < kept.end);
    found
}

/// The values of query parameters with a secret name.
fn parameters(text: &str, is_secret: impl Fn(&str) -> bool) -> impl Iterator<Item = Range<usize>> {
    memchr3_iter(b'?', b'&', b'#', text.as_bytes()).filter_map(move |mark| {
        let name = text[mark + 1..].bytes().take(PARAMETER_NAME_BYTES_MAX + 1);
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.[]".contains(byte);
        let equals = mark + 1 + name.take_while(is_letter).count();
        if text.as_bytes().get(equals) != Some(&b'=') {
            return None;
        }
        let (name, value) = (&text[mark + 1..equals], &text[equals + 1..]);
        let ends =
            |c: char| c.is_whitespace() || matches!(c, '&' | '#' | '"' | '\'' | '<' | '>' | '`' | '\\');
        let length = value.find(ends).unwrap_or(value.len());
        let is_reference = value.starts_with("${") || value.starts_with('{');
        let counts = is_secret(name) || (length >= QUERY_VALUE_BYTES_MIN && OF_QUERIES.matches(name));
        (length > 0 && !is_reference && counts).then_some(equals + 1..equals + 1 + length)
    })
}

fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    memmem::find_iter(text.as_bytes(), "://").filter_map(|at| {
        let start = at + "://".len();
        let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>');
        let authority = text[start..].split(is_end).next()?;
        let (user, _) = authority.rsplit_once('@')?;
        let (name, password) = user.split_once(':')?;
        let from = start + name.len() + 1;
        (!password.is_empty() && !password.contains("${")).then(|| from..from + password.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_in_every_spelling() {
        for name in [
            "Authorization",
            "Proxy-Authorization",
            "X-Api-Key",
            "x-goog-api-key",
            "X-Auth-Token",
            "X-Vault-Token",
            "Private-Token",
            "X-Amz-Security-Token",
            "Ocp-Apim-Subscription-Key",
            "Set-Cookie",
            "GITHUB_TOKEN",
            "APIKEY",
            "clientSecret",
            "accessToken",
            "IDToken",
            "DB_PASSWORD",
            "password1",
            "api_key_2",
            "GITHUB_PAT",
            "pat",
            "aws.secret.access.key",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "",
            "-",
            "PATH",
            "token_type",
            "max_tokens",
            "OPENAI_COMPAT",
            "TOKEN_FILE",
            "secret_path",
            "nextPageToken",
            "page_token",
            "progressToken",
            "monkey",
            "key",
            "spwd",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn secrets_in_addresses_are_found_wherever_they_stand() {
        let found = |text: &'static str| -> Vec<&str> {
            in_text(text, is_secret_name).into_iter().map(|range| &text[range]).collect()
        };
        assert_eq!(found("https://x.example/a?q=1&token=t0ken&b=2#access_token=abcd"), ["t0ken", "abcd"]);
        assert_eq!(found("see <a href=\"/f?api_key=k1\">, or /g?X-Auth-Token=k2."), ["k1", "k2."]);
        assert_eq!(found("postgres://me:hunter2@db.example/x?password=p4ss word"), ["hunter2", "p4ss"]);
        assert_eq!(found("https://x.example/?key=AIzaSyA0123456789abcdef"), ["AIzaSyA0123456789abcdef"]);
        assert_eq!(found("https://x.example/?sig=0123456789abcdef"), ["0123456789abcdef"]);
        for harmless in [
            "",
            "?",
            "why? token=1",
            "a && b=c",
            "https://x.example/?key=PROJ-1",
            "https://x.example/?pageToken=abcdef&q=token",
            "https://x.example/?token=${env:TOKEN}",
            "https://x.example/?token=",
            "https://me@x.example/",
            "?é=1&ü",
        ] {
            assert!(found(harmless).is_empty(), "{harmless}");
        }
    }
}
