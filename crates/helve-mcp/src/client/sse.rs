//! Server-sent events, read piece by piece.

use bytes::{Buf, BytesMut};

/// An event of a stream, before its data is read as a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its kind; empty where it is not said.
    pub(crate) kind: String,
    pub(crate) data: String,
    /// Set where this event sets it, also to nothing.
    pub(crate) id: Option<String>,
}

/// More bytes in one event than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Reads events from chunks of a stream.
pub(crate) struct Events {
    buffer: BytesMut,
    searched: usize,
    event: Event,
    has_data: bool,
    limit: usize,
    at_start: bool,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
    /// How long to wait before coming back, if the server said so.
    pub(crate) retry_ms: Option<u64>,
}

impl Events {
    /// A reader of events that are each no larger than `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            event: Event::default(),
            has_data: false,
            limit,
            at_start: true,
            after_cr: false,
            retry_ms: None,
        }
    }

    /// Adds a chunk.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next event that is complete. An event without data counts only for its id.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, TooLarge> {
        while let Some(line) = self.line()? {
            if line.is_empty() {
                let has_data = std::mem::take(&mut self.has_data);
                let event = std::mem::take(&mut self.event);
                if has_data || event.id.is_some() {
                    return Ok(Some(event));
                }
                continue;
            }
            self.field(&line);
            if self.event.data.len() > self.limit {
                return Err(TooLarge);
            }
        }
        Ok(None)
    }

    /// The next line that is complete, without its end (LF, CRLF or CR).
    fn line(&mut self) -> Result<Option<String>, TooLarge> {
        if self.after_cr && !self.buffer.is_empty() {
            self.after_cr = false;
            if self.buffer[0] == b'\n' {
                self.buffer.advance(1);
            }
        }
        let Some(at) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return if self.buffer.len() > self.limit { Err(TooLarge) } else { Ok(None) };
        };
        let at = self.searched + at;
        // As where the line came in pieces: how the network cuts a stream must change nothing.
        if at > self.limit {
            return Err(TooLarge);
        }
        // Whether LF follows need not be known yet: a stream may be silent after its last CR.
        self.after_cr = self.buffer[at] == b'\r';
        let line = self.buffer.split_to(at + 1);
        self.searched = 0;
        let mut text = String::from_utf8_lossy(&line[..at]).into_owned();
        if std::mem::take(&mut self.at_start)
            && let Some(rest) = text.strip_prefix('\u{feff}')
        {
            text = rest.to_owned();
        }
        Ok(Some(text))
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.event.kind),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            _ => {}
        }
    }
}

/// For the fuzz targets: the events of a stream that comes in these chunks, each as its fields in Debug's form, and
/// whether the last one was too large.
#[cfg(fuzzing)]
pub fn read_events(chunks: &[&[u8]], limit: usize) -> (Vec<String>, bool) {
    let mut reader = Events::new(limit);
    let mut found = Vec::new();
    for chunk in chunks {
        reader.push(chunk);
        loop {
            match reader.next() {
                Ok(Some(event)) => found.push(format!("{event:?}")),
                Ok(None) => break,
                Err(TooLarge) => return (found, true),
            }
        }
    }
    (found, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(chunks: &[&str]) -> Vec<Event> {
        let mut reader = Events::new(1000);
        let mut events = Vec::new();
        for chunk in chunks {
            reader.push(chunk.as_bytes());
            while let Some(event) = reader.next().unwrap() {
                events.push(event);
            }
        }
        events
    }

    fn event(kind: &str, data: &str, id: Option<&str>) -> Event {
        Event { kind: kind.into(), data: data.into(), id: id.map(str::to_owned) }
    }

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = "\u{feff}: hello\nid: 1\nevent: message\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nid:7\n\nretry: 5\n\n";
        let wanted =
            [event("message", "{\"a\":\n1}", Some("1")), event("", "x", None), event("", "", Some("7"))];
        assert_eq!(events(&[text]), wanted);
        let letters: Vec<String> = text.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(events(&letters), wanted);
    }

    #[test]
    fn every_line_end_is_understood() {
        let wanted = [event("message", "a\nb", Some("1")), event("", "c", None)];
        for end in ["\n", "\r\n", "\r"] {
            let lines = ["id: 1", "event: message", "data: a", "data: b", "", "", "data: c", "", ""];
            let text = lines.join(end);
            assert_eq!(events(&[&text]), wanted, "{end:?}");
            for at in 0..text.len() {
                assert_eq!(events(&[&text[..at], "", &text[at..]]), wanted, "{end:?} cut at {at}");
            }
        }
        // The last CR is enough: nothing may ever follow it.
        assert_eq!(events(&["data: x\r\r"]), [event("", "x", None)]);
        assert_eq!(
            events(&["data: x\r", "\n\r", "\ndata: y\n\r\n"]),
            [event("", "x", None), event("", "y", None)]
        );
    }

    #[test]
    fn a_line_beyond_the_limit_is_refused_however_it_is_cut() {
        let stream = format!("id: {}\ndata: x\n\n", "i".repeat(1000));
        for size in [1, 7, stream.len()] {
            let mut reader = Events::new(1000);
            let refused = stream.as_bytes().chunks(size).any(|chunk| {
                reader.push(chunk);
                reader.next() == Err(TooLarge)
            });
            assert!(refused, "in pieces of {size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = Events::new(1000);
        reader.push(&[b'x'; 2000]);
        assert_eq!(reader.next(), Err(TooLarge));
        let mut reader = Events::new(1000);
        (0..2000).for_each(|_| reader.push(b"data: x\n"));
        assert_eq!(reader.next(), Err(TooLarge));
    }
}
