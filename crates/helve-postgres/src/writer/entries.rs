//! Entries on their way into the journal: all of a group in a few statements.

use helve_ledger::chain::{Hash, Kind, Link, Position, Salt, commit_to};
use helve_ledger::entry::RowText;
use tokio_postgres::Client;

use super::Stop;
use crate::sql::params;

/// Most entries, and most bytes, in one statement.
const ROWS_MAX: usize = 1_000;
const BYTES_MAX: usize = 8 << 20;

/// Entries that wait.
#[derive(Default)]
pub(super) struct Entries {
    text: RowText,
    waiting: Vec<Waiting>,
}

struct Waiting {
    kind: Kind,
    fenced: bool,
    made_ms: i64,
    call_id: String,
    run_id: Option<String>,
    about: Option<String>,
    place: Position,
    commitment: Option<Hash>,
    salt: Option<Salt>,
    head: String,
    payload: Option<String>,
}

/// What an entry is found by, apart from its call.
#[derive(Default)]
pub(super) struct Marks {
    /// The row that it vouches for.
    pub(super) about: Option<String>,
    /// Whether another replica had the run.
    pub(super) fenced: bool,
}

impl Entries {
    /// Begins a group, forgetting what a failed one left.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The next entry's text, to be set before the entry is added.
    pub(super) fn text(&mut self) -> &mut RowText {
        &mut self.text
    }

    /// Adds the entry whose text is set behind `end`. With salt: it has a payload.
    pub(super) fn add(
        &mut self,
        end: Position,
        kind: Kind,
        salt: Option<Salt>,
        marks: Marks,
    ) -> Result<Position, Stop> {
        let text = &self.text;
        let run_id = (!text.run_id.is_empty()).then(|| text.run_id.clone());
        let commitment = salt.map(|salt| commit_to(&salt, &text.payload));
        let link = Link {
            kind,
            call_id: text.call_id.as_bytes(),
            run_id: run_id.as_deref().map(str::as_bytes),
            head: &text.head,
            commitment: commitment.as_ref().map_or(&[], |commitment| commitment),
        };
        let place = end.next(&link);
        self.waiting.push(Waiting {
            kind,
            fenced: marks.fenced,
            made_ms: text.made_ms,
            call_id: text.call_id.clone(),
            about: marks.about,
            place,
            commitment,
            salt,
            head: written(&text.head)?,
            payload: salt.map(|_| written(&text.payload)).transpose()?,
            run_id,
        });
        Ok(place)
    }

    /// Writes what waits, as the writer `writer`.
    pub(super) async fn flush(&mut self, db: &Client, writer: i64) -> Result<(), Stop> {
        let mut rest = &self.waiting[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(fitting(rest));
            insert(db, writer, now).await?;
            rest = later;
        }
        self.waiting.clear();
        Ok(())
    }
}

/// How many of the first entries go into one statement: at least one.
fn fitting(waiting: &[Waiting]) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&Waiting| {
        bytes += entry.head.len() + entry.payload.as_ref().map_or(0, String::len);
        bytes <= BYTES_MAX
    };
    waiting.iter().take(ROWS_MAX).take_while(fits).count().max(1)
}

fn written(json: &[u8]) -> Result<String, Stop> {
    let text =
        str::from_utf8(json).map_err(|error| Stop::damaged(format!("an entry is no text: {error}")))?;
    Ok(text.to_owned())
}

const INSERT: &str = "
    INSERT INTO helve.entries
        (writer, seq, kind, fenced, made_ms, call_id, run_id, about, hash, commitment, salt, head, payload)
    SELECT $1, * FROM unnest($2::int8[], $3::int2[], $4::bool[], $5::int8[], $6::text[], $7::text[], $8::text[],
                             $9::bytea[], $10::bytea[], $11::bytea[], $12::text[], $13::text[]) AS waiting (seq)
    ORDER BY seq";

async fn insert(db: &Client, writer: i64, entries: &[Waiting]) -> Result<(), Stop> {
    fn column<'a, T>(entries: &'a [Waiting], value: impl FnMut(&'a Waiting) -> T) -> Vec<T> {
        entries.iter().map(value).collect()
    }
    let nothing: &[u8] = &[];
    db.execute_typed(
        INSERT,
        params![
            writer,
            column(entries, |entry| entry.place.seq),
            column(entries, |entry| entry.kind as i16),
            column(entries, |entry| entry.fenced),
            column(entries, |entry| entry.made_ms),
            column(entries, |entry| &*entry.call_id),
            column(entries, |entry| entry.run_id.as_deref()),
            column(entries, |entry| entry.about.as_deref()),
            column(entries, |entry| &entry.place.hash[..]),
            column(entries, |entry| entry.commitment.as_ref().map_or(nothing, |commitment| &commitment[..])),
            column(entries, |entry| entry.salt.as_ref().map(|salt| &salt[..])),
            column(entries, |entry| &*entry.head),
            column(entries, |entry| entry.payload.as_deref()),
        ],
    )
    .await?;
    Ok(())
}
