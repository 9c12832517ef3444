//! Rows that entries vouch for: each is read together with the last entry that names it.

use serde::Deserialize;

/// The column with the head of the last entry about a row, by the expression that names it.
macro_rules! told_of {
    ($row:literal) => {
        concat!("(SELECT e.head FROM helve.entries e WHERE e.about = ", $row, " ORDER BY e.id DESC LIMIT 1)")
    };
}
pub(crate) use told_of;

/// What the head of an entry tells of a row.
#[derive(Deserialize)]
struct Told {
    row_seal: Option<String>,
    row_until_us: Option<i64>,
}

/// The digest that the last entry about a row tells. Absent: there is none, or the row was removed.
pub(crate) fn seal(head: Option<&str>) -> Option<String> {
    serde_json::from_str::<Told>(head?).ok()?.row_seal
}

/// Whether the row must be there at a time, by the last entry about it.
pub(crate) fn is_due(head: Option<&str>, now_us: i64) -> bool {
    let told = head.and_then(|head| serde_json::from_str::<Told>(head).ok());
    told.is_some_and(|told| told.row_seal.is_some() && told.row_until_us.is_none_or(|until| until > now_us))
}
