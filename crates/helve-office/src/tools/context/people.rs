//! People: from contacts, invitations and mails, each fact with where it came from.

use std::collections::BTreeMap;

use helve::ToolError;
use helve_store::office::{PersonRow, PersonSeen};

use super::super::calendar::fault::broken;
use super::found::{Fact, SearchResult, is_mail, is_wanted_mail, last_mail, moment, next_event, shown_name};
use super::query::{EntityType, Search};
use crate::Office;
use crate::objects::{Kind, ObjectId, version_of};
use crate::text::cleaned;

const PEOPLE_MAX: usize = 50;
/// Of how many people it is looked up what happened last.
const RECENT_MAX: usize = 5;

/// How far the user vouches for a person: by a contact, by a mail to them, by an event with them.
const TRUST_CONTACT: f64 = 1.0;
const TRUST_WRITTEN_TO: f64 = 0.7;
const TRUST_MET: f64 = 0.5;

/// People whose name, address or organisation has all words.
pub(super) async fn find(office: &Office, search: &Search) -> Result<Vec<SearchResult>, ToolError> {
    if !search.wants(EntityType::Person) {
        return Ok(Vec::new());
    }
    let collections = search.collections(|row| !is_mail(row));
    let known =
        office.db().find_people(collections, search.words.clone(), PEOPLE_MAX).await.map_err(broken)?;
    let accounts = search.accounts.iter().map(|account| account.id.clone()).collect();
    let seen = office.db().people_seen(accounts, search.words.clone(), PEOPLE_MAX).await.map_err(broken)?;
    let mut people: BTreeMap<String, SearchResult> = BTreeMap::new();
    for row in &known {
        let key = if row.address.is_empty() { row.name.to_lowercase() } else { row.address.clone() };
        add_known(people.entry(key).or_insert_with(|| nobody(&row.address)), row, search);
    }
    for row in &seen {
        add_seen(people.entry(row.address.clone()).or_insert_with(|| nobody(&row.address)), row, search);
    }
    Ok(people.into_values().map(known_as).collect())
}

/// A person with the version of what is known of them.
fn known_as(found: SearchResult) -> SearchResult {
    let facts = found.facts.iter().map(|one| format!("\n{}\t{}", one.fact, one.source)).collect::<String>();
    SearchResult { version: version_of(format!("{}{facts}", found.title).as_bytes()), ..found }
}

fn nobody(address: &str) -> SearchResult {
    SearchResult {
        r#type: EntityType::Person,
        id: cleaned(address, 254),
        version: String::new(),
        title: String::new(),
        text: None,
        when: None,
        status: None,
        people: Vec::new(),
        facts: Vec::new(),
        recent: Vec::new(),
        score: 0.0,
        at: None,
        more_words: String::new(),
        trust: 0.0,
    }
}

/// What a contact or an invitation says.
fn add_known(found: &mut SearchResult, row: &PersonRow, search: &Search) {
    let (name, account) = search.name_of(row.collection);
    let is_contact = row.role == "contact";
    let source = match is_contact {
        true => format!("contact in address book `{name}` of account `{account}`"),
        false => format!("invitations in calendar `{name}` of account `{account}`"),
    };
    name_them(found, Some(&row.name), &row.address);
    found.trust = found.trust.max(if is_contact { TRUST_CONTACT } else { TRUST_MET });
    if is_contact {
        let id = ObjectId {
            kind: Kind::Contact,
            collection: row.collection,
            uid: row.uid.clone(),
            occurrence: None,
        };
        found.id = id.to_string();
        found.facts.push(Fact { fact: "is a contact of the user".to_owned(), source: source.clone() });
    } else {
        let fact = format!("is in {} of the user's events", row.seen);
        found.facts.push(Fact { fact, source: source.clone() });
    }
    if !row.organisation.is_empty() {
        let organisation = cleaned(&row.organisation, 200);
        found.more_words.push_str(&organisation);
        found.facts.push(Fact { fact: format!("works at {organisation}"), source });
    }
    if found.id.is_empty() {
        found.id = cleaned(&row.name, 200);
    }
}

/// What mails say.
fn add_seen(found: &mut SearchResult, row: &PersonSeen, search: &Search) {
    name_them(found, row.name.as_deref(), &row.address);
    if row.written > 0 {
        found.trust = found.trust.max(TRUST_WRITTEN_TO);
    }
    let written = match row.written {
        0 => "none of them by the user".to_owned(),
        written => format!("{written} of them by the user"),
    };
    let last = moment(row.last_at, &search.asker);
    let fact = format!("is in {} mails, {written}; the last on {last}", row.times);
    found.facts.push(Fact { fact, source: format!("mails of account `{}`", row.account) });
    found.at = found.at.into_iter().chain([row.last_at]).max();
}

fn name_them(found: &mut SearchResult, name: Option<&str>, address: &str) {
    let better =
        found.title.is_empty() || (!found.title.contains('<') && name.is_some_and(|name| !name.is_empty()));
    if better {
        found.title = shown_name(name, address);
    }
    if found.people.is_empty() && !address.is_empty() {
        found.people.push(cleaned(address, 254));
    }
}

/// Adds the last mail and the next event of the first people.
pub(super) async fn add_recent(
    office: &Office,
    search: &Search,
    found: &mut [SearchResult],
) -> Result<(), ToolError> {
    let people = found.iter_mut().filter(|one| one.r#type == EntityType::Person);
    for person in people.take(RECENT_MAX) {
        let Some(address) = person.people.first().cloned() else { continue };
        let folders = search.collections(is_wanted_mail);
        let mail = office.db().newest_mail_from(folders, &address).await.map_err(broken)?;
        person.recent.extend(mail.map(|mail| last_mail(&mail, search)));
        let events =
            office.db().events_with(search.collections(|row| row.told.events), address, search.now, 20);
        let events = events.await.map_err(broken)?;
        let next = events.iter().filter_map(|row| next_event(row, search));
        person.recent.extend(next.min_by(|a, b| a.when.cmp(&b.when)));
        person.people.clear();
    }
    Ok(())
}
