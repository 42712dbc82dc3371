-- How late the first process of a run has started, in microseconds, by what the run waited for;
-- NULL: it did not start, or nobody measured it.

ALTER TABLE attempts ADD COLUMN lag_dispatch_us INTEGER;    -- the daemon and this ledger
ALTER TABLE attempts ADD COLUMN lag_dependency_us INTEGER;  -- the jobs that it follows
ALTER TABLE attempts ADD COLUMN lag_overlap_us INTEGER;     -- an earlier run of its job
ALTER TABLE attempts ADD COLUMN lag_pool_us INTEGER;        -- a slot of its pool
ALTER TABLE attempts ADD COLUMN lag_spawn_us INTEGER;       -- the system
