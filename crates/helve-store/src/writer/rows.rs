//! Rows on their way into the table of entries, several in one statement.

use rusqlite::types::ToSqlOutput;
use rusqlite::{CachedStatement, Connection, ToSql};

use helve_ledger::chain::{Hash, Kind, Link, Position, Salt, commit_to};
use helve_ledger::entry::RowText;

/// Rows in one statement, which share the cost of starting it and of finding the table's end. What
/// is bound for so many still fits the memory that SQLite sets aside for a connection.
const ROWS_MAX: usize = 8;

const COLUMNS: usize = 9;

// What goes wrong fails the whole group anyway; rolling back at once spares SQLite the means to undo
// half a statement. For the same reason it counts `seq` itself: it would keep those means for a
// number that is given, and look whether there is one like it.
const INSERT: &str = "INSERT OR ROLLBACK INTO entries \
                      (kind, made_ms, call_id, run_id, hash, commitment, salt, head, payload) VALUES ";
const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The rows that wait. Reused, so that writing allocates little.
pub(super) struct Rows {
    rows: [Row; ROWS_MAX],
    waiting: usize,
    sql: String,
}

/// An entry that is ready to be inserted.
struct Row {
    text: RowText,
    place: Position,
    kind: Kind,
    cover: Option<Cover>,
}

/// What the chain knows of a payload, and what is erased with it.
struct Cover {
    commitment: Hash,
    salt: Salt,
}

impl Default for Rows {
    fn default() -> Self {
        let sql = format!("{INSERT}{}", [ROW; ROWS_MAX].join(", "));
        Self { rows: std::array::from_fn(|_| Row::empty()), waiting: 0, sql }
    }
}

impl Rows {
    /// Begins a group, forgetting what a failed one left.
    pub(super) fn clear(&mut self) {
        self.waiting = 0;
    }

    /// The next row's text, to be set before the row is added.
    pub(super) fn text(&mut self) -> &mut RowText {
        &mut self.rows[self.waiting].text
    }

    /// Adds the next row, whose text is set, behind `end`. With salt: it has a payload.
    pub(super) fn add(
        &mut self,
        db: &Connection,
        end: Position,
        kind: Kind,
        salt: Option<Salt>,
    ) -> rusqlite::Result<Position> {
        let row = &mut self.rows[self.waiting];
        row.kind = kind;
        row.cover = salt.map(|salt| Cover { commitment: commit_to(&salt, &row.text.payload), salt });
        row.place = end.next(&row.link());
        let place = row.place;
        self.waiting += 1;
        if self.waiting == ROWS_MAX {
            let mut insert = db.prepare_cached(&self.sql)?;
            write(db, &mut insert, &self.rows)?;
            self.waiting = 0;
        }
        Ok(place)
    }

    /// Writes what waits, and keeps the next row's text, which may be set.
    pub(super) fn flush_others(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let next = self.waiting;
        self.flush(db)?;
        self.rows.swap(0, next);
        Ok(())
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut insert = db.prepare_cached(&self.sql[..INSERT.len() + ROW.len()])?;
        self.rows[..waiting].chunks(1).try_for_each(|row| write(db, &mut insert, row))
    }
}

fn write(db: &Connection, insert: &mut CachedStatement<'_>, rows: &[Row]) -> rusqlite::Result<()> {
    for (index, row) in rows.iter().enumerate() {
        row.bind(insert, index * COLUMNS)?;
    }
    insert.raw_execute()?;
    // The chain covers the number, so it must be the one that SQLite counted.
    let (counted, hashed) = (db.last_insert_rowid(), rows.last().map_or(0, |row| row.place.seq));
    if counted != hashed {
        let told = format!("entry {hashed} was counted as {counted}; run verify");
        return Err(rusqlite::Error::ToSqlConversionFailure(told.into()));
    }
    Ok(())
}

impl Row {
    fn empty() -> Self {
        Self { text: RowText::default(), place: Position::START, kind: Kind::Started, cover: None }
    }

    fn link(&self) -> Link<'_> {
        Link {
            kind: self.kind,
            call_id: self.text.call_id.as_bytes(),
            run_id: self.run_id().map(str::as_bytes),
            head: &self.text.head,
            commitment: self.commitment(),
        }
    }

    fn run_id(&self) -> Option<&str> {
        Some(self.text.run_id.as_str()).filter(|run_id| !run_id.is_empty())
    }

    fn commitment(&self) -> &[u8] {
        self.cover.as_ref().map_or(&[], |cover| &cover.commitment)
    }

    fn bind(&self, insert: &mut CachedStatement<'_>, after: usize) -> rusqlite::Result<()> {
        let text = &self.text;
        insert.raw_bind_parameter(after + 1, self.kind as i64)?;
        insert.raw_bind_parameter(after + 2, text.made_ms)?;
        insert.raw_bind_parameter(after + 3, text.call_id.as_str())?;
        insert.raw_bind_parameter(after + 4, self.run_id())?;
        insert.raw_bind_parameter(after + 5, self.place.hash)?;
        insert.raw_bind_parameter(after + 6, self.commitment())?;
        insert.raw_bind_parameter(after + 7, self.cover.as_ref().map(|cover| cover.salt))?;
        insert.raw_bind_parameter(after + 8, JsonText(&text.head))?;
        insert.raw_bind_parameter(after + 9, self.cover.as_ref().map(|_| JsonText(&text.payload)))
    }
}

/// JSON that we wrote ourselves, bound as text without a copy.
struct JsonText<'a>(&'a [u8]);

impl ToSql for JsonText<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = std::str::from_utf8(self.0)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(text.into())
    }
}
