//! A first look at the heads of a call's entries: most calls that a search does not want are recognised by it.
//!
//! Reading a head whole takes several times as long. What passes is read whole and looked at again, so this may
//! let a call through that does not fit, and never keeps one back that does.

use std::borrow::Cow;

use helve_core::record::{EndStatus, GateRecord};
use helve_core::{ErrorCode, Risk};
use serde::Deserialize;

use super::query::AuditQuery;
use super::stored::StoredEntry;
use crate::chain::Kind;

/// What searches look at.
#[derive(Deserialize)]
pub(super) struct Glance<'a> {
    #[serde(borrow)]
    pub(super) facts: GlanceFacts<'a>,
    #[serde(borrow)]
    pub(super) ending: Option<GlanceEnding<'a>>,
}

#[derive(Deserialize)]
pub(super) struct GlanceFacts<'a> {
    #[serde(borrow)]
    pub(super) caller: GlanceCaller<'a>,
    #[serde(borrow)]
    pub(super) tool: Text<'a>,
    pub(super) risk: Option<Risk>,
}

#[derive(Deserialize)]
pub(super) struct GlanceCaller<'a> {
    #[serde(borrow, default)]
    pub(super) principal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) session: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) agent: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct GlanceEnding<'a> {
    pub(super) status: EndStatus,
    pub(super) code: Option<ErrorCode>,
    #[serde(borrow, default)]
    pub(super) tool_code: Option<Text<'a>>,
    pub(super) gate: Option<GateRecord>,
    pub(super) approval_id: Option<serde::de::IgnoredAny>,
}

/// Text that is copied only where it has escapes.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Whether the call with these entries may fit. One that is damaged may.
pub fn may_fit(query: &AuditQuery, entries: &[StoredEntry]) -> bool {
    entries.iter().any(|entry| match entry.kind {
        Some(Kind::Started | Kind::Finished) => match entry.parse_head::<Glance<'_>>() {
            Ok(glance) => query.fits_glance(&glance),
            Err(_) => true,
        },
        Some(
            Kind::Step
            | Kind::Erased
            | Kind::Released
            | Kind::Unanchored
            | Kind::Accepted
            | Kind::Migrated
            | Kind::Vouched
            | Kind::Adopted
            | Kind::Spent
            | Kind::Keyed
            | Kind::Pruned,
        ) => false,
        None => true,
    })
}
