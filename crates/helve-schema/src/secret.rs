//! What secrets are called, and where they stand in texts: one table for what is recorded, for what
//! configuration may hold and for what MCP servers are given.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use percent_encoding::percent_decode_str;

/// Names of fields, headers, variables and query parameters whose values are secret. A longer name that ends
/// with one of these is one too: `X-Api-Key`, `GITHUB_TOKEN`, `clientSecret`.
pub const SECRET_NAMES: [&str; 36] = [
    "access_key",
    "access_token",
    "account_key",
    "api_key",
    "api_token",
    "application_key",
    "assertion",
    "auth",
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
    "jwt",
    "master_key",
    "otp",
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

/// The longest text that is searched for tokens, in bytes.
const TOKEN_TEXT_BYTES_MAX: usize = 4 << 10;

/// The shortest word after `Bearer` that is no ordinary one, in bytes.
const BEARER_BYTES_MIN: usize = 12;

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

static USUAL: LazyLock<Names> = LazyLock::new(|| Names::anywhere(SECRET_NAMES));
static PUBLIC: LazyLock<Names> = LazyLock::new(|| Names::anywhere(PUBLIC_NAMES));
static OF_QUERIES: LazyLock<Names> = LazyLock::new(|| Names::of_words(QUERY_NAMES));

/// Names this short must begin a word: `compat` is no `pat`. Longer ones may also end one, as in `PGPASSWORD`.
const WORD_BYTES_MAX: usize = 4;

/// Whether what has this name is a secret by everybody's measure.
///
/// ```
/// use helve_schema::secret::is_secret_name;
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
    folded: Vec<Name>,
    /// One bit for each pair of letters that some name ends with: most keys are ruled out by it.
    endings: u64,
}

#[derive(Debug, Clone)]
struct Name {
    folded: Box<[u8]>,
    stands: Stands,
}

/// Where a name may stand at the end of a longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// A word must begin with it.
    AtWord,
    Anywhere,
}

