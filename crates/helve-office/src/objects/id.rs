//! Ids of events, tasks and contacts, for models. They say nothing to a reader and stay the same as long as the
//! object is in its collection.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use helve::{ErrorCode, ToolError};

use crate::recurrence::RecurrenceId;

/// Longest id that is read.
const BYTES_MAX: usize = 2_000;

/// What sort of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An event (`VEVENT`).
    Event,
    /// A task (`VTODO`).
    Task,
    /// A contact (`VCARD`).
    Contact,
    /// A note (`VJOURNAL`).
    Note,
}

impl Kind {
    /// The word for it, as the file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Task => "task",
            Self::Contact => "contact",
            Self::Note => "note",
        }
    }

    /// The component that holds it.
    pub fn component(self) -> &'static str {
        match self {
            Self::Event => "VEVENT",
            Self::Task => "VTODO",
            Self::Contact => "VCARD",
            Self::Note => "VJOURNAL",
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Event => 'e',
            Self::Task => 't',
            Self::Contact => 'c',
            Self::Note => 'n',
        }
    }
}

/// An object, or one occurrence of it.
///
/// ```
/// use helve_office::objects::{Kind, ObjectId};
/// let id = ObjectId { kind: Kind::Event, collection: 3, uid: "a@b".to_owned(), occurrence: None };
/// assert_eq!(id.to_string(), "e3.YUBi");
/// assert_eq!(ObjectId::parse("e3.YUBi", Kind::Event).unwrap(), id);
/// assert!(ObjectId::parse("e3.YUBi", Kind::Task).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectId {
    /// What sort it is.
    pub kind: Kind,
    /// The number of its collection.
    pub collection: i64,
    /// The `UID` that the object has at every server.
    pub uid: String,
    /// Which occurrence, where it repeats.
    pub occurrence: Option<RecurrenceId>,
}

impl ObjectId {
    /// Reads an id of a kind.
    pub fn parse(text: &str, kind: Kind) -> Result<Self, ToolError> {
        Self::read(text, kind).ok_or_else(|| {
            let kind = kind.as_str();
            ToolError::new(
                ErrorCode::ValidationFailed,
                format!("this is no id of {} {kind}", if kind == "event" { "an" } else { "a" }),
            )
            .suggest(format!("list {kind}s first, and pass an `id` as it stands in the answer"))
        })
    }

    fn read(text: &str, kind: Kind) -> Option<Self> {
        let rest = text.trim().strip_prefix(kind.letter()).filter(|_| text.len() <= BYTES_MAX)?;
        let mut parts = rest.split('.');
        let collection = parts.next()?.parse().ok().filter(|number: &i64| *number > 0)?;
        let uid = String::from_utf8(URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
        let occurrence = parts.next().map(RecurrenceId::parse).transpose().ok()?;
        parts.next().is_none().then_some(Self { kind, collection, uid, occurrence })
    }

    /// The same without its occurrence.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self { occurrence: None, ..self.clone() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}.{}", self.kind.letter(), self.collection, URL_SAFE_NO_PAD.encode(&self.uid))?;
        match self.occurrence {
            Some(occurrence) => write!(f, ".{occurrence}"),
            None => Ok(()),
        }
    }
}
