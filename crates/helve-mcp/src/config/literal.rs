//! Finds secrets that somebody wrote where a reference belongs.

/// How names end whose values are secret, compared without case, `-` and `_`. Ends alone, since
/// `token_type` and `max_tokens` are harmless.
const SECRET_NAMES: [&str; 17] = [
    "authorization",
    "cookie",
    "apikey",
    "token",
    "secret",
    "secretkey",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "privatekey",
    "accesskey",
    "signature",
    "bearer",
    "pat",
    "authkey",
];

/// Names such as `TOKEN_FILE` say where a secret is and do not hold it.
const PLACE_SUFFIXES: [&str; 4] = ["file", "path", "dir", "url"];

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

/// Whether what has this name is secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let folded: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric()).flat_map(char::to_lowercase).collect();
    let place = PLACE_SUFFIXES.iter().any(|suffix| folded.ends_with(suffix));
    !place && SECRET_NAMES.iter().any(|secret| folded.ends_with(secret))
}

/// Whether a text holds a secret, whatever its name: a well-known token, or a password in an
/// address.
pub(crate) fn is_secret_value(text: &str) -> bool {
    embedded_secret(text).is_some()
}

/// The part of a text that is a secret by its looks.
pub(crate) fn embedded_secret(text: &str) -> Option<&str> {
    let is_token =
        |word: &&str| word.len() >= 16 && TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    let token = text.split([' ', '=', ':', ';', '"', '\'', ',', '/', '?', '&', '@']).find(is_token);
    token.or_else(|| password_in_address(text))
}

fn password_in_address(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("://")?;
    let authority = after.split(['/', '?', '#', ' ']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    (!password.is_empty() && !password.contains("${")).then_some(password)
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
            "Cookie",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "token_type", "max_tokens", "TOKEN_FILE", "Accept", "secret_path", ""] {
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
        assert_eq!(embedded_secret("postgres://me:hunter2@db/x"), Some("hunter2"));
    }
}
