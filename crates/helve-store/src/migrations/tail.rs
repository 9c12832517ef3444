//! Appending to the chain in a transaction that is not the writer's.

use helve_core::CallId;
use rusqlite::{Connection, params};
use serde::Serialize;

use crate::schema;
use helve_ledger::chain::{Kind, Link, Position};

/// The end of the chain.
pub(super) struct Tail<'a> {
    db: &'a Connection,
    position: Position,
}

impl<'a> Tail<'a> {
    pub(super) fn of(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self { db, position: schema::position(db)? })
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Appends an entry without a payload.
    pub(super) fn append(
        &mut self,
        kind: Kind,
        call_id: Option<CallId>,
        head: &impl Serialize,
    ) -> rusqlite::Result<()> {
        let head = serde_json::to_string(head)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let made_ms = call_id.map_or(0, CallId::made_at_ms);
        let call_id = call_id.map_or_else(String::new, |id| id.to_string());
        let (call, text) = (call_id.as_bytes(), head.as_bytes());
        let link = Link { kind, call_id: call, run_id: None, head: text, commitment: &[] };
        self.position = self.position.next(&link);
        let Position { seq, hash } = self.position;
        self.db
            .prepare_cached(
                "INSERT INTO entries (seq, kind, made_ms, call_id, hash, commitment, head) \
                 VALUES (?1, ?2, ?3, ?4, ?5, x'', ?6)",
            )?
            .execute(params![seq, kind as i64, made_ms, call_id, hash, head])
            .map(drop)
    }
}
