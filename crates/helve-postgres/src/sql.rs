//! Statements and their parameters.
//!
//! Statements have no names: a pooler in transaction mode may give the next one another connection. So the types of
//! parameters are told with each, and each takes one trip to the server.

use tokio_postgres::types::{ToSql, Type};

/// A parameter with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A Rust type whose values go to the server as one SQL type.
pub(crate) trait Typed: ToSql + Sync {
    /// That type.
    const TYPE: Type;
}

macro_rules! typed {
    ($($rust:ty => $sql:ident),* $(,)?) => {
        $(impl Typed for $rust {
            const TYPE: Type = Type::$sql;
        })*
    };
}

typed! {
    bool => BOOL,
    i16 => INT2,
    i64 => INT8,
    &str => TEXT,
    String => TEXT,
    &[u8] => BYTEA,
    Vec<u8> => BYTEA,
    Vec<bool> => BOOL_ARRAY,
    Vec<i16> => INT2_ARRAY,
    Vec<i64> => INT8_ARRAY,
    Vec<&str> => TEXT_ARRAY,
    Vec<String> => TEXT_ARRAY,
    Vec<&[u8]> => BYTEA_ARRAY,
    Vec<Vec<u8>> => BYTEA_ARRAY,
    Vec<Option<i64>> => INT8_ARRAY,
    Vec<Option<&str>> => TEXT_ARRAY,
    Vec<Option<String>> => TEXT_ARRAY,
    Vec<Option<&[u8]>> => BYTEA_ARRAY,
}

impl<T: Typed> Typed for Option<T> {
    const TYPE: Type = T::TYPE;
}

/// A parameter.
pub(crate) fn param<T: Typed>(value: &T) -> Param<'_> {
    (value, T::TYPE)
}

/// Parameters in order.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::sql::param(&$value)),*]
    };
}
pub(crate) use params;

/// Text for a column by which something is found. PostgreSQL's text has no NUL, which names from outside may have; what
/// they name is kept as JSON, which escapes it.
pub(crate) fn findable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A limit for a statement.
pub(crate) fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}
