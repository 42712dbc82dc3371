-- Tasks: work that was handed in, in lanes that are taken up in due order. Their runs are those of
-- the job "task:ID". Instants are microseconds since 1970-01-01T00:00:00Z, as everywhere.

CREATE TABLE lanes (
    id INTEGER PRIMARY KEY,
    pool TEXT NOT NULL,
    priority INTEGER NOT NULL,      -- higher first
    "group" TEXT NOT NULL,          -- whose share of the pool they count to
    scale TEXT NOT NULL,            -- what due is measured on: wall, steady
    open INTEGER NOT NULL DEFAULT 0,    -- tasks in it that have not ended
    stored INTEGER NOT NULL DEFAULT 0,  -- tasks in it; a lane without any goes
    CHECK (scale IN ('wall', 'steady')),
    CHECK (open BETWEEN 0 AND stored)
) STRICT;

CREATE UNIQUE INDEX lanes_names ON lanes (pool, priority, "group", scale);

CREATE TABLE tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- in the order of handing in; never used again
    lane_id INTEGER NOT NULL,       -- of lanes; not REFERENCES: a lane that goes would be looked for
    due INTEGER NOT NULL,           -- instant on the lane's scale; the next, or the last if ended
    period INTEGER,                 -- microseconds; NULL: it comes once
    definition TEXT NOT NULL,       -- JSON object of job keys
    key TEXT,                       -- the submitter's own name for it
    submitted_by TEXT NOT NULL,     -- user
    submitted_at INTEGER NOT NULL,  -- instant
    ended_at INTEGER,               -- instant; NULL: it has an occurrence without a row in runs
    CHECK (period > 0)
) STRICT;

-- What comes next in a lane; an entry ends with the id, as any does.
CREATE INDEX tasks_open ON tasks (lane_id, due) WHERE ended_at IS NULL;

-- The same key of one submitter is the same task.
CREATE UNIQUE INDEX tasks_key ON tasks (submitted_by, key) WHERE key IS NOT NULL;

-- What can be deleted first.
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE ended_at IS NOT NULL;

-- A task is not a job that one asks the last run of; a row for each would be as many again.
DROP TRIGGER attempts_are_noted;

CREATE TRIGGER attempts_are_noted AFTER INSERT ON attempts
BEGIN
    INSERT INTO last_attempted (job, run_id)
    SELECT job, id FROM runs WHERE id = NEW.run_id AND substr(job, 1, 5) <> 'task:'
    ON CONFLICT (job) DO UPDATE SET run_id = excluded.run_id WHERE excluded.run_id > run_id;
END;
