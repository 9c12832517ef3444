//! Bearer tokens, and whom they stand for.

use std::path::Path;
use std::sync::Arc;

use helve::identity::LOCAL;
use helve::principal::{self, PrincipalError};
use helve::{Caller, Channel};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::visitor::ADMIN;

const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 1_024;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Bearer tokens, and whom they stand for. Only digests are kept.
#[derive(Default)]
pub struct Tokens(Vec<([u8; 32], Arc<Caller>)>);

/// Tokens that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token file")]
    Read(#[source] std::io::Error),
    /// There is none.
    #[error("the token file holds no token; write one of at least 16 characters to it")]
    Empty,
    /// One is too short to be secret, or too long to be a token.
    #[error("the token on line {line} must have 16 to 1,024 characters and no space")]
    Length {
        /// The number of the line, counted from one.
        line: usize,
    },
    /// A name that cannot be told from others, or is nobody's.
    #[error("the name on line {line} of the token file cannot be used")]
    Name {
        /// The number of the line, counted from one.
        line: usize,
        /// What is wrong with the name.
        source: PrincipalError,
    },
}

impl Tokens {
    /// One token, for one caller.
    pub fn one(token: &str, caller: Arc<Caller>) -> Self {
        Self::default().and(token, caller)
    }

    /// Adds a token.
    pub fn and(mut self, token: &str, caller: Arc<Caller>) -> Self {
        self.0.push((Sha256::digest(token).into(), caller));
        self
    }

    /// Reads a file with a token on each line: alone, for the local user, or after a name, as in
    /// `ada = TOKEN`. Empty lines and those that start with `#` do not count.
    pub async fn read(path: &Path) -> Result<Self, TokenError> {
        use tokio::io::AsyncReadExt;
        let file = tokio::fs::File::open(path).await.map_err(TokenError::Read)?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).await.map_err(TokenError::Read)?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, TokenError> {
        let mut tokens = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (caller, token) = match line.split_once(" = ") {
                Some((name, token)) => {
                    let name = name.trim_matches(' ');
                    let wrong = |source| TokenError::Name { line: index + 1, source };
                    principal::check(name).map_err(wrong)?;
                    (Arc::new(over_http(name)), token.trim())
                }
                None => (Arc::new(over_http(LOCAL).roles([ADMIN])), line),
            };
            let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len());
            if !fits || token.contains(char::is_whitespace) {
                return Err(TokenError::Length { line: index + 1 });
            }
            tokens = tokens.and(token, caller);
        }
        if tokens.0.is_empty() { Err(TokenError::Empty) } else { Ok(tokens) }
    }

    /// Whom a token stands for. Every token is compared in full, so that the time it takes says
    /// nothing.
    pub(crate) fn caller(&self, token: &str) -> Option<&Arc<Caller>> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let mut found = None;
        for (known, caller) in &self.0 {
            if known.ct_eq(&digest).into() {
                found = Some(caller);
            }
        }
        found
    }
}

/// A caller over HTTP. A token of this file never decides.
fn over_http(name: &str) -> Caller {
    Caller::principal(name).channel(Channel::Http)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_stands_for_its_caller() {
        let tokens = Tokens::parse("# people\nada = aaaaaaaaaaaaaaaa\n\nbbbbbbbbbbbbbbbb==\n").unwrap();
        let principal = |token| tokens.caller(token).and_then(|caller| caller.principal.clone());
        assert_eq!(principal("aaaaaaaaaaaaaaaa").as_deref(), Some("ada"));
        assert_eq!(principal("bbbbbbbbbbbbbbbb==").as_deref(), Some("local"));
        for wrong in ["", "aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaab", "ada = aaaaaaaaaaaaaaaa"] {
            assert_eq!(principal(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bad_files_are_refused() {
        assert!(matches!(Tokens::parse("\n# nothing\n"), Err(TokenError::Empty)));
        assert!(matches!(Tokens::parse("\nshort"), Err(TokenError::Length { line: 2 })));
        assert!(matches!(Tokens::parse("aaaaaaaaaaaa aaaaaaaa"), Err(TokenError::Length { line: 1 })));
        for name in ["ad\u{430}", "ada\u{200b}", "a  b", "a\u{a0}b"] {
            let parsed = Tokens::parse(&format!("ada = aaaaaaaaaaaaaaaa\n{name} = aaaaaaaaaaaaaaab"));
            assert!(matches!(parsed, Err(TokenError::Name { line: 2, .. })), "{name}");
        }
    }
}
