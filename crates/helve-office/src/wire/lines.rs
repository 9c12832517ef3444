//! Messages as they go over the wire: lines end in CR LF, and no line ends the message early.

/// A message whose every line ends in CR LF, whatever they ended in.
///
/// Bare line feeds are more than untidy: servers that disagree about them can be made to see two mails in one.
pub(crate) fn crlf_lines(message: &[u8]) -> Vec<u8> {
    each_line(message, |_, _| {})
}

/// The same with a dot before each line that begins with one, ready for DATA, without the dot that ends it.
pub(crate) fn smtp_lines(message: &[u8]) -> Vec<u8> {
    each_line(message, |out, line| {
        if line.starts_with(b".") {
            out.push(b'.');
        }
    })
}

fn each_line(message: &[u8], before: impl Fn(&mut Vec<u8>, &[u8])) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + message.len() / 32 + 2);
    let mut rest = message;
    while !rest.is_empty() {
        let end = memchr::memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        before(&mut out, line);
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
        rest = &rest[end..];
        rest = rest.strip_prefix(b"\r\n").unwrap_or_else(|| rest.get(1..).unwrap_or_default());
    }
    out
}

/// Which of its two parts have bytes beyond ASCII: the headers, the body.
pub(crate) fn needs_eight_bits(message: &[u8]) -> (bool, bool) {
    let headers_end = memchr::memmem::find(message, b"\r\n\r\n").unwrap_or(message.len());
    (!message[..headers_end].is_ascii(), !message[headers_end..].is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_end_becomes_the_one() {
        for (given, wanted) in [
            ("a\nb\rc\r\nd", "a\r\nb\r\nc\r\nd\r\n"),
            ("\r\r\n\n", "\r\n\r\n\r\n"),
            ("", ""),
            ("a\r\n", "a\r\n"),
        ] {
            assert_eq!(crlf_lines(given.as_bytes()), wanted.as_bytes(), "{given:?}");
        }
    }

    #[test]
    fn no_line_of_a_message_can_end_it() {
        for given in ["a\n.\nMAIL FROM:<x@y>", "a\r.\rb", "a\r\n.\r\nb", ".\n"] {
            let out = smtp_lines(given.as_bytes());
            assert!(out.split(|byte| *byte == b'\n').all(|line| line != b".\r" && line != b"."), "{given:?}");
        }
        assert_eq!(smtp_lines(b".a\r\n..\r\n"), b"..a\r\n...\r\n");
    }
}
