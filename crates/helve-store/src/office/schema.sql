-- What the office pack keeps: accounts, what was synced from them, and all that the embedded account has.
-- Rows of other accounts can be made anew by a sync; those of the embedded account and of the outbox cannot.

CREATE TABLE accounts (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    -- The person's own address and name there: who mails come from, whose calendar it is.
    address    TEXT,
    name       TEXT,
    -- Whose account it is; everybody's where it is absent.
    owner      TEXT,
    -- How to reach it, as JSON. Never a secret.
    settings   TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    synced_at  INTEGER,
    -- Why the last sync failed, for people.
    trouble    TEXT,
    -- Which process syncs it, and until when it may.
    syncing    TEXT,
    syncing_until INTEGER
) STRICT;

CREATE TABLE collections (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    account   TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
    -- What the server calls it.
    href      TEXT NOT NULL,
    name      TEXT NOT NULL,
    -- One of mails, objects.
    holds     TEXT NOT NULL,
    -- Of mails: what the folder is for.
    role      TEXT,
    -- Of objects: what it takes.
    events    INTEGER NOT NULL DEFAULT 0,
    tasks     INTEGER NOT NULL DEFAULT 0,
    contacts  INTEGER NOT NULL DEFAULT 0,
    writable  INTEGER NOT NULL DEFAULT 1,
    -- From where on to ask for changes.
    state     TEXT,
    synced_at INTEGER,
    UNIQUE (account, holds, href)
) STRICT;
