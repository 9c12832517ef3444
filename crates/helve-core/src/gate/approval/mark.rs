//! What to look out for in a question.

use serde::{Deserialize, Serialize};

use crate::definition::{Definition, Facet};

/// Something to look out for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// This caller has not used this tool with approval before.
    FirstUse,
    /// It may delete or overwrite.
    Destructive,
    /// It brings in text that anybody may have written.
    ReadsUntrusted,
    /// It brings in what not everybody may know.
    ReadsPrivate,
    /// It sends what it is given out of this machine.
    Egress,
    /// It changes something that stays.
    Mutates,
    /// Nobody has said what it reads, sends and changes: it may be anything.
    Unlabelled,
    /// The session has read text that anybody may have written.
    UntrustedSession,
    /// It names a mail address or a web address outside of the operator's own domains.
    OutsideDomain,
}

impl Mark {
    /// What a tool says of itself that a person should know.
    pub fn of(definition: &Definition) -> Vec<Self> {
        let destructive = definition.changes_world() && definition.annotations.destructive;
        let destructive = destructive.then_some(Self::Destructive).into_iter();
        match &definition.facets {
            Some(facets) => destructive.chain(facets.iter().map(|facet| Self::from(*facet))).collect(),
            None => {
                let assumed = definition.assumed.facets.iter().map(|facet| Self::from(*facet));
                destructive.chain(assumed).chain([Self::Unlabelled]).collect()
            }
        }
    }

    /// In words, for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::FirstUse => "this caller has not used this tool with approval before",
            Self::Destructive => "may delete or overwrite",
            Self::ReadsUntrusted => "brings in text that anybody may have written",
            Self::ReadsPrivate => "brings in what not everybody may know",
            Self::Egress => "sends what it is given out of this machine",
            Self::Mutates => "changes something that stays",
            Self::Unlabelled => "nobody has said what it reads, sends and changes; it may be anything",
            Self::UntrustedSession => "the session has read text that anybody may have written",
            Self::OutsideDomain => "names an address outside of your own domains",
        }
    }
}

impl From<Facet> for Mark {
    fn from(facet: Facet) -> Self {
        match facet {
            Facet::ReadsUntrusted => Self::ReadsUntrusted,
            Facet::ReadsPrivate => Self::ReadsPrivate,
            Facet::Egress => Self::Egress,
            Facet::Mutates => Self::Mutates,
        }
    }
}
