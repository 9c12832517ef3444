//! Handing mails over by SMTP submission (RFC 6409, 5321), once and with an outcome that is known where it can be.
//!
//! The client is our own few pages, because of one question that mail libraries do not answer: whether a connection
//! was lost before the mail was sent, so that it may be sent again, or after, so that it may not.
//!
//! - [`SmtpSubmit`]: the port.
//! - `session`: one connection; replies.
//! - `transaction`: one mail from MAIL to the reply after its last dot.

mod session;
mod submit;
mod transaction;

pub use submit::SmtpSubmit;
