//! What a file of mails is, and where in it one ends and the next begins.

/// How many lines of a file's beginning are looked at.
const LINES_MAX: usize = 200;

/// Headers of which a message has one at least.
const HEADERS: [&str; 9] = [
    "from",
    "to",
    "date",
    "subject",
    "message-id",
    "received",
    "return-path",
    "delivered-to",
    "mime-version",
];

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// The lines that part the messages of an mbox file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separators {
    /// `From somebody Wed Nov 18 10:00:00 2026`, as nearly every program writes them.
    Dated,
    /// `From somebody`: any line that begins so.
    Bare,
}

impl Separators {
    /// As the first line of a file has it.
    pub(super) fn of(beginning: &[u8]) -> Self {
        let first = beginning.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if is_dated(first) { Self::Dated } else { Self::Bare }
    }

    /// Whether a line behind an empty one begins another message, or is a sentence that begins with `From`.
    pub(super) fn has(self, line: &[u8]) -> bool {
        line.starts_with(b"From ")
            && match self {
                Self::Dated => is_dated(line),
                Self::Bare => true,
            }
    }
}

/// Whether a line has a month, a time and a year, as `asctime` writes a date; programs differ in what else they write.
fn is_dated(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let is_month = |word: &&str| MONTHS.iter().any(|month| month.eq_ignore_ascii_case(word));
    let is_year =
        |word: &&str| word.len() == 4 && word.parse().is_ok_and(|year: u16| (1970..2200).contains(&year));
    let has = |is: &dyn Fn(&&str) -> bool| words.iter().any(is);
    has(&is_month) && has(&is_year) && has(&is_time)
}

/// `10:00`, or `10:00:00`.
fn is_time(word: &&str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    let is_number =
        |part: &&str| matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(parts.len(), 2 | 3) && parts.iter().all(is_number)
}

/// Whether a file begins as a message does: with headers, one of which every mail program knows.
pub(super) fn is_message(beginning: &[u8]) -> bool {
    let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
    let mut is_known = false;
    for (at, line) in beginning.split(|byte| *byte == b'\n').take(LINES_MAX).enumerate() {
        let is_folded = at > 0 && line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        if line.trim_ascii().is_empty() {
            break;
        }
        if is_folded {
            continue;
        }
        match header(line) {
            Some(name) => is_known |= HEADERS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name)),
            // What was read may end in the middle of a line.
            None => return is_known && at > 1 && !beginning.ends_with(b"\n") && beginning.ends_with(line),
        }
    }
    is_known
}

/// The name of a header line.
fn header(line: &[u8]) -> Option<&[u8]> {
    let name = line.split(|byte| *byte == b':').next().filter(|name| name.len() < line.len())?;
    let is_name = !name.is_empty() && name.iter().all(|byte| (33..=126).contains(byte));
    is_name.then_some(name)
}

/// A line of an mbox file without the `>` that its writer put in front of `From `.
pub(super) fn unquoted(line: &[u8]) -> &[u8] {
    let quotes = line.iter().take_while(|byte| **byte == b'>').count();
    match quotes > 0 && line[quotes..].starts_with(b"From ") {
        true => &line[1..],
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_have_a_date_and_sentences_have_none() {
        for (line, is_one) in [
            ("From ada@example.org Wed Nov 18 10:00:00 2026", true),
            ("From - Wed Nov 18 10:00:00 2026\r", true),
            ("From 1234567890@xxx Wed Nov 18 10:00:00 +0000 2026", true),
            ("From \"a b\"@x.org  Wed Nov  8 10:00 2026", true),
            ("From what I hear, nothing is settled.", false),
            ("From May 2026 on we meet at noon.", false),
            ("From 10:00 to 11:00 we meet.", false),
        ] {
            assert_eq!(Separators::Dated.has(line.as_bytes()), is_one, "{line}");
            assert!(Separators::Bare.has(line.as_bytes()));
        }
        assert_eq!(Separators::of(b"From ada@example.org\nSubject: x\n"), Separators::Bare);
    }

    #[test]
    fn a_message_is_known_by_its_headers() {
        for (text, is_one) in [
            ("Received: from x\r\n\tby y\r\nSubject: z\r\n\r\nbody", true),
            ("X-Odd: 1\nMessage-ID: <a@b>\n\n", true),
            ("\u{feff}Subject: x\n\nbody", true),
            ("Subject: x\nFrom: a@b\nX-Cut", true),
            ("X-Odd: 1\n\nSubject: x\n", false),
            ("name: value\nother: thing\n", false),
            ("Subject: x\nnot a header\nFrom: a@b\n\n", false),
            ("{\"subject\": 1}\n", false),
            ("", false),
        ] {
            assert_eq!(is_message(text.as_bytes()), is_one, "{text}");
        }
    }
}
