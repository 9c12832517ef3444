//! Comparing the tables that decide with the chains, which must be sound.
//!
//! Each comparison reads a row and the entries about it in one statement: both change in one transaction, so that they
//! agree at every moment, also while replicas write.

mod rows;
mod starts;
mod vouched;

use helve_ledger::audit::verification::{Concern, Problem};

use crate::error::PostgresError;
use crate::server::Readers;

/// Something that does not agree with the chains.
pub(super) type Difference = (Concern, Problem);

/// The first difference, if there is one.
pub(super) async fn check(readers: &Readers) -> Result<Option<Difference>, PostgresError> {
    if let Some(found) = starts::check(readers).await? {
        return Ok(Some(found));
    }
    if let Some(found) = rows::check(readers).await? {
        return Ok(Some(found));
    }
    vouched::check(readers).await
}

fn difference(concern: Concern, seq: Option<i64>, what: impl Into<String>) -> Option<Difference> {
    Some((concern, Problem { seq, what: what.into() }))
}
