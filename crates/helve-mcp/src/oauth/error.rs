//! Why there is no token.

use helve::hidden;
use secrecy::{ExposeSecret, SecretString};

/// Why there is no token. It can be cloned, because all who wait for one renewal share its end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// A person has to log in.
    #[error("a login is needed: {reason}; run `helve mcp login`")]
    LoginNeeded {
        /// What went wrong, in words for the user.
        reason: String,
    },
    /// The server wants a scope that was asked for already.
    #[error(
        "the server asks for the scope `{scope}`, which was already asked for; this account may not have it"
    )]
    ScopeRefused {
        /// What it wants.
        scope: String,
    },
    /// The server names no authorization server, or one that cannot be used.
    #[error("the server's authorization cannot be used: {reason}")]
    Discovery {
        /// What is wrong.
        reason: String,
    },
    /// An address that is neither https nor on this machine.
    #[error(
        "the {what} `{origin}` is refused: it must be https (http only between programs of this machine)"
    )]
    Insecure {
        /// Which endpoint it is, in words.
        what: &'static str,
        /// Where it is.
        origin: String,
    },
    /// The authorization server does not know us.
    #[error(
        "the authorization server did not accept this client: {reason}; configure a client id that it knows"
    )]
    Registration {
        /// What it said.
        reason: String,
    },
    /// The login did not end in a token.
    #[error("the login failed: {reason}")]
    Login {
        /// What the server or the browser reported.
        reason: String,
    },
    /// The person did not come back in time.
    #[error("the login was not finished in time; start it again")]
    TimedOut,
    /// The token could not be renewed now; later it may.
    #[error("the token could not be renewed: {reason}; try again")]
    Renewal {
        /// What went wrong at the token endpoint.
        reason: String,
    },
    /// The file of tokens cannot be used.
    #[error("the stored tokens cannot be used: {reason}")]
    Store {
        /// What is wrong and what to do.
        reason: String,
    },
    /// A setting is wrong.
    #[error("{reason}")]
    Setting {
        /// What is wrong.
        reason: String,
    },
}

impl OAuthError {
    pub(super) fn store(reason: impl Into<String>) -> Self {
        Self::Store { reason: reason.into() }
    }

    pub(super) fn discovery(reason: impl Into<String>) -> Self {
        Self::Discovery { reason: reason.into() }
    }

    pub(super) fn login(reason: impl Into<String>) -> Self {
        Self::Login { reason: reason.into() }
    }

    pub(super) fn login_needed(reason: impl Into<String>) -> Self {
        Self::LoginNeeded { reason: reason.into() }
    }
}

/// The longest piece of foreign text in an error, in characters.
const FOREIGN_CHARS_MAX: usize = 300;

/// What the other side said, fit to be shown: one short line without control or invisible
/// characters, and without our secrets should it have repeated one.
pub(super) fn foreign(text: &str, secrets: &[&SecretString]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().map(|secret| secret.expose_secret()).filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "[secret]");
    }
    let shown = |c: char| if hidden::kind(c).is_some() { ' ' } else { c };
    let line: String = text.chars().map(shown).collect();
    let mut words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(FOREIGN_CHARS_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_one_short_line_without_our_secrets() {
        let secret = SecretString::from("s3cr3t");
        assert_eq!(
            foreign("no:\r\n\u{1b}[31mtoken s3cr3t\u{202e} bad", &[&secret]),
            "no: [31mtoken [secret] bad"
        );
        assert_eq!(foreign(&"x".repeat(10_000), &[]).chars().count(), FOREIGN_CHARS_MAX + 1);
        assert_eq!(foreign("as it is", &[&SecretString::from("")]), "as it is");
    }
}
