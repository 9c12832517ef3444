//! Names of principals: whose call it is, and who decided.
//!
//! Two names that look the same would be two people, and one could pass for the other where a person
//! decides. So a name that cannot be told from another by looking at it is refused wherever one is made:
//! keys, token files, an issuer's tokens, the command line.

use unicode_normalization::is_nfkc;
use unicode_security::skeleton;

use crate::hidden::deceptive;

/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Why a text is no name of a principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrincipalError {
    /// Empty, or too long.
    #[error("a name has 1 to {NAME_BYTES_MAX} bytes")]
    Length,
    /// Spaces that nobody sees.
    #[error("a name begins and ends with no space, and has no two in a row")]
    Spaces,
    /// A character that hides, or one that passes for another.
    #[error("`{}` is hidden in the name, or looks like another character; leave it out", .0.escape_unicode())]
    Deceptive(char),
    /// Written in another way than usual, such as with wide letters or accents of their own.
    #[error("the name is not in Unicode's usual form (NFKC); type it anew")]
    Form,
    /// It looks like a plain name and is another one.
    #[error("the name looks like `{0}` and is another one; write it in plain letters")]
    LookAlike(String),
}

/// Checks the name of a principal or of an agent. Capital and small letters are different names.
///
/// ```
/// use helve_core::principal::check;
/// assert!(check("ada@example.com").is_ok() && check("Анна Müller").is_ok());
/// assert!(check("ada ").is_err() && check("ad\u{430}").is_err() && check("a\u{200b}da").is_err());
/// ```
pub fn check(name: &str) -> Result<(), PrincipalError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(PrincipalError::Length);
    }
    if name.starts_with(' ') || name.ends_with(' ') || name.contains("  ") {
        return Err(PrincipalError::Spaces);
    }
    if let Some(hidden) = name.chars().find(|c| c.is_control() || (c.is_whitespace() && *c != ' ')) {
        return Err(PrincipalError::Deceptive(hidden));
    }
    if name.is_ascii() {
        return Ok(());
    }
    if let Some((at, _)) = deceptive(name).first() {
        return Err(PrincipalError::Deceptive(name[*at..].chars().next().unwrap_or_default()));
    }
    if !is_nfkc(name) {
        return Err(PrincipalError::Form);
    }
    let looks = skeleton(name).collect::<String>();
    if looks.is_ascii() { Err(PrincipalError::LookAlike(looks)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_people_and_issuers_have_are_taken() {
        for name in [
            "ada",
            "Ada",
            "ada@example.com",
            "auth0|5f7c8ec7c33c6c004bbafe82",
            "https://login.example.com/users/7",
            "ada (uid 1000)",
            "webhook for apr_01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "José Müller",
            "Анна Каренина",
            "渡辺",
            "Ελένη",
            "राम",
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_look_like_others_are_refused() {
        for name in [
            "",
            " ",
            " ada",
            "ada ",
            "a  b",
            "a\tb",
            "a\nb",
            "ada\u{a0}",
            "a\u{2003}b",
            "a\u{3000}b",
            "ada\u{200b}",
            "a\u{200d}da",
            "ada\u{feff}",
            "ad\u{ad}a",
            "\u{202e}ada",
            "ada\u{e0041}",
            "ada\u{fe0f}",
            "ad\u{430}",
            "\u{430}d\u{430}",
            "\u{ff41}da",
            "\u{fb01}n",
            "Jose\u{301}",
            "m\u{131}ke",
            "\u{441}\u{43e}\u{440}",
            "\u{7f}a",
        ] {
            assert!(check(name).is_err(), "{name:?}");
        }
        assert!(check(&"a".repeat(129)).is_err());
        let said = check("ada\u{200b}").unwrap_err().to_string();
        assert_eq!(said, "`\\u{200b}` is hidden in the name, or looks like another character; leave it out");
    }
}
