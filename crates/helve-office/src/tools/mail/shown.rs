//! Mails as models see them: ids, people, times, and what is wrong with an argument.

use helve::{ErrorCode, FieldError, ToolError};
use helve_store::office::{MailPerson, MailRow, OfficeError};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::calendar::time::has_real_offset;
use crate::text::{NO_AT, Problem, Refusal};

/// How many characters of a digest are in an id. They keep an id from meaning another mail, should the file be made anew.
const CHECK_CHARS: usize = 8;

/// The id of a mail.
pub(in crate::tools) fn id_of(mail: &MailRow) -> String {
    format!("m-{}-{}", mail.id, check_of(mail))
}

/// Which state of a mail it is.
pub(in crate::tools) fn version_of(mail: &MailRow) -> String {
    format!("v-{}", mail.digest.get(..16).unwrap_or_default())
}

pub(in crate::tools) fn check_of(mail: &MailRow) -> &str {
    mail.digest.get(..CHECK_CHARS).unwrap_or_default()
}

/// The number and the check in an id.
pub(in crate::tools) fn parse_id(id: &str) -> Option<(i64, &str)> {
    let (number, check) = id.strip_prefix("m-")?.split_once('-')?;
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (plain && check.len() == CHECK_CHARS).then_some((number.parse().ok()?, check))
}

/// A person in a mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(in crate::tools) struct Person {
    /// The name, as the mail has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::tools) name: Option<String>,
    /// Their mail address.
    pub(in crate::tools) address: String,
}

impl From<&MailPerson> for Person {
    fn from(person: &MailPerson) -> Self {
        Self { name: person.name.clone(), address: person.address.clone() }
    }
}

/// The people of a mail with this role.
pub(in crate::tools) fn people(mail: &MailRow, role: &str) -> Vec<Person> {
    mail.people.iter().filter(|person| person.role == role).map(Person::from).collect()
}

/// A moment with the offset of the asker's zone.
pub(in crate::tools) fn shown_at(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Reads a day, a local time or a moment. A day begins at its midnight in the zone.
pub(in crate::tools) fn moment(
    text: &str,
    field: &'static str,
    zone: &TimeZone,
) -> Result<Timestamp, ToolError> {
    let local = |at: DateTime| at.to_zoned(zone.clone()).ok().map(|at| at.timestamp());
    let text = text.trim();
    let read = match text.len() <= 10 {
        true => text.parse::<Date>().ok().and_then(|date| local(date.at(0, 0, 0, 0))),
        false => match text.parse::<Timestamp>() {
            Ok(instant) => Some(instant).filter(|instant| has_real_offset(text, *instant)),
            Err(_) => text.parse::<DateTime>().ok().and_then(local),
        },
    };
    read.ok_or_else(|| {
        let wanted = "a day such as 2026-11-18, or a time such as 2026-11-18T09:00:00Z";
        wrong(field, format!("{field} is no date; give {wanted}"))
    })
}

/// An argument that cannot be used.
pub(in crate::tools) fn wrong(field: &str, message: impl Into<String>) -> ToolError {
    let message = message.into();
    let path = format!("/{}", field.replace('[', "/").replace(']', ""));
    let error =
        FieldError { path, expected: String::new(), received: String::new(), message: message.clone() };
    ToolError::new(ErrorCode::ValidationFailed, message).with_fields(vec![error]).nothing_done()
}

/// An argument that the validator in front of every protocol refuses.
pub(in crate::tools) fn refused(refusal: &Refusal) -> ToolError {
    let error = wrong(&refusal.field, refusal.to_string());
    match refusal.problem == Problem::Malformed(NO_AT) {
        true => error.suggest(LOOK_UP),
        false => error,
    }
}

/// What to do with a name alone.
pub(in crate::tools) const LOOK_UP: &str = "of somebody's name, `query_context` with entityType `person` finds the \
    address; ask the user where there are several";

/// The file could not be used.
pub(in crate::tools) fn broken(error: OfficeError) -> ToolError {
    ToolError::failed("the office file could not be read or written").retryable(true).with_source(error)
}
