//! A property to be written.

use super::escape::{encode_param, escape};
use super::line::{Eol, Line};

/// Why a property cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The name has characters that no name may have.
    #[error("`{0}` is no name of a property or parameter: use letters, digits and hyphens")]
    Name(String),
    /// A value has a control character, which would end its line or break its reader.
    #[error("the value of `{0}` has a control character; remove it")]
    Control(String),
}

/// A property that [`Component::set`](super::Component::set) or [`add`](super::Component::add) writes. It can
/// only be made with a name and values that stay on their line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProperty {
    name: Box<str>,
    head: String,
    value: String,
}

impl NewProperty {
    /// A property whose value is text: it is escaped.
    pub fn text(name: &str, text: &str) -> Result<Self, EditError> {
        Self::raw(name, &escape(text))
    }

    /// A property whose value stands as it is: dates, rules, addresses, or text that is escaped already.
    pub fn raw(name: &str, value: &str) -> Result<Self, EditError> {
        check_name(name.split_once('.').map_or(name, |(_, name)| name))?;
        check_name(name.split_once('.').map_or(name, |(group, _)| group))?;
        match value.chars().any(is_control) {
            true => Err(EditError::Control(name.to_owned())),
            false => Ok(Self { name: name.into(), head: name.to_owned(), value: value.to_owned() }),
        }
    }

    /// The same with one more parameter, whose value is quoted and encoded where it has to be.
    pub fn with_param(mut self, name: &str, value: &str) -> Result<Self, EditError> {
        check_name(name)?;
        let encoded = encode_param(value);
        if encoded.chars().any(is_control) {
            return Err(EditError::Control(name.to_owned()));
        }
        self.head.extend([";", name, "=", &encoded]);
        Ok(self)
    }

    /// The name, without a vCard's group.
    pub fn name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// The value as it is written.
    pub fn value(&self) -> &str {
        &self.value
    }

    pub(super) fn head(&self) -> &str {
        &self.head
    }

    pub(super) fn to_line(&self, eol: Eol) -> Line {
        Line::fold(&format!("{}:{}", self.head, self.value), eol)
    }
}

pub(super) fn check_name(name: &str) -> Result<(), EditError> {
    let is_token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    match is_token && name.len() <= 100 {
        true => Ok(()),
        false => Err(EditError::Name(helve_core::hidden::one_line(name, 40))),
    }
}

/// Controls end a line or break its reader; a tab is white space in a value.
pub(super) fn is_control(c: char) -> bool {
    c.is_control() && c != '\t'
}
