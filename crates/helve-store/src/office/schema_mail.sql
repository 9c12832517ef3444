-- Mails, what is searched in them, who was met in them, and what is to be sent.

CREATE TABLE mails (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Where it stands in time, newest highest: the second it was written, and a number within it. The full-text
    -- index counts its rows by this, so that a search begins with the newest and stops when it has enough.
    seq         INTEGER NOT NULL UNIQUE,
    collection  INTEGER NOT NULL REFERENCES collections ON DELETE CASCADE,
    account     TEXT NOT NULL,
    -- The server's own name for it.
    key         TEXT NOT NULL,
    message_id  TEXT,
    thread      INTEGER NOT NULL,
    subject     TEXT NOT NULL,
    -- The subject without prefixes of replies and in small letters.
    topic       TEXT NOT NULL,
    -- Whom it is from and whom it went to, as a JSON array of objects with `role`, `name` and `address`.
    people      TEXT NOT NULL,
    -- Whether the account's own person wrote it.
    own         INTEGER NOT NULL,
    -- Whether it came as a draft: the people in it are not counted. Never changed, so that they are not when it goes.
    unsent      INTEGER NOT NULL,
    date        INTEGER NOT NULL,
    seen        INTEGER NOT NULL,
    answered    INTEGER NOT NULL,
    flagged     INTEGER NOT NULL,
    draft       INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    attachments INTEGER NOT NULL,
    preview     TEXT NOT NULL,
    -- SHA-256 of the message as we got it: which state of it this is.
    digest      TEXT NOT NULL,
    -- The message itself, of the embedded account alone. Others ask their server.
    raw         BLOB,
    UNIQUE (collection, key)
) STRICT;

CREATE INDEX mails_by_time ON mails (collection, seq);
CREATE INDEX mails_by_thread ON mails (account, thread, seq);
CREATE INDEX mails_by_message ON mails (account, message_id);
CREATE INDEX mails_by_digest ON mails (account, digest);
CREATE INDEX mails_by_topic ON mails (account, topic, date);
-- Who wrote it stands first.
CREATE INDEX mails_by_sender ON mails (lower(people ->> '$[0].address'), seq);

-- Words of mails. A letter of a script that is written without spaces is a word of its own here: `unicode61` takes a
-- whole run for one word, and trigrams find no word of two letters, of which Japanese and Chinese have most.
CREATE VIRTUAL TABLE mails_text USING fts5 (
    subject, sender, recipients, body,
    content = '', contentless_delete = 1,
    tokenize = "unicode61 remove_diacritics 2"
);

-- Which thread a Message-ID belongs to, also one that was only named by another mail.
CREATE TABLE mail_threads (
    account    TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
    message_id TEXT NOT NULL,
    thread     INTEGER NOT NULL,
    PRIMARY KEY (account, message_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX mail_threads_by_thread ON mail_threads (account, thread);

-- Everybody who stands in a mail that is no draft: in how many, how often the person wrote to them, and when last.
CREATE TABLE people_seen (
    account TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
    address TEXT NOT NULL,
    name    TEXT,
    times   INTEGER NOT NULL,
    written INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (account, address)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER mails_come AFTER INSERT ON mails WHEN NOT new.unsent BEGIN
    INSERT INTO people_seen (account, address, name, times, written, last_at)
    -- One mail counts once, however often it names somebody.
    SELECT new.account, lower(value ->> 'address'), max(value ->> 'name'), 1,
           max(new.own AND value ->> 'role' <> 'from'), new.date
    FROM json_each(new.people) WHERE length(value ->> 'address') > 0
    GROUP BY lower(value ->> 'address')
    ON CONFLICT (account, address) DO UPDATE SET
        times = times + 1, written = written + excluded.written,
        name = CASE WHEN excluded.last_at >= last_at THEN coalesce(excluded.name, name)
                    ELSE coalesce(name, excluded.name) END,
        last_at = max(last_at, excluded.last_at);
END;

CREATE TRIGGER mails_go AFTER DELETE ON mails BEGIN
    DELETE FROM mails_text WHERE rowid = old.seq;
    UPDATE people_seen SET times = times - 1,
        written = max(0, written - (SELECT max(old.own AND value ->> 'role' <> 'from') FROM json_each(old.people)
                                    WHERE lower(value ->> 'address') = people_seen.address))
    WHERE account = old.account AND NOT old.unsent
      AND address IN (SELECT lower(value ->> 'address') FROM json_each(old.people));
    DELETE FROM people_seen
    WHERE account = old.account AND times <= 0
      AND address IN (SELECT lower(value ->> 'address') FROM json_each(old.people));
END;

-- What is to be sent, was sent, or may have been. A row outlives its account: it is the proof.
CREATE TABLE outbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Who sends, and the key of their call: one mail for each.
    principal   TEXT NOT NULL,
    key         TEXT NOT NULL,
    account     TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    -- What was approved.
    fingerprint TEXT NOT NULL,
    -- SHA-256 of the bytes.
    digest      TEXT NOT NULL,
    sender      TEXT NOT NULL,
    recipients  TEXT NOT NULL,
    -- The message as it goes out. Written once, never composed again, and emptied after it was sent.
    bytes       BLOB NOT NULL,
    -- The draft that it was made of, as JSON.
    draft       TEXT,
    -- stored, sending, sent, refused, unknown.
    state       TEXT NOT NULL,
    -- What the server said.
    said        TEXT,
    -- The answer to the call, as JSON, once it is known.
    answer      TEXT,
    created_at  INTEGER NOT NULL,
    changed_at  INTEGER NOT NULL,
    UNIQUE (principal, key)
) STRICT;

-- Drafts that calls are about to make, replace or delete, with what was there before.
CREATE TABLE draft_deeds (
    principal    TEXT NOT NULL,
    key          TEXT NOT NULL,
    account      TEXT NOT NULL,
    -- Of the draft that is made; absent where one is only deleted.
    message_id   TEXT,
    -- The draft that goes: its number, and its bytes.
    former       INTEGER,
    former_bytes BLOB,
    -- What the call answers, as JSON.
    answer       TEXT NOT NULL,
    done         INTEGER NOT NULL,
    noted_at     INTEGER NOT NULL,
    PRIMARY KEY (principal, key)
) STRICT;

CREATE INDEX draft_deeds_by_draft ON draft_deeds (account, message_id);
CREATE INDEX draft_deeds_by_time ON draft_deeds (noted_at);
