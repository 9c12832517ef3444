-- Everything is in the schema `helve`, and every statement names it: a pooler may give each transaction another
-- connection, so nothing can be set for a session.

-- Numbers about the ledger as a whole. `schema_version`: the last file of this folder that was run.
CREATE TABLE helve.meta (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);
INSERT INTO helve.meta VALUES ('schema_version', 1), ('approval_changes', 0), ('key_changes', 0);

-- One row for each life of a replica. Each writes its own hash chain, whose end is `seq` and `hash`.
-- Who writes takes the lock on its row first, and changes it last: `batch` tells whether a group whose connection was
-- lost at its end was committed. While `lease_until` lies ahead the replica lives, and what it holds is its own.
-- Changed with every group: the free space in each page keeps the row where it is.
CREATE TABLE helve.writers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    batch bytea NOT NULL,
    begun_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    UNIQUE (name, epoch)
) WITH (fillfactor = 20);

-- The journal, only appended to. The chain covers `kind`, `call_id`, `run_id`, `head` and `commitment`; `payload` and
-- `salt` are gone once erased. `id` orders entries of several writers about the same thing: it is drawn while that is
-- locked. `about`: the row that an entry vouches for. `fenced`: another replica had the run.
CREATE TABLE helve.entries (
    writer bigint NOT NULL,
    seq bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    kind smallint NOT NULL,
    fenced boolean NOT NULL,
    made_ms bigint NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C",
    about text COLLATE "C",
    hash bytea NOT NULL,
    commitment bytea NOT NULL,
    salt bytea,
    head text NOT NULL,
    payload text,
    PRIMARY KEY (writer, seq)
);
CREATE INDEX entries_by_call ON helve.entries (made_ms, call_id);
CREATE INDEX entries_by_run ON helve.entries (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX entries_by_row ON helve.entries (about, id) WHERE about IS NOT NULL;
CREATE INDEX entries_of_runs ON helve.entries (made_ms, call_id) WHERE run_id IS NULL AND kind IN (0, 6);

-- Open runs. `owner` is at it while its lease lasts; `fence` grows whenever another takes it over.
-- `state`: 0 runs, 1 waits for a person, and `waits_for` says for what.
CREATE TABLE helve.runs (
    run_id text COLLATE "C" PRIMARY KEY,
    owner bigint NOT NULL,
    fence bigint NOT NULL,
    state bigint NOT NULL,
    waits_for text,
    cancel_requested boolean NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX runs_to_cancel ON helve.runs (owner) WHERE cancel_requested;

-- Idempotency keys.
CREATE TABLE helve.keys (
    scoped_key bytea PRIMARY KEY,
    fingerprint bytea NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    owner bigint NOT NULL,
    state bigint NOT NULL,
    status text,
    seal bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX keys_by_call ON helve.keys (call_id);

-- Questions to people. `body`: the question as JSON; statements find it by the other columns.
-- `changed`: the number of its last change, which grows with every change of any question.
CREATE TABLE helve.approvals (
    id text COLLATE "C" PRIMARY KEY,
    state bigint NOT NULL,
    binding text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    outer_tool text COLLATE "C",
    expires_ms bigint NOT NULL,
    changed bigint NOT NULL,
    body text NOT NULL
);
CREATE INDEX approvals_by_binding ON helve.approvals (binding, id);
CREATE INDEX approvals_by_state ON helve.approvals (state, id);
CREATE INDEX approvals_by_call ON helve.approvals (call_id);
CREATE INDEX approvals_by_change ON helve.approvals (changed);
CREATE INDEX approvals_by_end ON helve.approvals (expires_ms) WHERE state < 2;
CREATE INDEX approvals_used ON helve.approvals (tool, principal) WHERE state = 4;
CREATE INDEX approvals_by_outer ON helve.approvals (outer_tool, id) WHERE outer_tool IS NOT NULL;
CREATE TABLE helve.approval_rules (
    id text COLLATE "C" PRIMARY KEY,
    tool text COLLATE "C" NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    expires_ms bigint NOT NULL,
    body text NOT NULL
);
CREATE INDEX approval_rules_by_tool ON helve.approval_rules (tool, id);

-- Sessions. `key`: a digest of principal and session. `changed_ms` is below zero for one that was ended: that is never
-- forgotten. A row without body is being made.
CREATE TABLE helve.sessions (
    key text COLLATE "C" PRIMARY KEY,
    principal text COLLATE "C",
    session text COLLATE "C",
    changed_ms bigint NOT NULL,
    body text
);
CREATE INDEX sessions_by_change ON helve.sessions (changed_ms);
CREATE INDEX sessions_by_principal ON helve.sessions (principal, changed_ms);

-- API keys, of whose secrets only digests are kept. `used_us`: when it was last used, of which no entry tells.
CREATE TABLE helve.api_keys (
    id text COLLATE "C" PRIMARY KEY,
    purpose text COLLATE "C" NOT NULL,
    is_live boolean NOT NULL,
    only_question text COLLATE "C",
    expires_ms bigint,
    used_us bigint,
    body text NOT NULL
);
CREATE INDEX api_keys_by_question ON helve.api_keys (only_question) WHERE only_question IS NOT NULL;

-- What agents remember. Who changes a value holds the lock on the row of its owner's totals.
CREATE SEQUENCE helve.memory_versions;
CREATE TABLE helve.memory (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    version bigint NOT NULL,
    changed_us bigint NOT NULL,
    expires_us bigint,
    bytes bigint NOT NULL,
    salt bytea NOT NULL,
    UNIQUE (scope, owner, key)
);
CREATE INDEX memory_by_expiry ON helve.memory (expires_us) WHERE expires_us IS NOT NULL;
CREATE TABLE helve.memory_totals (
    scope bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    value_count bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (scope, owner)
);

-- What it takes to undo the effects of calls. `state`: 0 applied, 1 undone, 2 erased.
CREATE TABLE helve.effects (
    call_id text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    state bigint NOT NULL,
    scope bigint NOT NULL,
    owner text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    added text,
    before text,
    version bigint NOT NULL,
    expires_us bigint,
    salt bytea NOT NULL,
    seal text NOT NULL,
    PRIMARY KEY (call_id, number)
);
