//! Mails, composed and read.
//!
//! [`compose`] makes the bytes of a message and its envelope. A [`Letter`] can only be made of checked parts, Bcc stands
//! in the envelope alone, and the Message-ID is the caller's, so that it can be stored before anything is sent.
//! Bytes are composed once and then kept: boundaries are random, so a second time gives other bytes.
//!
//! [`Mail::read`] takes a message apart, of whatever quality: a body as text that is [paged](Mail::page) to a budget,
//! attachments with names that are safe, and the ids by which it threads. [`reply`](mod@reply) makes subject,
//! recipients, threading headers and quotes for replies and forwards.

mod compose;
mod encoded_word;
mod parts;
mod read;
pub mod reply;

pub use compose::{Attached, ComposeError, Composed, KEPT_HEADERS, Letter, Thread, compose, compose_draft};
pub use read::{Attachment, Body, Correspondent, Mail, Page, ReadError};
