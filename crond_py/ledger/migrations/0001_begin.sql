-- The first ledger. What a column holds is said inside the table, so that `.schema` shows it.
-- Instants are microseconds since 1970-01-01T00:00:00Z. Reasons and paths are of any type
-- because a path need not be UTF-8: such a one is kept as bytes.

PRAGMA application_id = 0x70796372;  -- "pycr"

CREATE TABLE meta (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    identity TEXT NOT NULL,         -- 8 hexadecimal digits, random; begins every PYCRON_RUN_ID
    created_at INTEGER NOT NULL     -- instant
) STRICT;

CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- in the order of the claims; never used again
    job TEXT NOT NULL,
    era INTEGER NOT NULL,           -- goes up when the wall clock is set far back
    due INTEGER NOT NULL,           -- instant
    cause TEXT NOT NULL,            -- schedule, catch_up, manual, startup, upstream
    state TEXT NOT NULL,            -- queued, running, waiting_retry, done
    claimed_at INTEGER NOT NULL,    -- instant
    outcome TEXT,                   -- succeeded, failed, timed_out, cancelled, skipped, missed, lost
    reason ANY NOT NULL,            -- for people; may be empty
    last_due INTEGER,               -- instant; the last of a stretch of missed occurrences
    count INTEGER NOT NULL,         -- occurrences that the row stands for
    finished_at INTEGER,            -- instant
    retry_at INTEGER,               -- instant; while waiting for a retry
    CHECK ((state = 'done') = (outcome IS NOT NULL)),
    CHECK (count >= 1),
    CHECK (last_due IS NULL OR last_due >= due)
) STRICT;

-- An occurrence has one run. The order serves the history of a job, too.
CREATE UNIQUE INDEX runs_occurrence ON runs (job, due, era);

-- The history of all jobs.
CREATE INDEX runs_due ON runs (due);

-- What is to be taken up again after a restart; small, however long the history.
CREATE INDEX runs_open ON runs (due) WHERE outcome IS NULL;

-- What went wrong, which is mostly little.
CREATE INDEX runs_not_succeeded ON runs (due) WHERE outcome <> 'succeeded';

-- Stretches that reach into a time that is asked for.
CREATE INDEX runs_stretch ON runs (last_due, due) WHERE last_due IS NOT NULL;

CREATE TABLE attempts (
    run_id INTEGER NOT NULL REFERENCES runs (id),
    number INTEGER NOT NULL,        -- from 1
    begun_at INTEGER NOT NULL,      -- instant
    pid INTEGER,
    start_ticks INTEGER,            -- field 22 of /proc/PID/stat, see proc(5)
    boot_id TEXT,                   -- /proc/sys/kernel/random/boot_id
    started_at INTEGER,             -- instant; NULL: there was no process, or not yet
    finished_at INTEGER,            -- instant
    has_exit INTEGER NOT NULL,      -- 1: the process has ended; how, the next two say, or nobody
    exit_code INTEGER,
    exit_signal INTEGER,            -- number, see signal(7)
    cpu_us INTEGER,                 -- microseconds, user and system
    peak_memory_bytes INTEGER,
    outcome TEXT,
    reason ANY NOT NULL,            -- for people; may be empty
    output ANY NOT NULL,            -- path of the file with its output, or empty
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

-- Each job's newest run with an attempt. It could be found in the tables above, but not quickly,
-- and an index for it would cost a page of its own at nearly every claim.
CREATE TABLE last_attempted (
    job TEXT PRIMARY KEY,
    run_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER attempts_are_noted AFTER INSERT ON attempts
BEGIN
    INSERT INTO last_attempted (job, run_id)
    SELECT job, id FROM runs WHERE id = NEW.run_id
    ON CONFLICT (job) DO UPDATE SET run_id = excluded.run_id WHERE excluded.run_id > run_id;
END;

CREATE TABLE cursors (
    job TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,      -- of the schedule; another one means a new baseline
    era INTEGER NOT NULL,
    baseline INTEGER NOT NULL,      -- instant; nothing up to it counts as missed
    accounted_until INTEGER NOT NULL,  -- instant; everything up to it has its row
    anchor INTEGER,                 -- instant; what an interval counts from
    barrier_from INTEGER,           -- instant; with the next one: accounted for before the clock
    barrier_until INTEGER,          -- instant; was set back a little, so not due again
    boot_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
