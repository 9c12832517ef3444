//! What servers answer. Read leniently: other people's servers break the grammar in every way that keeps its frame.

use bytes::Bytes;

use crate::text::cleaned;

/// How deep lists may be in each other. What we ask for needs three.
const DEPTH_MAX: usize = 16;
/// Most characters of a server's own words that are passed on.
const WORDS_CHARS_MAX: usize = 200;

/// A piece of an answer: text up to where a literal begins, or a literal.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Text(Bytes),
    Literal(Bytes),
}

/// A value in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A number, a flag, a name such as `BODY[]<0>`, or `NIL`.
    Word(Bytes),
    /// Quoted or counted.
    Text(Bytes),
    /// What stands in parentheses.
    List(Vec<Self>),
}

impl Value {
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => std::str::from_utf8(word).ok(),
            Self::Text(_) | Self::List(_) => None,
        }
    }

    pub(super) fn is(&self, word: &str) -> bool {
        self.word().is_some_and(|found| found.eq_ignore_ascii_case(word))
    }

    pub(super) fn number(&self) -> Option<u64> {
        self.word().and_then(|word| word.parse().ok())
    }

    /// Text, quoted or not; nothing where it is `NIL`.
    pub(super) fn text(&self) -> Option<&Bytes> {
        match self {
            Self::Text(text) => Some(text),
            Self::Word(word) if !word.eq_ignore_ascii_case(b"NIL") => Some(word),
            Self::Word(_) | Self::List(_) => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(values) => Some(values),
            Self::Word(_) | Self::Text(_) => None,
        }
    }

    /// How many values it is in all.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Word(_) | Self::Text(_) => 1,
            Self::List(values) => 1 + values.iter().map(Self::count).sum::<usize>(),
        }
    }
}

/// How a command ended, or what a server says by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) kind: Kind,
    /// What stood in brackets: `UIDVALIDITY 7`.
    pub(super) code: Vec<Value>,
    /// Words for people, shortened.
    pub(super) words: String,
}

impl Status {
    /// What follows this name in the code.
    pub(super) fn coded(&self, name: &str) -> Option<&[Value]> {
        self.code.split_first().filter(|(first, _)| first.is(name)).map(|(_, rest)| rest)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ok,
    No,
    Bad,
    Bye,
    Preauth,
}

/// What a server sends: a line, with its literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Response {
    /// The server waits for more of the command.
    Continue,
    /// The command with this tag is over.
    Done(Bytes, Status),
    /// Said by the way.
    Says(Status),
    /// Data: `12 FETCH (…)`.
    Data(Vec<Value>),
    /// Something that cannot be read.
    Odd,
}

/// Reads one answer.
pub(super) fn read(parts: &[Part]) -> Response {
    let mut reader = Reader { parts, at: 0, depth: 0 };
    match reader.first_word() {
        Some(b"+") => Response::Continue,
        Some(b"*") => match reader.status() {
            Some(status) => Response::Says(status),
            None => reader.values_until_end().map_or(Response::Odd, Response::Data),
        },
        Some(tag) => {
            let tag = Bytes::copy_from_slice(tag);
            reader.status().map_or(Response::Odd, |status| Response::Done(tag, status))
        }
        None => Response::Odd,
    }
}

struct Reader<'a> {
    parts: &'a [Part],
    /// How far the first of `parts` is read.
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    /// What is left of the text up to the next literal.
    fn rest(&self) -> &'a [u8] {
        match self.parts.first() {
            Some(Part::Text(text)) => &text[self.at.min(text.len())..],
            Some(Part::Literal(_)) | None => &[],
        }
    }

    fn slice(&self, len: usize) -> Bytes {
        match self.parts.first() {
            Some(Part::Text(text)) => text.slice(self.at..self.at + len),
            Some(Part::Literal(_)) | None => Bytes::new(),
        }
    }

    fn first_word(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest();
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        self.at += (end + 1).min(rest.len());
        (end > 0).then_some(&rest[..end])
    }

    /// `OK [CODE] words`, where that is what comes next.
    fn status(&mut self) -> Option<Status> {
        let rest = self.rest();
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let kind = match rest[..end].to_ascii_uppercase().as_slice() {
            b"OK" => Kind::Ok,
            b"NO" => Kind::No,
            b"BAD" => Kind::Bad,
            b"BYE" => Kind::Bye,
            b"PREAUTH" => Kind::Preauth,
            _ => return None,
        };
        self.at += (end + 1).min(rest.len());
        let code = self.code().unwrap_or_default();
        let words = cleaned(&String::from_utf8_lossy(self.rest()), WORDS_CHARS_MAX);
        Some(Status { kind, code, words })
    }

    fn code(&mut self) -> Option<Vec<Value>> {
        let inner = self.rest().strip_prefix(b"[")?;
        let end = inner.iter().position(|byte| *byte == b']')?;
        let part = [Part::Text(Bytes::copy_from_slice(&inner[..end]))];
        self.at += end + 2;
        Reader { parts: &part, at: 0, depth: 0 }.values_until_end()
    }

    fn values_until_end(&mut self) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        loop {
            self.spaces();
            match self.rest().first() {
                None if self.parts.len() <= 1 => return Some(values),
                Some(b')') => return None,
                Some(_) | None => values.push(self.value()?),
            }
        }
    }

    fn spaces(&mut self) {
        self.at += self.rest().iter().take_while(|byte| **byte == b' ').count();
    }

    fn value(&mut self) -> Option<Value> {
        match self.rest().first()? {
            b'(' => self.list(),
            b'"' => self.quoted(),
            b'{' | b'~' => self.literal().or_else(|| self.plain()),
            _ => self.plain(),
        }
    }

    fn list(&mut self) -> Option<Value> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut values = Vec::new();
        loop {
            self.spaces();
            match self.rest().first()? {
                b')' => {
                    self.at += 1;
                    self.depth -= 1;
                    return Some(Value::List(values));
                }
                _ => values.push(self.value()?),
            }
        }
    }

    fn quoted(&mut self) -> Option<Value> {
        let rest = &self.rest()[1..];
        let mut text = Vec::new();
        let mut bytes = rest.iter().enumerate();
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.at += at + 2;
                    return Some(Value::Text(text.into()));
                }
                b'\\' => text.push(*bytes.next()?.1),
                byte => text.push(*byte),
            }
        }
        None
    }

    /// The announcement ends its text; what it announces is the next part.
    fn literal(&mut self) -> Option<Value> {
        match self.parts {
            [Part::Text(_), Part::Literal(bytes), rest @ ..] if announced(self.rest()).is_some() => {
                self.parts = rest;
                self.at = 0;
                Some(Value::Text(bytes.clone()))
            }
            _ => None,
        }
    }

    /// A word. Brackets belong to it with all that is in them: `BODY[HEADER.FIELDS (MESSAGE-ID)]`.
    fn plain(&mut self) -> Option<Value> {
        let rest = self.rest();
        let mut inside = false;
        let end = rest.iter().position(|byte| match byte {
            b'[' => {
                inside = true;
                false
            }
            b']' => {
                inside = false;
                false
            }
            b' ' | b'(' | b')' | b'"' => !inside,
            _ => false,
        });
        let end = end.unwrap_or(rest.len());
        let word = (end > 0).then(|| Value::Word(self.slice(end)));
        self.at += end;
        word
    }
}

