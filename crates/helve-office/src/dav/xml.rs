//! XML of a server, as a small tree within limits.
//!
//! Nothing is expanded: a document type is refused, and of references only the five of XML and numbers are known.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// How much of a document is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) elements: usize,
    pub(crate) depth: usize,
    /// Of one tag; DAV has hardly any.
    pub(crate) attributes: usize,
}

/// Enough for the ETags of some fifty thousand objects.
impl Default for Limits {
    fn default() -> Self {
        Self { elements: 400_000, depth: 24, attributes: 32 }
    }
}

/// Why a document is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum XmlError {
    #[error("its XML has more than {max} {unit}")]
    TooLarge { max: usize, unit: &'static str },
    #[error("its XML brings a document type or an entity, and neither is read")]
    Entity,
    #[error("what it answers is not XML")]
    Malformed,
}

/// A namespace that we know, or none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Dav,
    CalDav,
    CardDav,
    CalendarServer,
    Other,
}

impl Space {
    fn of(uri: &str) -> Self {
        match uri {
            "DAV:" => Self::Dav,
            "urn:ietf:params:xml:ns:caldav" => Self::CalDav,
            "urn:ietf:params:xml:ns:carddav" => Self::CardDav,
            "http://calendarserver.org/ns/" => Self::CalendarServer,
            _ => Self::Other,
        }
    }
}

/// An element with what is in it. Comments, processing instructions and text between children are dropped.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) space: Space,
    pub(crate) name: Box<str>,
    /// The `name` attribute, which is the one that DAV has.
    pub(crate) label: Option<Box<str>>,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    pub(crate) fn is(&self, space: Space, name: &str) -> bool {
        self.space == space && &*self.name == name
    }

    pub(crate) fn all(&self, space: Space, name: &str) -> impl Iterator<Item = &Element> {
        self.children.iter().filter(move |child| child.is(space, name))
    }

    pub(crate) fn child(&self, space: Space, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.is(space, name))
    }

    /// The text of a child, without the space around it; `None` where it is empty.
    pub(crate) fn text_of(&self, space: Space, name: &str) -> Option<&str> {
        Some(self.child(space, name)?.text.trim()).filter(|text| !text.is_empty())
    }
}

/// Reads a document.
pub(crate) fn parse(bytes: &[u8], limits: Limits) -> Result<Element, XmlError> {
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::Malformed)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader::from_str(text);
    let mut tree = Tree { limits, count: 0, open: Vec::new(), spaces: Vec::new(), root: None };
    loop {
        match reader.read_event().map_err(|_| XmlError::Malformed)? {
            Event::Start(tag) => tree.open(&tag)?,
            Event::Empty(tag) => {
                tree.open(&tag)?;
                tree.close()?;
            }
            Event::End(_) => tree.close()?,
            Event::Text(text) => tree.push(&text),
            Event::CData(text) => tree.push(&text),
            Event::GeneralRef(name) => tree.push(&resolve(&name)?),
            Event::DocType(_) => return Err(XmlError::Entity),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof => break,
        }
    }
    match tree.open.is_empty() {
        true => tree.root.ok_or(XmlError::Malformed),
        false => Err(XmlError::Malformed),
    }
}

/// One of the five references of XML, or a character by its number.
fn resolve(name: &str) -> Result<String, XmlError> {
    let c = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "apos" => '\'',
        "quot" => '"',
        _ => {
            let number = name.strip_prefix('#').ok_or(XmlError::Entity)?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            code.ok().and_then(char::from_u32).filter(is_xml).ok_or(XmlError::Malformed)?
        }
    };
    Ok(c.to_string())
}

/// Whether XML has that character at all.
fn is_xml(c: &char) -> bool {
    !c.is_control() || matches!(c, '\t' | '\n' | '\r' | '\u{80}'..)
}

/// A tree that grows.
struct Tree {
    limits: Limits,
    count: usize,
    open: Vec<Element>,
    /// Prefixes in force, and in which depth each was declared.
    spaces: Vec<(usize, Box<str>, Space)>,
    root: Option<Element>,
}

