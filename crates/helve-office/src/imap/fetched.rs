//! What a FETCH says about one message.

use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::strtime;

use super::response::Value;
use crate::account::Flags;

/// What was said about one message; only what was asked for is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Fetched {
    pub(super) uid: u32,
    pub(super) flags: Option<Flags>,
    pub(super) received: Option<Timestamp>,
    pub(super) size: Option<u64>,
    pub(super) bytes: Option<Bytes>,
}

impl Fetched {
    /// Every message of an answer that has a UID. Servers tell of others by the way, without one.
    pub(super) fn all(data: Vec<Vec<Value>>) -> impl Iterator<Item = Self> {
        data.into_iter().filter_map(|data| Self::read(&data))
    }

    fn read(data: &[Value]) -> Option<Self> {
        let [_, what, items] = data else { return None };
        let items = items.list().filter(|_| what.is("FETCH"))?;
        let mut fetched = Self::default();
        for pair in items.chunks_exact(2) {
            let name = pair[0].word()?.to_ascii_uppercase();
            let value = &pair[1];
            match name.as_str() {
                "UID" => fetched.uid = u32::try_from(value.number()?).ok()?,
                "FLAGS" => fetched.flags = value.list().map(flags),
                "INTERNALDATE" => fetched.received = value.text().and_then(|text| date(text)),
                "RFC822.SIZE" => fetched.size = value.number(),
                name if name.starts_with("BODY[") => fetched.bytes = value.text().cloned(),
                _ => {}
            }
        }
        (fetched.uid > 0).then_some(fetched)
    }
}

fn flags(values: &[Value]) -> Flags {
    let has = |flag: &str| values.iter().any(|value| value.is(flag));
    Flags {
        seen: has("\\Seen"),
        answered: has("\\Answered"),
        flagged: has("\\Flagged"),
        draft: has("\\Draft"),
    }
}

/// As IMAP names flags.
pub(super) fn flag_names(flags: Flags) -> String {
    let named = [
        (flags.seen, "\\Seen"),
        (flags.answered, "\\Answered"),
        (flags.flagged, "\\Flagged"),
        (flags.draft, "\\Draft"),
    ];
    named.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

/// `17-Jul-1996 02:44:25 -0700`, with a space before a day of one digit.
fn date(text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?.trim();
    strtime::parse("%d-%b-%Y %H:%M:%S %z", text).ok()?.to_timestamp().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_servers_write_them() {
        for (given, wanted) in [
            ("17-Jul-1996 02:44:25 -0700", Some("1996-07-17T09:44:25Z")),
            (" 1-Jan-2026 00:00:00 +0000", Some("2026-01-01T00:00:00Z")),
            ("yesterday", None),
        ] {
            assert_eq!(date(given.as_bytes()).map(|at| at.to_string()).as_deref(), wanted);
        }
    }
}
