-- Events, tasks and contacts. `bytes` is the truth; every other column is read from it and can be made anew.

CREATE TABLE objects (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    collection INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
    -- What the server calls it, and which state of it this is.
    href       TEXT NOT NULL,
    version    TEXT NOT NULL,
    uid        TEXT NOT NULL,
    -- One of event, task, contact, other.
    kind       TEXT NOT NULL,
    bytes      BLOB NOT NULL,
    -- Seconds since 1970 between which all of it happens. NULL: not known, or without an end.
    first      INTEGER,
    last       INTEGER,
    -- Why its times cannot be read, for people. Then its time is unknown and never free.
    unreadable TEXT,
    title      TEXT NOT NULL,
    place      TEXT NOT NULL,
    notes      TEXT NOT NULL,
    -- Of tasks. A day or a time without a zone is told as if in UTC.
    due        INTEGER,
    status     TEXT,
    priority   INTEGER,
    project    TEXT,
    UNIQUE (collection, href)
) STRICT;

CREATE INDEX objects_uid ON objects (collection, uid);
CREATE INDEX objects_first ON objects (collection, kind, first);

-- Who is in them: contacts, and people who were invited or who invited.
CREATE TABLE people (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    object       INTEGER NOT NULL REFERENCES objects ON DELETE CASCADE,
    -- One of contact, organizer, attendee.
    role         TEXT NOT NULL,
    name         TEXT NOT NULL,
    -- In small letters.
    address      TEXT NOT NULL,
    organisation TEXT NOT NULL
) STRICT;

CREATE INDEX people_object ON people (object);
CREATE INDEX people_address ON people (address);

-- `unicode61` finds no part of a run of Chinese or Japanese; `trigram` does.
CREATE VIRTUAL TABLE object_words USING fts5 (
    title, place, notes, content = 'objects', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE object_runs USING fts5 (
    title, place, notes, content = 'objects', content_rowid = 'id', tokenize = 'trigram'
);
CREATE VIRTUAL TABLE people_words USING fts5 (
    name, address, organisation, content = 'people', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
-- What is removed is not to be found in the file.
INSERT INTO object_words (object_words, rank) VALUES ('secure-delete', 1);
INSERT INTO object_runs (object_runs, rank) VALUES ('secure-delete', 1);
INSERT INTO people_words (people_words, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER objects_added AFTER INSERT ON objects BEGIN
    INSERT INTO object_words (rowid, title, place, notes) VALUES (new.id, new.title, new.place, new.notes);
    INSERT INTO object_runs (rowid, title, place, notes) VALUES (new.id, new.title, new.place, new.notes);
END;
CREATE TRIGGER objects_removed AFTER DELETE ON objects BEGIN
    INSERT INTO object_words (object_words, rowid, title, place, notes)
        VALUES ('delete', old.id, old.title, old.place, old.notes);
    INSERT INTO object_runs (object_runs, rowid, title, place, notes)
        VALUES ('delete', old.id, old.title, old.place, old.notes);
END;
CREATE TRIGGER objects_changed AFTER UPDATE ON objects BEGIN
    INSERT INTO object_words (object_words, rowid, title, place, notes)
        VALUES ('delete', old.id, old.title, old.place, old.notes);
    INSERT INTO object_runs (object_runs, rowid, title, place, notes)
        VALUES ('delete', old.id, old.title, old.place, old.notes);
    INSERT INTO object_words (rowid, title, place, notes) VALUES (new.id, new.title, new.place, new.notes);
    INSERT INTO object_runs (rowid, title, place, notes) VALUES (new.id, new.title, new.place, new.notes);
END;
CREATE TRIGGER people_added AFTER INSERT ON people BEGIN
    INSERT INTO people_words (rowid, name, address, organisation)
        VALUES (new.id, new.name, new.address, new.organisation);
END;
CREATE TRIGGER people_removed AFTER DELETE ON people BEGIN
    INSERT INTO people_words (people_words, rowid, name, address, organisation)
        VALUES ('delete', old.id, old.name, old.address, old.organisation);
END;

-- What a call is about to write, and what was there before: noted first, so that the call can be undone by its result
-- alone, and one that was cut short can be asked what became of it.
CREATE TABLE object_deeds (
    call          TEXT NOT NULL,
    step          INTEGER NOT NULL,
    noted_at      INTEGER NOT NULL,
    account       TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
    collection    TEXT NOT NULL,
    href          TEXT NOT NULL,
    -- Absent: nothing was there before, or is to be there after.
    before        BLOB,
    before_version TEXT,
    after         BLOB,
    -- Known once it is written.
    after_version TEXT,
    -- What the call answers, as JSON; with the first step.
    result        TEXT NOT NULL,
    PRIMARY KEY (call, step)
) STRICT;
CREATE INDEX object_deeds_noted ON object_deeds (noted_at);
