//! `.ics` and `.vcf` files: taken apart into one object for each UID, with nothing left out.
//!
//! An import can be repeated: what is there already is left as it is.

use std::collections::HashMap;

use bytes::Bytes;
use helve::json::sha256_hex;

use crate::account::{Collection, Expected, Fault, ObjectStore, PutFault};
use crate::ical::{Component, Document, Limits, NewProperty, ParseError};

/// How many reasons an answer gives one by one.
const SKIPPED_MAX: usize = 100;

/// Why a file cannot be imported at all.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is no calendar and no contact.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The account does not work.
    #[error(transparent)]
    Account(#[from] Fault),
}

/// What became of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Events that are new.
    pub events: usize,
    /// Tasks that are new.
    pub tasks: usize,
    /// Contacts that are new.
    pub contacts: usize,
    /// Notes that are new.
    pub notes: usize,
    /// What was there before, byte by byte.
    pub unchanged: usize,
    /// What was left out, in all.
    pub skipped: usize,
    /// The first hundred of these, with the reason.
    pub reasons: Vec<Skipped>,
}

/// Something that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// What it is: its kind and what it is called.
    pub what: String,
    /// Why it was left out.
    pub why: String,
}

impl Imported {
    fn skip(&mut self, what: String, why: impl Into<String>) {
        self.skipped += 1;
        if self.reasons.len() < SKIPPED_MAX {
            self.reasons.push(Skipped { what, why: why.into() });
        }
    }
}

/// Reads a file of calendars or contacts into an account.
pub async fn import_objects(store: &dyn ObjectStore, file: Bytes) -> Result<Imported, ImportError> {
    let mut imported = Imported::default();
    let collections = store.collections().await?;
    for piece in pieces(&Document::parse_within(file, Limits::default())?, &mut imported) {
        let takes = |one: &&Collection| one.writable && piece.kind.fits(one);
        let Some(collection) = collections.iter().find(takes) else {
            imported.skip(piece.what, "the account has no collection for it");
            continue;
        };
        let href = store.new_href(&collection.href, &piece.uid);
        match store.put(&href, piece.bytes.clone().into(), Expected::Nothing).await {
            Ok(_) => match piece.kind {
                Kind::Event => imported.events += 1,
                Kind::Task => imported.tasks += 1,
                Kind::Contact => imported.contacts += 1,
                Kind::Note => imported.notes += 1,
            },
            Err(PutFault::Conflict) if store.get(&href).await?.bytes == piece.bytes => {
                imported.unchanged += 1
            }
            Err(PutFault::Conflict) => {
                imported.skip(piece.what, "another version of it is there already, and stays");
            }
            Err(PutFault::Fault(Fault::Refused(why))) => imported.skip(piece.what, why),
            Err(PutFault::Fault(fault)) => return Err(fault.into()),
        }
    }
    Ok(imported)
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Event,
    Task,
    Contact,
    Note,
}

impl Kind {
    fn of(component: &Component) -> Option<Self> {
        [("VEVENT", Self::Event), ("VTODO", Self::Task), ("VJOURNAL", Self::Note)]
            .into_iter()
            .find(|(name, _)| component.is_named(name))
            .map(|(_, kind)| kind)
    }

    fn fits(self, collection: &Collection) -> bool {
        match self {
            Self::Event | Self::Note => collection.holds.events,
            Self::Task => collection.holds.tasks,
            Self::Contact => collection.holds.contacts,
        }
    }
}

/// One object of a file.
struct Piece {
    kind: Kind,
    uid: String,
    what: String,
    bytes: Vec<u8>,
}

fn pieces(document: &Document, imported: &mut Imported) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for component in document.components() {
        match () {
            () if component.is_named("VCALENDAR") => pieces.extend(calendar_pieces(component, imported)),
            () if component.is_named("VCARD") => pieces.extend(contact_piece(component, imported)),
            () => imported.skip(named(component), "it is neither a calendar nor a contact"),
        }
    }
    pieces
}

/// The objects of a calendar: all events with one UID together, with the calendar's own lines and the zones that
/// they name.
fn calendar_pieces(calendar: &Component, imported: &mut Imported) -> Vec<Piece> {
    let mut order: Vec<(Kind, String)> = Vec::new();
    let mut groups: HashMap<String, Vec<Component>> = HashMap::new();
    for component in calendar.components().filter(|component| !component.is_named("VTIMEZONE")) {
        let Some(kind) = Kind::of(component) else {
            imported.skip(named(component), "only events, tasks and notes are kept");
            continue;
        };
        let mut component = component.clone();
        let uid = own_uid(&mut component);
        let group = groups.entry(uid.clone()).or_default();
        if group.is_empty() {
            order.push((kind, uid));
        }
        group.push(component);
    }
    let mut shell = calendar.clone();
    let zones = shell.take_components(|_| true);
    let zones: Vec<Component> = zones.into_iter().filter(|zone| zone.is_named("VTIMEZONE")).collect();
    let piece = |(kind, uid): (Kind, String)| {
        let group = groups.remove(&uid).unwrap_or_default();
        let mut object = shell.clone();
        zones.iter().filter(|zone| is_used(zone, &group)).for_each(|zone| object.push(zone.clone()));
        let what = group.first().map(named).unwrap_or_default();
        group.into_iter().for_each(|component| object.push(component));
        Piece { kind, uid, what, bytes: Document::of(object).print() }
    };
    order.into_iter().map(piece).collect()
}

/// Whether a zone is named by a time of these. One without a name cannot be told, and stays.
fn is_used(zone: &Component, group: &[Component]) -> bool {
    let Some(name) = zone.property("TZID").map(|name| name.text_value()) else { return true };
    let uses = |component: &Component| {
        component.properties().any(|property| property.param("TZID").as_ref() == Some(&name))
    };
    group.iter().any(|part| uses(part) || part.components().any(uses))
}

/// The UID of a component. One that has none gets it from its content, so that it is the same the next time.
fn own_uid(component: &mut Component) -> String {
    let uid = component.property("UID").map(|uid| uid.text_value()).filter(|uid| !uid.trim().is_empty());
    uid.unwrap_or_else(|| {
        let hash = sha256_hex(&Document::of(component.clone()).print());
        let uid = format!("{}@import.helve", &hash[..32]);
        if let Ok(property) = NewProperty::text("UID", &uid) {
            component.set(&property);
        }
        uid
    })
}

fn contact_piece(card: &Component, imported: &mut Imported) -> Option<Piece> {
    let version = card.property("VERSION").map(|version| version.value().trim().to_owned());
    match version.as_deref() {
        Some("3.0" | "4.0") => {}
        Some("2.1") => {
            let why = "it is a vCard 2.1, whose text cannot be read safely; export it as 3.0 or 4.0";
            imported.skip(named(card), why);
            return None;
        }
        Some(_) | None => {
            imported.skip(named(card), "it does not say that it is a vCard 3.0 or 4.0");
            return None;
        }
    }
    let mut card = card.clone();
    let uid = own_uid(&mut card);
    Some(Piece { kind: Kind::Contact, uid, what: named(&card), bytes: Document::of(card).print() })
}

/// A component for people: its kind and what it is called.
fn named(component: &Component) -> String {
    let name = component.property("SUMMARY").or_else(|| component.property("FN"));
    let name = name.or_else(|| component.property("UID")).map(|name| name.text_value()).unwrap_or_default();
    let kind = helve_core::hidden::one_line(component.name(), 20);
    format!("{kind} `{}`", helve_core::hidden::one_line(&name, 80))
}
