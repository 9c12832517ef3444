//! Patterns for names.

/// Whether all of `text` matches `pattern`, where `*` stands for any text and `?` for one character.
/// Takes no more than the product of their lengths, whatever the pattern.
///
/// ```
/// use helve_core::pattern::matches;
/// assert!(matches("mail/*", "mail/send"));
/// assert!(!matches("mail/*", "email/send"));
/// ```
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star_p, star_t)) = star else { return false };
                star = Some((star_p, star_t + 1));
                p = star_p + 1;
                t = star_t + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
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
            ("gr?n", "grün", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        assert!(!matches(&"*a".repeat(2_000), &"a".repeat(1_999)));
    }
}
