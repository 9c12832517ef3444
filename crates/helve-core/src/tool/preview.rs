//! What a call would do, for the person who is asked about it.

mod lines;

pub use lines::{PreviewLine, lines};

/// What a call would do, and a fingerprint of what it would do it with.
///
/// The text is shown in a fixed-width font, and everything in it that hides is made visible. Lines such as
/// `To: ada@example.com` at its beginning, then a blank line, then a body are shown as a table and a text; a unified diff
/// is coloured ([`lines`]). A value that others wrote must stay on its line, or it could pass for another fact.
///
/// ```
/// use helve_core::Preview;
/// let preview = Preview::new("To: ada@example.com\n\nHi Ada").with_fingerprint("9f86d081884c7d65");
/// assert_eq!(preview.fingerprint.as_deref(), Some("9f86d081884c7d65"));
/// assert_eq!(Preview::from("only words").fingerprint, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// What the person reads.
    pub text: String,
    /// A digest of all that the call would use besides its arguments: a draft, the bytes of an attachment, the version
    /// of an event. The approval keeps it, and [`Context::still_approved`](crate::Context::still_approved) compares
    /// with it when the call runs. None: the arguments say it all.
    pub fingerprint: Option<String>,
}

impl Preview {
    /// Longest text, in bytes; what is longer is cut before a person sees it. A mail with 100,000 characters as text and
    /// as many as HTML fits, of whatever script.
    pub const TEXT_BYTES_MAX: usize = 1 << 20;
    /// Longest fingerprint, in bytes.
    pub const FINGERPRINT_BYTES_MAX: usize = 256;

    /// Words alone: the arguments say all that the call would use.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), fingerprint: None }
    }

    /// The same with a digest of all that the call would use besides its arguments: 1 to 256 visible ASCII characters,
    /// such as a SHA-256 in hexadecimal. It is kept and shown to readers of the approval, so it must be no secret.
    pub fn with_fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprint = Some(fingerprint.into());
        self
    }

    /// Whether the fingerprint, if there is one, can be kept.
    pub fn has_plain_fingerprint(&self) -> bool {
        self.fingerprint.as_ref().is_none_or(|text| {
            (1..=Self::FINGERPRINT_BYTES_MAX).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_graphic())
        })
    }
}

impl From<String> for Preview {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Preview {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_visible_ascii_is_a_fingerprint() {
        assert!(Preview::new("x").has_plain_fingerprint());
        for plain in ["a", "\"etag-7\"", &"f".repeat(256)] {
            assert!(Preview::new("x").with_fingerprint(plain).has_plain_fingerprint(), "{plain}");
        }
        for wrong in ["", " ", "a b", "é", "a\n", "\u{202e}", &"f".repeat(257)] {
            assert!(!Preview::new("x").with_fingerprint(wrong).has_plain_fingerprint(), "{wrong:?}");
        }
    }
}