impl Names {
    /// Names that stand for themselves and at the end of longer ones, where a word begins with them.
    pub(crate) fn of_words<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::new(names, usize::MAX)
    }

    /// The same, and within words if they are not short.
    fn anywhere<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::new(names, WORD_BYTES_MAX)
    }

    fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>, word_bytes_max: usize) -> Self {
        let fold = |name: S| {
            let bytes = name.as_ref().bytes().filter(|byte| !is_separator(*byte));
            let folded: Box<[u8]> = bytes.map(|byte| byte.to_ascii_lowercase()).collect();
            let stands = if folded.len() > word_bytes_max { Stands::Anywhere } else { Stands::AtWord };
            Name { folded, stands }
        };
        let folded: Vec<_> = names.into_iter().map(fold).filter(|name| !name.folded.is_empty()).collect();
        let endings =
            folded.iter().fold(0, |bits, name| bits | ending_bit(name.folded.iter().rev().copied()));
        Self { folded, endings }
    }

    /// Whether a key has one of these names. A number at its end and a plural make no difference, but for
    /// `tokens`: those are mostly counted.
    pub(crate) fn matches(&self, key: &str) -> bool {
        let key = key.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | '[' | ']'));
        let tokens = key.len().checked_sub("tokens".len()).and_then(|at| key.get(at..));
        let is_count = tokens.is_some_and(|end| end.eq_ignore_ascii_case("tokens"));
        let one = key.strip_suffix(['s', 'S']).filter(|_| !is_count);
        self.matches_end(key) || one.is_some_and(|one| self.matches_end(one))
    }

    fn matches_end(&self, key: &str) -> bool {
        let letters = key.bytes().rev().filter(|byte| !is_separator(*byte));
        self.endings & ending_bit(letters.map(|byte| byte.to_ascii_lowercase())) != 0
            && self.folded.iter().any(|name| ends_with(key.as_bytes(), name))
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

/// Whether a key ends with a name. Bytes, since reading letters would cost more than all the rest.
fn ends_with(key: &[u8], name: &Name) -> bool {
    let mut at = key.len();
    for wanted in name.folded.iter().rev() {
        let Some(found) = key[..at].iter().rposition(|byte| !is_separator(*byte)) else { return false };
        if key[found].to_ascii_lowercase() != *wanted {
            return false;
        }
        at = found;
    }
    let Some(before) = at.checked_sub(1).map(|before| key[before]) else { return true };
    let is_hump = key[at].is_ascii_uppercase()
        && (!before.is_ascii_uppercase() || key.get(at + 1).is_some_and(u8::is_ascii_lowercase));
    name.stands == Stands::Anywhere || !before.is_ascii_alphanumeric() || is_hump
}

/// Where secrets stand in a text, in order: query parameters that `is_secret` names, passwords in addresses,
/// and in short texts tokens of well-known services and what follows `Bearer`.
pub(crate) fn in_text(text: &str, is_secret: impl Fn(&str) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<_> = parameters(text, is_secret).chain(passwords(text)).chain(tokens(text)).collect();
    found.sort_unstable_by_key(|range| range.start);
    found.dedup_by(|next, kept| next.start < kept.end);
    found
}

/// The values of query parameters with a secret name.
///
/// INVARIANT: it takes time in proportion to the text, which may be a stranger's: no part is searched for the
/// end of a value twice.
fn parameters(text: &str, is_secret: impl Fn(&str) -> bool) -> impl Iterator<Item = Range<usize>> {
    let ends = |c: char| c.is_whitespace() || matches!(c, '&' | '#' | '"' | '\'' | '<' | '>' | '`' | '\\');
    let mut known_end = 0;
    let is_mark = |(_, byte): &(usize, u8)| matches!(byte, b'?' | b'&' | b'#' | b';');
    let after_marks = text.bytes().enumerate().filter(is_mark).map(|(mark, _)| mark + 1);
    // A form's body begins with its first parameter.
    std::iter::once(0).chain(after_marks).filter_map(move |start| {
        let name = text[start..].bytes().take(PARAMETER_NAME_BYTES_MAX + 1);
        let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.[]%+".contains(byte);
        let equals = start + name.take_while(is_letter).count();
        if text.as_bytes().get(equals) != Some(&b'=') {
            return None;
        }
        let name = percent_decode_str(&text[start..equals]).decode_utf8_lossy();
        let (name, value) = (name.trim_matches(['+', ' ']), &text[equals + 1..]);
        if known_end < equals + 1 {
            known_end = equals + 1 + value.find(ends).unwrap_or(value.len());
        }
        let length = known_end - (equals + 1);
        let is_reference = value.starts_with("${") || value.starts_with('{');
        let counts = is_secret(name) || (length >= QUERY_VALUE_BYTES_MIN && OF_QUERIES.matches(name));
        (length > 0 && !is_reference && counts).then_some(equals + 1..equals + 1 + length)
    })
}

/// Tokens in a text that is short enough to be a header or a setting.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let text = if text.len() <= TOKEN_TEXT_BYTES_MAX { text } else { "" };
    let is_between = |c: char| c.is_whitespace() || "=:;\"',/?&@()<>".contains(c);
    let mut follows_bearer = false;
    text.split(is_between).filter(|word| !word.is_empty()).filter_map(move |word| {
        let start = word.as_ptr().addr() - text.as_ptr().addr();
        let is_secret = (follows_bearer && word.len() >= BEARER_BYTES_MIN)
            || (is_token(word) && word.bytes().any(|byte| byte.is_ascii_digit()));
        follows_bearer = word.eq_ignore_ascii_case("bearer");
        is_secret.then(|| start..start + word.len())
    })
}

fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    memmem::find_iter(text.as_bytes(), "://").filter_map(|at| {
        let start = at + "://".len();
        let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>');
        let authority = text[start..].split(is_end).next()?;
        let (user, _) = authority.rsplit_once('@')?;
        let Some((name, password)) = user.split_once(':') else {
            return is_token(user).then(|| start..start + user.len());
        };
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
            "PGPASSWORD",
            "mytoken",
            "passwords",
            "api_keys",
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
            "prompt_tokens",
            "nextpagetoken",
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
        assert_eq!(found("https://ghp_0123456789abcdef@x.example/"), ["ghp_0123456789abcdef"]);
        assert_eq!(found("https://x.example/?key=AIzaSyA0123456789abcdef"), ["AIzaSyA0123456789abcdef"]);
        assert_eq!(found("https://x.example/?sig=0123456789abcdef"), ["0123456789abcdef"]);
        assert_eq!(found("/q?%74oken=t0ken&api%2Dkey=k3y4&a=1;token=k5"), ["t0ken", "k3y4", "k5"]);
        assert_eq!(found("client_secret=abcd&password=efgh"), ["abcd", "efgh"]);
        assert_eq!(
            found("Bearer abcdefghijkl, token ghp_0123456789abcdef"),
            ["abcdefghijkl", "ghp_0123456789abcdef"]
        );
        for harmless in [
            "bearer of news, sk-learn-tutorials-and-more",
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

    /// With a search for each parameter, this would take hours.
    #[test]
    fn a_text_of_parameters_takes_time_in_proportion() {
        for piece in ["?a=", "?token=", "&token=", "#", "://a:b@", "://"] {
            let text = piece.repeat((4 << 20) / piece.len());
            in_text(&text, is_secret_name);
        }
    }
}
