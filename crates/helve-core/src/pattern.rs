//! Patterns for names.

/// Whether all of `text` matches `pattern`, where `*` stands for any text and `?` for one byte.
/// Takes no more than the product of their lengths, whatever the pattern.
///
/// ```
/// use helve_core::pattern::matches;
/// assert!(matches("mail/*", "mail/send"));
/// assert!(!matches("mail/*", "email/send"));
/// ```
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and how much of the text it has swallowed so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((place, swallowed)) => {
                    star = Some((place, swallowed + 1));
                    p = place + 1;
                    t = swallowed + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("mail/*", "mail/send", true),
            ("mail/*", "mail", false),
            ("*send*", "acme/mail/send-all", true),
            ("?ime-now", "time-now", true),
            ("time", "time-now", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        assert!(!matches(&"*a".repeat(2_000), &"a".repeat(1_999)));
    }
}
