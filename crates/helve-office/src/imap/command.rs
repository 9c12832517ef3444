//! Commands. Whatever came from outside is quoted or counted, so that none of it can be read as a command.

use bytes::Bytes;

use super::utf7;
use crate::account::Fault;

/// Longer text goes as a literal.
const QUOTED_BYTES_MAX: usize = 500;
/// The longest folder path that is asked for.
const FOLDER_BYTES_MAX: usize = 1000;

/// A command without its tag.
#[derive(Debug, Clone)]
pub(super) struct Command(Vec<Piece>);

#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// Goes as it is.
    Line(Vec<u8>),
    /// Goes once the server says that it will take it.
    Literal(Bytes),
}

impl Command {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(vec![Piece::Line(text.into().into_bytes())])
    }

    /// Words of ours.
    pub(super) fn then(mut self, text: &str) -> Self {
        self.line().extend_from_slice(text.as_bytes());
        self
    }

    /// The same behind these words of ours.
    pub(super) fn after(mut self, text: &str) -> Self {
        if let Some(Piece::Line(first)) = self.0.first_mut() {
            first.splice(..0, text.bytes());
        }
        self
    }

    /// A space, and text from outside.
    pub(super) fn string(mut self, text: &str) -> Result<Self, Fault> {
        if text.contains('\0') {
            return Err(Fault::Refused("a NUL character cannot be sent to a mail server".to_owned()));
        }
        self.line().push(b' ');
        let plain = text.len() <= QUOTED_BYTES_MAX && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        match plain {
            true => {
                let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
                self.line().extend_from_slice(format!("\"{quoted}\"").as_bytes());
                Ok(self)
            }
            false => Ok(self.literal(Bytes::copy_from_slice(text.as_bytes()))),
        }
    }

    /// A space, and a folder's path.
    pub(super) fn folder(self, path: &str) -> Result<Self, Fault> {
        if path.is_empty() || path.len() > FOLDER_BYTES_MAX || path.chars().any(char::is_control) {
            let why = "is empty, too long or has a control character";
            return Err(Fault::Gone(format!("there is no such folder: its name {why}")));
        }
        match path.is_ascii() {
            true => self.string(path),
            false => self.string(&utf7::encode(path)),
        }
    }

    /// Bytes, counted. They follow what was said directly.
    pub(super) fn literal(mut self, bytes: Bytes) -> Self {
        let announced = format!("{{{}}}\r\n", bytes.len());
        self.line().extend_from_slice(announced.as_bytes());
        self.0.push(Piece::Literal(bytes));
        self.0.push(Piece::Line(Vec::new()));
        self
    }

    /// What is sent, under a tag.
    pub(super) fn tagged(self, tag: &str) -> Vec<Piece> {
        let mut all = self.after(&format!("{tag} "));
        all.line().extend_from_slice(b"\r\n");
        all.0
    }

    fn line(&mut self) -> &mut Vec<u8> {
        if !matches!(self.0.last(), Some(Piece::Line(_))) {
            self.0.push(Piece::Line(Vec::new()));
        }
        match self.0.last_mut() {
            Some(Piece::Line(line)) => line,
            Some(Piece::Literal(_)) | None => unreachable!("a line was just put there"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(command: Command) -> Vec<String> {
        let pieces = command.tagged("t1").into_iter();
        pieces
            .map(|piece| match piece {
                Piece::Line(line) => String::from_utf8(line).unwrap(),
                Piece::Literal(bytes) => format!("<{}>", String::from_utf8(bytes.to_vec()).unwrap()),
            })
            .collect()
    }

    #[test]
    fn text_from_outside_is_quoted_or_counted() {
        let quoted = Command::new("SEARCH").string("a\" \\b").unwrap();
        assert_eq!(sent(quoted), ["t1 SEARCH \"a\\\" \\\\b\"\r\n"]);
        let broken = Command::new("SEARCH").string("x\r\nt2 DELETE INBOX").unwrap().then(" ALL");
        assert_eq!(sent(broken), ["t1 SEARCH {18}\r\n", "<x\r\nt2 DELETE INBOX>", " ALL\r\n"]);
        assert!(Command::new("SEARCH").string("a\0b").is_err());
    }

    #[test]
    fn folders_with_control_characters_do_not_exist() {
        for path in ["", "a\r\nb", "a\0", "a\u{85}b", &"x".repeat(1001)] {
            assert!(matches!(Command::new("SELECT").folder(path), Err(Fault::Gone(_))), "{path:?}");
        }
        assert_eq!(
            sent(Command::new("SELECT").folder("Entwürfe").unwrap()),
            ["t1 SELECT \"Entw&APw-rfe\"\r\n"]
        );
    }
}
