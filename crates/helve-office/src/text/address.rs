//! Mail addresses: the part of RFC 5321 that real mailboxes use.

use std::fmt;

use super::refusal::{Problem, Refusal};
use super::scan::{Rules, Shape};

/// What is said of a name alone.
pub(crate) const NO_AT: &str = "is no mail address: it has no `@`; give one such as `ada@example.org`";

/// How long an address may be (RFC 5321 allows a path of 256 with its angle brackets).
const ADDRESS_BYTES_MAX: usize = 254;
/// A domain beyond ASCII may be longer as it is written, never four times.
const RULES: Rules = Rules { field: "address", shape: Shape::Line, bytes_max: 4 * ADDRESS_BYTES_MAX };
const LOCAL_BYTES_MAX: usize = 64;
const LABEL_BYTES_MAX: usize = 63;

/// A mail address whose domain is ASCII: `müller.de` becomes `xn--mller-kva.de`, so that a name in letters that
/// only look right is seen for what it is.
///
/// Quoted local parts, comments, domains in brackets and local parts beyond ASCII (SMTPUTF8) are refused: hardly
/// a mailbox has one, and each is a way to smuggle something.
///
/// ```
/// use helve_office::text::Address;
/// let address = Address::new("info@MÜLLER.de")?;
/// assert_eq!(address.as_str(), "info@xn--mller-kva.de");
/// assert!(Address::new("a@b.example\r\nBcc: c@d.example").is_err());
/// # Ok::<(), helve_office::text::Refusal>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    text: Box<str>,
    at: usize,
}

impl Address {
    /// Checks an address.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        // First, because a domain's way to ASCII drops invisible characters without a word.
        RULES.check(text)?;
        Self::read(text).map_err(|problem| RULES.refuse(problem))
    }

    fn read(text: &str) -> Result<Self, Problem> {
        let (local, domain) = text.rsplit_once('@').ok_or(Problem::Malformed(NO_AT))?;
        check_local(local)?;
        let domain = ascii_domain(domain)?;
        let text = format!("{local}@{domain}");
        match text.len() > ADDRESS_BYTES_MAX {
            true => Err(too_long(text.len())),
            false => Ok(Self { at: local.len(), text: text.into() }),
        }
    }

    /// The address as it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What stands before the `@`, as it was given: servers may tell capitals apart.
    pub fn local_part(&self) -> &str {
        &self.text[..self.at]
    }

    /// What stands behind the `@`, in lower-case ASCII.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// Whether two addresses name the same mailbox for all that a reader can know: capitals do not count.
    pub fn is_same_mailbox(&self, other: &Self) -> bool {
        self.text.eq_ignore_ascii_case(&other.text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn too_long(found: usize) -> Problem {
    Problem::TooLong { found, max: ADDRESS_BYTES_MAX, unit: "bytes" }
}

fn check_local(local: &str) -> Result<(), Problem> {
    if local.is_empty() || local.len() > LOCAL_BYTES_MAX {
        return Err(Problem::Malformed("has no or more than 64 characters before its `@`"));
    }
    if local.split('.').any(str::is_empty) {
        return Err(Problem::Malformed("begins or ends with a dot before its `@`, or has two in a row"));
    }
    let is_atom = |c: char| c.is_ascii_alphanumeric() || ".!#$%&'*+-/=?^_`{|}~".contains(c);
    match local.chars().all(is_atom) {
        true => Ok(()),
        false => Err(Problem::Malformed(
            "has a character before its `@` that no mailbox here may have: use ASCII letters, digits and \
             .!#$%&'*+-/=?^_`{|}~ without quotes or spaces",
        )),
    }
}

/// A domain in lower-case ASCII.
fn ascii_domain(domain: &str) -> Result<String, Problem> {
    // Before the parser: it takes percent escapes apart, and reads numbers as addresses.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-') || !c.is_ascii();
    if !domain.chars().all(is_plain) {
        return Err(Problem::Malformed(
            "has a character behind its `@` that no domain has; give a name such as `example.org`",
        ));
    }
    let ascii = match domain.is_ascii() {
        true => domain.to_ascii_lowercase(),
        false => match url::Host::parse(domain) {
            Ok(url::Host::Domain(ascii)) => ascii,
            Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) | Err(_) => {
                return Err(Problem::Malformed("has a domain that cannot be written in ASCII (IDNA)"));
            }
        },
    };
    match is_domain(&ascii) {
        true => Ok(ascii),
        false => Err(Problem::Malformed(
            "has no domain that mail can go to; give labels of letters, digits and inner hyphens with dots \
             between them, such as `example.org`",
        )),
    }
}

/// Two labels at least, none of them empty or too long; the last one is no number, so that it is no IP address.
fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = domain.rsplit('.').next().unwrap_or_default();
    domain.contains('.') && domain.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}
