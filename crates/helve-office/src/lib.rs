//! The office pack: mail, calendar, tasks and contacts that a person would trust with real accounts.
//!
//! The kernel is pure functions on text and time that need no server and no store:
//!
//! - [`text`]: the one validator in front of every protocol. Addresses, subjects, folder names.
//! - [`ical`]: iCalendar and vCard, read and edited without changing a byte that nobody named.
//! - [`rule`]: recurrence rules on a clock without zones.
//! - [`zones`]: what a local time means, by whatever name a zone goes.
//! - [`recurrence`]: when the events of a series happen, and edits of one, some or all of them.
//! - [`availability`]: who is free when, where *unknown* is never *free*.
//! - [`mail`]: messages composed and read, replies and forwards that thread.
//!
//! Around it:
//!
//! - [`account`]: the ports to servers, whatever they speak.
//! - [`objects`]: what is read from an event, a task or a contact to find it by, and ids of them.
//! - [`wire`]: TLS connections to mail servers; [`imap`], [`smtp`]: mail accounts.
//! - [`web`]: an account's HTTP server, where the login goes to one origin; [`dav`]: CalDAV and CardDAV;
//!   [`jmap`]: mail by JMAP.
//! - [`embedded`]: the account that needs no server; [`sync`] and [`import`]: what fills the file.
//! - [`connect`]: finding servers, and from what the file keeps of an account to one that can be used.
//! - [`Office`]: the file and the accounts; [`tools`]: what models call; [`demo`]: something to try them on.
//!
//! Each folder knows only those above it in these lists.

pub mod text;

pub mod ical;

pub mod rule;
pub mod zones;

pub mod recurrence;

pub mod availability;

pub mod mail;

pub mod account;

pub mod objects;

pub mod wire;

pub mod imap;
pub mod smtp;

pub mod web;

pub mod dav;
pub mod jmap;

pub mod embedded;
pub mod import;
pub mod sync;

pub mod connect;

mod integrations;
mod office;
pub use office::{Account, Office, OfficeSettings};

pub mod tools;

pub mod demo;
