//! Helve's ledger on SQLite.
