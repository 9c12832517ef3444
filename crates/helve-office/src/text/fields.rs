//! Subjects, header values, folder names, search words, and text in calendars.

use super::refusal::{Problem, Refusal};
use super::scan::{Rules, Shape};

/// A checked text with its own name.
macro_rules! checked {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// The text, once it was checked.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked! {
    /// The subject of a mail: one line of 1 to 998 characters.
    Subject
}

impl Subject {
    const CHARS_MAX: usize = 998;
    const RULES: Rules = Rules { field: "subject", shape: Shape::Line, bytes_max: 4 * Self::CHARS_MAX };

    /// Checks a subject.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        Self::RULES.check(text)?;
        match text.chars().count() {
            found if found > Self::CHARS_MAX => {
                let problem = Problem::TooLong { found, max: Self::CHARS_MAX, unit: "characters" };
                Err(Self::RULES.refuse(problem))
            }
            _ => Ok(Self(text.into())),
        }
    }
}

checked! {
    /// The value of any other header: one line that fits one line of a mail.
    HeaderValue
}

impl HeaderValue {
    const RULES: Rules = Rules { field: "header value", shape: Shape::Line, bytes_max: 998 };

    /// Checks a value.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        Self::RULES.check(text)?;
        Ok(Self(text.into()))
    }
}

checked! {
    /// The name of a mail folder, as people see it; its hierarchy is in the separators of its server.
    FolderName
}

impl FolderName {
    const RULES: Rules = Rules { field: "folder", shape: Shape::Line, bytes_max: 255 };

    /// Checks a name. `*` and `%` are refused: IMAP takes them for patterns where it lists folders.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        Self::RULES.check(text)?;
        if text.contains(['*', '%']) {
            return Err(Self::RULES.refuse(Problem::Malformed(
                "has a `*` or `%`, which IMAP takes for a pattern; give the exact name of one folder",
            )));
        }
        match text.trim() == text {
            true => Ok(Self(text.into())),
            false => Err(Self::RULES.refuse(Problem::Malformed("begins or ends with a space; remove it"))),
        }
    }
}

/// What is searched for: words that all have to be there. Words in double quotes stay together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchWords(Vec<Box<str>>);

impl SearchWords {
    const WORDS_MAX: usize = 20;
    const RULES: Rules = Rules { field: "query", shape: Shape::Line, bytes_max: 500 };

    /// Splits a query into words. No word has a meaning beyond its letters: `OR`, `c++` and `budget-2026` are
    /// looked for as they stand, and the caller that hands them to an index quotes them.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        Self::RULES.check(text)?;
        let mut words: Vec<Box<str>> = Vec::new();
        for (i, part) in text.split('"').enumerate() {
            match i % 2 {
                0 => words.extend(part.split_whitespace().map(Into::into)),
                _ => words.extend(Some(part.trim()).filter(|part| !part.is_empty()).map(Into::into)),
            }
        }
        match words.len() {
            0 => Err(Self::RULES.refuse(Problem::Empty)),
            found if found > Self::WORDS_MAX => {
                Err(Self::RULES.refuse(Problem::TooMany { found, max: Self::WORDS_MAX, unit: "words" }))
            }
            _ => Ok(Self(words)),
        }
    }

    /// The words; one that was quoted may have spaces.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(AsRef::as_ref)
    }
}

checked! {
    /// Text for a calendar or an address book: summary, description, location. It may have lines; the writer in
    /// [`ical`](crate::ical) escapes them.
    CalendarText
}

impl CalendarText {
    const RULES: Rules = Rules { field: "text", shape: Shape::Text, bytes_max: 64 * 1024 };

    /// Checks a text. Line ends of Windows become line feeds; a carriage return elsewhere is refused.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        if text.len() > 2 * Self::RULES.bytes_max {
            Self::RULES.check(text)?;
        }
        let text = text.replace("\r\n", "\n");
        Self::RULES.check(&text)?;
        Ok(Self(text.into()))
    }
}

checked! {
    /// The name of an attached file: a name, not a path.
    FileName
}

impl FileName {
    const RULES: Rules = Rules { field: "file name", shape: Shape::Line, bytes_max: 255 };

    /// Checks a name.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        Self::RULES.check(text)?;
        match text.contains(['/', '\\']) || text.starts_with('.') {
            true => Err(Self::RULES.refuse(Problem::Malformed(
                "has a slash, a backslash or a dot in front; give a plain name such as `report.pdf`",
            ))),
            false => Ok(Self(text.into())),
        }
    }
}

checked! {
    /// The body of a mail, as text or as HTML. Its transfer encoding keeps it apart from headers and commands, so
    /// that whatever a quoted mail had may stay; only controls that no text has are refused.
    MailText
}

impl MailText {
    /// Longest body, in characters.
    pub const CHARS_MAX: usize = 100_000;

    /// Checks a body. Line ends of every kind become line feeds.
    pub fn new(text: &str) -> Result<Self, Refusal> {
        let refuse = |problem| Err(Refusal::new("body", problem));
        if text.len() > 4 * Self::CHARS_MAX || text.chars().count() > Self::CHARS_MAX {
            let found = text.chars().count();
            return refuse(Problem::TooLong { found, max: Self::CHARS_MAX, unit: "characters" });
        }
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let control = text.chars().enumerate().find(|(_, c)| c.is_control() && !matches!(c, '\n' | '\t'));
        match control {
            Some((at, c)) => refuse(Problem::Hidden { c, name: "control character", at: at + 1 }),
            None => Ok(Self(text.into())),
        }
    }
}