/// How long the literal is that the end of a text announces, where its whole rest is an announcement.
fn announced(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"~").unwrap_or(text).strip_prefix(b"{")?.strip_suffix(b"}")?;
    let digits = inner.strip_suffix(b"+").unwrap_or(inner);
    std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

/// How long the literal is that follows this line, if one does.
pub(super) fn literal_after(line: &[u8]) -> Option<usize> {
    let open = memchr::memrchr(b'{', line)?;
    announced(&line[open..])
}

/// For the fuzz targets: reads a stream as a session would, and says how many values its answers hold.
#[cfg(fuzzing)]
pub fn read_responses(mut stream: &[u8]) -> usize {
    let (mut values, mut parts) = (0, Vec::new());
    while let Some(end) = memchr::memchr(b'\n', stream) {
        let line = stream[..end].strip_suffix(b"\r").unwrap_or(&stream[..end]);
        stream = &stream[end + 1..];
        parts.push(Part::Text(Bytes::copy_from_slice(line)));
        if let Some(len) = literal_after(line) {
            let Some((literal, rest)) = stream.split_at_checked(len) else { break };
            parts.push(Part::Literal(Bytes::copy_from_slice(literal)));
            stream = rest;
            continue;
        }
        if let Response::Data(data) = read(&std::mem::take(&mut parts)) {
            values += data.iter().map(Value::count).sum::<usize>();
            super::fetched::Fetched::all(vec![data]).for_each(drop);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Response {
        read(&[Part::Text(Bytes::copy_from_slice(text.as_bytes()))])
    }

    fn word(word: &str) -> Value {
        Value::Word(Bytes::copy_from_slice(word.as_bytes()))
    }

    #[test]
    fn literals_stand_where_they_were_announced() {
        let parts = [
            Part::Text(Bytes::from_static(b"* 3 FETCH (UID 7 BODY[]<0> {5}")),
            Part::Literal(Bytes::from_static(b"a)\r\nb")),
            Part::Text(Bytes::from_static(b" FLAGS (\\Seen))")),
        ];
        let inner = vec![
            word("UID"),
            word("7"),
            word("BODY[]<0>"),
            Value::Text(Bytes::from_static(b"a)\r\nb")),
            word("FLAGS"),
            Value::List(vec![word("\\Seen")]),
        ];
        assert_eq!(read(&parts), Response::Data(vec![word("3"), word("FETCH"), Value::List(inner)]));
    }

    #[test]
    fn codes_and_words_are_told_apart() {
        let Response::Done(tag, status) = text("h1 OK [APPENDUID 7 42] done") else { panic!("not done") };
        assert_eq!(&tag[..], b"h1");
        assert_eq!(status.coded("appenduid"), Some(&[word("7"), word("42")][..]));
        assert_eq!(status.words, "done");
    }

    #[test]
    fn deep_and_broken_answers_are_odd() {
        for broken in
            ["", "* (", "* )", "* \"a", &format!("* {}", "(".repeat(100_000)), "* LIST () \"/\" {5}x", " "]
        {
            assert!(matches!(text(broken), Response::Odd | Response::Data(_)), "{}", broken.len());
        }
        assert_eq!(text(&format!("* {}{}", "(".repeat(99), ")".repeat(99))), Response::Odd);
    }

    proptest! {
        #[test]
        fn no_answer_breaks_the_reader(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..60)), 0..6)
        ) {
            let part = |(literal, bytes): (bool, Vec<u8>)| match literal {
                true => Part::Literal(bytes.into()),
                false => Part::Text(bytes.into()),
            };
            read(&pieces.into_iter().map(part).collect::<Vec<_>>());
        }

        #[test]
        fn no_answer_of_likely_characters_breaks_the_reader(text in "[*+a(){}\\[\\]\"\\\\ 0-9~OKNO]{0,80}") {
            read(&[Part::Text(text.clone().into()), Part::Literal("x".into()), Part::Text(text.into())]);
        }
    }
}