impl Tree {
    fn open(&mut self, tag: &BytesStart<'_>) -> Result<(), XmlError> {
        self.count += 1;
        self.limit(self.count, self.limits.elements, "elements")?;
        self.limit(self.open.len() + 1, self.limits.depth, "elements inside each other")?;
        if self.open.is_empty() && self.root.is_some() {
            return Err(XmlError::Malformed);
        }
        let mut label = None;
        // Without the library's check for doubles, which takes the square of their number.
        for (at, attribute) in tag.attributes().with_checks(false).enumerate() {
            self.limit(at + 1, self.limits.attributes, "attributes of one element")?;
            let attribute = attribute.map_err(|_| XmlError::Malformed)?;
            let key = attribute.key.into_inner();
            if let Some(prefix) = key.strip_prefix("xmlns") {
                self.declare(prefix.strip_prefix(':').unwrap_or_default(), &attribute.value)?;
            } else if key == "name" {
                label = Some(attribute.value.as_ref().into());
            }
        }
        let name = tag.name();
        let (prefix, local) = name.into_inner().split_once(':').unwrap_or(("", name.into_inner()));
        let element = Element {
            space: self.space(prefix),
            name: local.into(),
            label,
            text: String::new(),
            children: Vec::new(),
        };
        self.open.push(element);
        Ok(())
    }

    fn declare(&mut self, prefix: &str, uri: &str) -> Result<(), XmlError> {
        self.limit(self.spaces.len() + 1, 64, "namespaces")?;
        self.spaces.push((self.open.len(), prefix.into(), Space::of(uri)));
        Ok(())
    }

    fn space(&self, prefix: &str) -> Space {
        let found = self.spaces.iter().rev().find(|(_, known, _)| &**known == prefix);
        found.map_or(Space::Other, |(_, _, space)| *space)
    }

    fn push(&mut self, text: &str) {
        if let Some(element) = self.open.last_mut() {
            element.text.push_str(text);
        }
    }

    fn close(&mut self) -> Result<(), XmlError> {
        let mut done = self.open.pop().ok_or(XmlError::Malformed)?;
        while self.spaces.last().is_some_and(|(depth, ..)| *depth >= self.open.len()) {
            self.spaces.pop();
        }
        if !done.children.is_empty() {
            done.text = String::new();
        }
        match self.open.last_mut() {
            Some(parent) => parent.children.push(done),
            None => self.root = Some(done),
        }
        Ok(())
    }

    fn limit(&self, found: usize, max: usize, unit: &'static str) -> Result<(), XmlError> {
        if found > max { Err(XmlError::TooLarge { max, unit }) } else { Ok(()) }
    }
}

/// Text as it stands in XML.
pub(crate) fn escaped(text: &str) -> std::borrow::Cow<'_, str> {
    quick_xml::escape::escape(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Element, XmlError> {
        parse(text.as_bytes(), Limits::default())
    }

    #[test]
    fn prefixes_mean_what_is_declared_around_them() {
        let root = read(
            "<?xml version='1.0'?><a:multistatus xmlns:a='DAV:'><b xmlns='urn:ietf:params:xml:ns:caldav' name='x'>1&lt;&#x41;\
             <![CDATA[<&amp;]]></b><b/><a:b xmlns:a='urn:other'/></a:multistatus>",
        )
        .unwrap_or_else(|error| panic!("{error}"));
        assert!(root.is(Space::Dav, "multistatus"));
        let spaces: Vec<Space> = root.children.iter().map(|child| child.space).collect();
        assert_eq!(spaces, [Space::CalDav, Space::Other, Space::Other]);
        assert_eq!(root.children[0].text, "1<A<&amp;");
        assert_eq!(root.children[0].label.as_deref(), Some("x"));
    }

    #[test]
    fn what_grows_or_expands_is_refused() {
        let deep = "<a>".repeat(100_000);
        let wide = format!("<a>{}</a>", "<b/>".repeat(400_001));
        let attributes: String = (0..40).map(|n| format!(" a{n}='1'")).collect();
        let namespaces: String = (0..20).map(|n| format!(" xmlns:a{n}='u'")).collect();
        let nested = format!("<a{namespaces}><a{namespaces}><a{namespaces}><a{namespaces}/></a></a></a>");
        for (text, units) in [
            (deep.as_str(), "elements inside each other"),
            (wide.as_str(), "elements"),
            (&format!("<a{attributes}/>"), "attributes of one element"),
            (&nested, "namespaces"),
        ] {
            assert!(matches!(read(text), Err(XmlError::TooLarge { unit, .. }) if unit == units), "{units}");
        }
        let bomb = "<!DOCTYPE a [<!ENTITY b 'x'><!ENTITY c '&b;&b;&b;'>]><a>&c;</a>";
        assert_eq!(read(bomb).err(), Some(XmlError::Entity));
        assert_eq!(read("<a>&c;</a>").err(), Some(XmlError::Entity));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in
            ["", "hello", "<a>", "</a>", "<a></b>", "<a/><b/>", "<a>&#0;</a>", "<a>&#xD800;</a>", "<a b=/>"]
        {
            assert_eq!(read(text).err(), Some(XmlError::Malformed), "{text}");
        }
        assert_eq!(parse(b"<a>\xff</a>", Limits::default()).err(), Some(XmlError::Malformed));
    }
}
