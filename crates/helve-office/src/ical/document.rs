//! A whole file or object: the tree, read and printed.

use bytes::Bytes;

use super::component::{Component, Node, components, components_mut, print};
use super::line::{Eol, Line, first_line};

/// How much a document may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the whole.
    pub bytes: usize,
    /// Most content lines, once they are unfolded.
    pub lines: usize,
    /// Components, those inside others included.
    pub components: usize,
    /// Components inside each other.
    pub depth: usize,
}

/// Enough for a calendar of some ten thousand events in one file.
impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 32 << 20, lines: 1_000_000, components: 100_000, depth: 8 }
    }
}

/// Why bytes are no iCalendar or vCard document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Larger than [`Limits`] allow.
    #[error("the calendar data has more than {max} {unit}")]
    TooLarge {
        /// How many there may be.
        max: usize,
        /// What is counted: `bytes`, `lines`.
        unit: &'static str,
    },
    /// There is no component at all.
    #[error("this is no calendar or contact: it has no `BEGIN:` line")]
    Empty,
    /// A line that is not blank stands outside of all components.
    #[error("line {line} stands outside of `BEGIN:` and `END:`")]
    Outside {
        /// Which content line, counted from one.
        line: usize,
    },
    /// An `END:` without its `BEGIN:`, or of another name.
    #[error("line {line} ends a `{found}`, but `{open}` is open")]
    Mismatch {
        /// Which content line, counted from one.
        line: usize,
        /// What it ends.
        found: String,
        /// What is open; `nothing` where nothing is.
        open: String,
    },
    /// The document ends inside a component.
    #[error("`{open}` is never ended: the data is cut off")]
    Unended {
        /// What is open.
        open: String,
    },
}

/// One or more calendars or contacts, as a file or a server has them.
///
/// ```
/// use helve_office::ical::{Document, NewProperty};
/// let stored = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nx-Odd;P=1:kept\r\nSUMMARY:old\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
/// let mut document = Document::parse(stored.as_bytes())?;
/// let event = document.events_mut("VEVENT").next().expect("there is one");
/// event.set(&NewProperty::text("SUMMARY", "Lunch, with Ada")?);
/// let printed = String::from_utf8(document.print())?;
/// assert_eq!(printed, stored.replace("SUMMARY:old", "SUMMARY:Lunch\\, with Ada"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    nodes: Vec<Node>,
    eol: Eol,
}

impl Document {
    /// Reads a document within the default [`Limits`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Self::parse_within(Bytes::copy_from_slice(bytes), Limits::default())
    }

    /// Reads a document; its lines share the bytes.
    pub fn parse_within(source: Bytes, limits: Limits) -> Result<Self, ParseError> {
        if source.len() > limits.bytes {
            return Err(ParseError::TooLarge { max: limits.bytes, unit: "bytes" });
        }
        Reader::new(&source, limits).read(&source)
    }

    /// A document of one component.
    pub fn of(component: Component) -> Self {
        Self { eol: component.eol(), nodes: vec![Node::Component(component)] }
    }

    /// How its lines end.
    pub fn eol(&self) -> Eol {
        self.eol
    }

    /// The bytes. What no edit touched is as it was read.
    pub fn print(&self) -> Vec<u8> {
        let mut out = Vec::new();
        print(&self.nodes, &mut out);
        out
    }

    /// The components that stand in no other: calendars or contacts.
    pub fn components(&self) -> impl Iterator<Item = &Component> {
        components(&self.nodes)
    }

    /// The components that stand in no other, to be edited.
    pub fn components_mut(&mut self) -> impl Iterator<Item = &mut Component> {
        components_mut(&mut self.nodes)
    }

    /// What stands in calendars under that name: `VEVENT`, `VTODO`, `VTIMEZONE`.
    pub fn events<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Component> {
        self.components().flat_map(Component::components).filter(move |component| component.is_named(name))
    }

    /// What stands in calendars under that name, to be edited.
    pub fn events_mut<'a>(&'a mut self, name: &'a str) -> impl Iterator<Item = &'a mut Component> {
        self.components_mut()
            .flat_map(Component::components_mut)
            .filter(move |component| component.is_named(name))
    }
}

/// Reads lines one after the other. What is open is a stack, so that no depth can overflow ours.
struct Reader {
    limits: Limits,
    eol: Eol,
    open: Vec<Component>,
    done: Vec<Node>,
    components: usize,
    line: usize,
}

impl Reader {
    fn new(source: &[u8], limits: Limits) -> Self {
        let end = memchr::memchr(b'\n', source);
        let eol = match end.and_then(|end| source[..end].last()) {
            Some(b'\r') => Eol::Crlf,
            _ if end.is_none() => Eol::Crlf,
            _ => Eol::Lf,
        };
        Self { limits, eol, open: Vec::new(), done: Vec::new(), components: 0, line: 0 }
    }

    fn read(mut self, source: &Bytes) -> Result<Document, ParseError> {
        let mut at = 0;
        while at < source.len() {
            let length = first_line(&source[at..]);
            self.line += 1;
            if self.line > self.limits.lines {
                return Err(ParseError::TooLarge { max: self.limits.lines, unit: "lines" });
            }
            self.take(Line::from_raw(source.slice(at..at + length)))?;
            at += length;
        }
        if let Some(open) = self.open.pop() {
            return Err(ParseError::Unended { open: shown(open.name()) });
        }
        match self.components {
            0 => Err(ParseError::Empty),
            _ => Ok(Document { nodes: self.done, eol: self.eol }),
        }
    }

    fn take(&mut self, line: Line) -> Result<(), ParseError> {
        if line.is_named("BEGIN") {
            return self.begin(line);
        }
        if line.is_named("END") {
            return self.end(line);
        }
        match self.open.last_mut() {
            Some(open) => open.nodes.push(Node::Line(line)),
            None if line.text().trim().is_empty() => self.done.push(Node::Line(line)),
            None => return Err(ParseError::Outside { line: self.line }),
        }
        Ok(())
    }

    fn begin(&mut self, line: Line) -> Result<(), ParseError> {
        self.components += 1;
        if self.components > self.limits.components {
            return Err(ParseError::TooLarge { max: self.limits.components, unit: "components" });
        }
        if self.open.len() >= self.limits.depth {
            return Err(ParseError::TooLarge {
                max: self.limits.depth,
                unit: "components inside each other",
            });
        }
        let name = component_name(&line);
        self.open.push(Component::opened(name, line, self.eol));
        Ok(())
    }

    fn end(&mut self, line: Line) -> Result<(), ParseError> {
        let name = component_name(&line);
        let open = match self.open.pop() {
            Some(open) if open.is_named(&name) => open,
            other => {
                let open = shown(other.as_ref().map_or("nothing", Component::name));
                return Err(ParseError::Mismatch { line: self.line, found: shown(&name), open });
            }
        };
        let closed = Node::Component(open.closed(line));
        match self.open.last_mut() {
            Some(parent) => parent.nodes.push(closed),
            None => self.done.push(closed),
        }
        Ok(())
    }
}

fn component_name(line: &Line) -> Box<str> {
    line.property().map(|property| property.value().trim().into()).unwrap_or_default()
}

fn shown(name: &str) -> String {
    helve_core::hidden::one_line(name, 40)
}
