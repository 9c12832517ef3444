//! `[store]`: the database of a Helve that runs on several machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Loaded;
use super::origin::short;

/// A PostgreSQL database in place of the journal's file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSection {
    /// The database, as in `postgres://helve:${env:HELVE_DB_PASSWORD}@db.example.com/helve`. Connections to other
    /// machines are encrypted unless it says `sslmode=disable`. A file holds no password, only the name of a
    /// variable that does. Left out: the ledger is the file of `journal.path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// What this replica is called in the journal: letters, digits and `-_.:`. Left out: the name of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub(crate) replica: Option<String>,
    /// Most connections of this process for reading. Writing takes one more.
    #[schemars(range(min = 1, max = 1_000))]
    pub(crate) connections_max: usize,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self { url: None, replica: None, connections_max: 8 }
    }
}

impl Loaded {
    /// Where calls are recorded, for eyes: a file, or a database without its password.
    pub fn ledger(&self) -> String {
        let url = self.section("store").get("url").and_then(Value::as_str);
        url.map_or_else(|| short(&self.journal_path), str::to_owned)
    }

    /// Whether the ledger is a database, and `journal_path` only says where this machine's own files are.
    pub fn has_database(&self) -> bool {
        self.config.store.url.is_some()
    }
}

/// The password that is written out in an address.
pub(crate) fn password(url: &str) -> Option<&str> {
    let (_, place) = url.split_once("://")?;
    let (place, asked) = place.split_once('?').unwrap_or((place, ""));
    let of_user =
        place.rsplit_once('@').and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password);
    let asked_for = || asked.split('&').find_map(|pair| pair.strip_prefix("password="));
    of_user.or_else(asked_for).filter(|password| !password.is_empty())
}

/// The same address for eyes: without the password.
pub(crate) fn shown(url: &str) -> String {
    match password(url) {
        Some(password) if !password.starts_with("${env:") => url.replace(password, "***"),
        Some(_) | None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_found_wherever_it_stands_and_never_shown() {
        for (url, expected) in [
            ("postgres://ada:s3cret@db/helve", Some("s3cret")),
            ("postgres://ada:${env:PASSWORD}@db/helve", Some("${env:PASSWORD}")),
            ("postgres://ada@db:5432/helve", None),
            ("postgres://db:5432/helve", None),
            ("postgres://db/helve?user=ada&password=s3cret", Some("s3cret")),
            ("postgres://ada:@db/helve", None),
            ("${env:DATABASE_URL}", None),
        ] {
            assert_eq!(password(url), expected, "{url}");
            assert!(!shown(url).contains("s3cret"), "{url}");
        }
        assert_eq!(shown("postgres://ada:s3cret@db/helve"), "postgres://ada:***@db/helve");
    }
}
