//! The one validator in front of every protocol: text becomes a type, or a [`Refusal`] that says what to change.
//!
//! SMTP, IMAP, iCalendar and HTTP each have characters that end a line, a field or a command. None of them gets
//! a bare `String` from a model: it gets one of these types, and each can only be made by its check.
//!
//! | type | characters | limit |
//! |---|---|---|
//! | [`Address`] | ASCII local part without quotes; a domain in any script, kept as ASCII | 254 bytes |
//! | [`Mailbox`], [`Recipients`] | an address with a name; one line | 50 addresses together |
//! | [`Subject`] | one line, 1 to 998 characters | 3,992 bytes |
//! | [`HeaderValue`] | one line | 998 bytes |
//! | [`MessageId`] | printable ASCII between `<` and `>` | 250 bytes |
//! | [`FolderName`] | one line without `*` and `%` | 255 bytes |
//! | [`SearchWords`] | one line | 500 bytes, 20 words |
//! | [`FileName`] | one line without `/`, `\` and a dot in front | 255 bytes |
//! | [`MailText`] | line feeds and tabs besides; direction marks and invisible characters too | 100,000 characters |
//! | [`CalendarText`] | line feeds and tabs besides | 64 KiB |
//!
//! All but [`MailText`] refuse NUL and other controls, characters that change the direction of text, and invisible ones. Joiners
//! and variation selectors stay where an emoji or a script needs them. Spaces of other kinds (a Japanese name
//! has one) stay. How a kept character is encoded (RFC 2047, UTF-7 for folders, backslashes in iCalendar) is the
//! writer's concern.

mod address;
mod fields;
mod mailbox;
mod message_id;
mod refusal;
mod scan;

pub use address::Address;
pub(crate) use address::NO_AT;
pub use fields::{CalendarText, FileName, FolderName, HeaderValue, MailText, SearchWords, Subject};
pub use mailbox::{Mailbox, Recipients};
pub use message_id::MessageId;
pub use refusal::{Problem, Refusal};
pub use scan::{cleaned, cleaned_lines};
