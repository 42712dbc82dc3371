-- The statements of the SQLite ledger, each under its name. "?" stands for a value; a name in
-- braces is filled in by the code, never with anything that comes from outside.

-- name: insert_meta
INSERT INTO meta (only_row, identity, created_at) VALUES (1, ?, ?) ON CONFLICT DO NOTHING

-- name: identity
SELECT identity FROM meta

-- name: journal_applied
SELECT journal_applied FROM meta

-- name: set_journal_applied
UPDATE meta SET journal_applied = max(journal_applied, ?)

-- name: promised
SELECT seq FROM sqlite_sequence WHERE name = 'promised'

-- name: set_promised
UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'promised'

-- name: last_id
SELECT max(seq) FROM sqlite_sequence WHERE name = 'runs'

-- name: begin_ids
INSERT INTO sqlite_sequence (name, seq) SELECT 'runs', 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'runs')

-- name: raise_last_id
UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'runs'

-- name: insert_run
INSERT INTO runs (
    id, job, era, due, cause, state, claimed_at, outcome, reason, last_due, count, finished_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job, due, era) DO NOTHING

-- name: update_run
UPDATE runs SET
    state = ?, outcome = ?, reason = ?, finished_at = ?, retry_at = ?, left_as = ?,
    cause = iif(? IS NULL, cause, 'catch_up'), claimed_at = ifnull(?, claimed_at)
WHERE id = ?

-- name: has_run
SELECT EXISTS (SELECT 1 FROM runs WHERE id = ?)

-- name: put_attempt
INSERT INTO attempts (
    run_id, number, begun_at, pid, start_ticks, boot_id, started_at, finished_at, has_exit,
    exit_code, exit_signal, cpu_us, peak_memory_bytes, outcome, reason, output, stopping,
    lag_dispatch_us, lag_dependency_us, lag_overlap_us, lag_pool_us, lag_spawn_us, "user"
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, number) DO UPDATE SET
    begun_at = excluded.begun_at, pid = excluded.pid, start_ticks = excluded.start_ticks,
    boot_id = excluded.boot_id, started_at = excluded.started_at,
    finished_at = excluded.finished_at, has_exit = excluded.has_exit,
    exit_code = excluded.exit_code, exit_signal = excluded.exit_signal,
    cpu_us = excluded.cpu_us, peak_memory_bytes = excluded.peak_memory_bytes,
    outcome = excluded.outcome, reason = excluded.reason, output = excluded.output,
    stopping = excluded.stopping, lag_dispatch_us = excluded.lag_dispatch_us,
    lag_dependency_us = excluded.lag_dependency_us, lag_overlap_us = excluded.lag_overlap_us,
    lag_pool_us = excluded.lag_pool_us, lag_spawn_us = excluded.lag_spawn_us,
    "user" = excluded."user"

-- name: put_cursor
INSERT OR REPLACE INTO cursors (
    job, fingerprint, era, baseline, accounted_until, anchor, barrier_from, barrier_until, boot_id,
    past, absences, later_barriers
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: cursors
SELECT
    job, fingerprint, era, baseline, accounted_until, anchor, barrier_from, barrier_until, boot_id,
    past, absences, later_barriers
FROM cursors ORDER BY job

-- name: runs
-- One row for each attempt, or one for a run without any. All in one statement: it sees one
-- state of the file, whatever is written meanwhile.
SELECT
    r.id, r.job, r.era, r.due, r.cause, r.state, r.claimed_at, r.outcome, r.reason, r.last_due,
    r.count, r.finished_at, r.retry_at, r.left_as,
    a.number, a.begun_at, a.pid, a.start_ticks, a.boot_id, a.started_at, a.finished_at,
    a.has_exit, a.exit_code, a.exit_signal, a.cpu_us, a.peak_memory_bytes, a.outcome, a.reason,
    a.output, a.stopping, a.lag_dispatch_us, a.lag_dependency_us, a.lag_overlap_us, a.lag_pool_us,
    a.lag_spawn_us, a."user"
FROM {source} AS r LEFT JOIN attempts AS a ON a.run_id = r.id
ORDER BY {order}, a.number

-- name: one_run
(SELECT * FROM runs WHERE id = ?)

-- name: run_of_occurrence
(SELECT * FROM runs WHERE job = ? AND due = ? AND era = ?)

-- name: open_runs
(SELECT * FROM runs INDEXED BY runs_open WHERE outcome IS NULL)

-- name: open_but_retries
(SELECT * FROM runs INDEXED BY runs_open WHERE outcome IS NULL AND NOT (
    state = 'waiting_retry' AND retry_at IS NOT NULL AND EXISTS (
        SELECT 1 FROM tasks AS t
        WHERE t.id = CAST(substr(runs.job, 6) AS INTEGER) AND runs.job = 'task:' || t.id
        AND t.period IS NULL AND t.lane_id IN (SELECT id FROM lanes)
    )
))

-- name: retries
SELECT r.id, l.id, r.retry_at, coalesce((
    SELECT coalesce(finished_at, begun_at) FROM attempts
    WHERE run_id = r.id ORDER BY number DESC LIMIT 1
), r.claimed_at), l.pool, l.priority, l."group", l.scale
FROM runs AS r INDEXED BY runs_open
JOIN tasks AS t ON t.id = CAST(substr(r.job, 6) AS INTEGER) AND r.job = 'task:' || t.id
JOIN lanes AS l ON l.id = t.lane_id
WHERE r.outcome IS NULL AND r.state = 'waiting_retry' AND r.retry_at IS NOT NULL
AND t.period IS NULL
ORDER BY r.id

-- name: retry_ids
SELECT r.id FROM runs AS r INDEXED BY runs_open
JOIN tasks AS t ON t.id = CAST(substr(r.job, 6) AS INTEGER) AND r.job = 'task:' || t.id
WHERE r.outcome IS NULL AND r.state = 'waiting_retry' AND r.retry_at IS NOT NULL
AND t.period IS NULL AND t.lane_id IN (SELECT id FROM lanes)
ORDER BY r.id

-- name: runs_of_ids
(SELECT * FROM runs WHERE id IN (SELECT value FROM json_each(?)))

-- name: last_runs
(SELECT * FROM runs WHERE id IN (SELECT run_id FROM last_attempted))

-- name: chosen_runs
(SELECT * FROM runs WHERE {where} ORDER BY due DESC, id DESC LIMIT ?)

-- name: newest_beyond
-- The newest finished run of a job that is beyond those to be kept.
SELECT due, id FROM runs WHERE job = ? AND outcome IS NOT NULL
ORDER BY due DESC, id DESC LIMIT 1 OFFSET ?

-- name: to_prune
SELECT id FROM runs
WHERE job = :job AND outcome IS NOT NULL AND due <= :due_until AND (
    (due, id) <= (:due, :id)
    OR (due < :older_than AND coalesce(finished_at, claimed_at) < :older_than)
)
ORDER BY due, id LIMIT :limit

-- name: outputs
SELECT output FROM attempts
WHERE run_id IN (SELECT value FROM json_each(?)) AND output <> '' ORDER BY run_id, number

-- name: delete_attempts
DELETE FROM attempts WHERE run_id IN (SELECT value FROM json_each(?))

-- name: delete_runs
DELETE FROM runs WHERE id IN (SELECT value FROM json_each(?))

-- name: forget_last_attempted
DELETE FROM last_attempted WHERE job = ? AND run_id IN (SELECT value FROM json_each(?))

-- name: find_last_attempted
INSERT INTO last_attempted (job, run_id)
SELECT job, max(id) FROM runs
WHERE job = ? AND EXISTS (SELECT 1 FROM attempts WHERE run_id = runs.id) GROUP BY job

-- name: last_task_id
SELECT max(seq) FROM sqlite_sequence WHERE name = 'tasks'

-- name: begin_task_ids
INSERT INTO sqlite_sequence (name, seq) SELECT 'tasks', 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'tasks')

-- name: raise_last_task_id
UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'tasks'

-- name: put_lane
INSERT INTO lanes (pool, priority, "group", scale) VALUES (?, ?, ?, ?)
ON CONFLICT (pool, priority, "group", scale) DO NOTHING

-- name: lane_id
SELECT id FROM lanes WHERE pool = ? AND priority = ? AND "group" = ? AND scale = ?

-- name: count_lane
UPDATE lanes SET open = open + ?, stored = stored + ? WHERE id = ?

-- name: delete_lanes
DELETE FROM lanes WHERE stored = 0

-- name: insert_task
INSERT INTO tasks (
    id, lane_id, due, period, definition, key, submitted_by, submitted_at, ended_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: task_stands
SELECT lane_id, ended_at IS NULL FROM tasks WHERE id = ?

-- name: update_task
UPDATE tasks SET due = ?, ended_at = ? WHERE id = ?

-- name: tasks
SELECT
    t.id, l.pool, l.priority, l."group", l.scale, t.due, t.period, t.definition, t.key,
    t.submitted_by, t.submitted_at, t.ended_at
FROM {source} AS t LEFT JOIN lanes AS l ON l.id = t.lane_id
ORDER BY {order}

-- name: one_task
(SELECT * FROM tasks WHERE id = ?)

-- name: task_of_key
(SELECT * FROM tasks WHERE submitted_by = ? AND key = ?)

-- name: tasks_due
-- In two parts: SQLite would look for (due, id) > (...) from the first of that due, and a million
-- may be due together.
(SELECT * FROM tasks WHERE id IN (
    SELECT id FROM (
        SELECT * FROM (
            SELECT due, id FROM tasks INDEXED BY tasks_open
            WHERE lane_id = :lane AND ended_at IS NULL AND due = :due AND id > :id
            AND :due <= :until
            ORDER BY id LIMIT :limit
        )
        UNION ALL
        SELECT * FROM (
            SELECT due, id FROM tasks INDEXED BY tasks_open
            WHERE lane_id = :lane AND ended_at IS NULL AND due > :due AND due <= :until
            ORDER BY due, id LIMIT :limit
        )
    ) ORDER BY due, id LIMIT :limit
))

-- name: count_due
SELECT count(*) FROM (
    SELECT 1 FROM tasks INDEXED BY tasks_open
    WHERE lane_id = :lane AND ended_at IS NULL AND due > :after AND due <= :until LIMIT :limit
)

-- name: open_tasks
-- The first of each lane, by the index, and of these the first; in two parts as above.
(SELECT * FROM tasks WHERE id IN (
    SELECT found.value FROM lanes AS l, json_each((
        SELECT json_group_array(id) FROM (
            SELECT * FROM (
                SELECT due, id FROM tasks INDEXED BY tasks_open
                WHERE lane_id = l.id AND ended_at IS NULL AND due = :due AND id > :id AND {where}
                ORDER BY id LIMIT :limit
            )
            UNION ALL
            SELECT * FROM (
                SELECT due, id FROM tasks INDEXED BY tasks_open
                WHERE lane_id = l.id AND ended_at IS NULL AND due > :due AND {where}
                ORDER BY due, id LIMIT :limit
            )
        )
    )) AS found WHERE l.open > 0
) ORDER BY due, id LIMIT :limit)

-- name: chosen_tasks
(SELECT * FROM tasks NOT INDEXED WHERE id < :before AND {where} ORDER BY id DESC LIMIT :limit)

-- name: lanes
SELECT pool, priority, "group", scale, open, (
    SELECT due FROM tasks INDEXED BY tasks_open
    WHERE lane_id = lanes.id AND ended_at IS NULL ORDER BY due LIMIT 1
)
FROM lanes WHERE open > 0

-- name: open_among
SELECT l.pool, l.priority, l."group", l.scale, count(*)
FROM json_each(:ids) AS chosen JOIN tasks AS t ON t.id = chosen.value
JOIN lanes AS l ON l.id = t.lane_id
WHERE t.ended_at IS NULL AND t.due > :after AND t.due <= :until GROUP BY l.id

-- name: tasks_to_prune
SELECT id, lane_id FROM tasks INDEXED BY tasks_ended
WHERE ended_at < :older_than AND NOT EXISTS (
    SELECT 1 FROM runs WHERE job = 'task:' || tasks.id
    AND (outcome IS NULL OR coalesce(finished_at, claimed_at) >= :older_than)
)
ORDER BY ended_at, id LIMIT :limit

-- name: runs_of_task
SELECT id FROM runs WHERE job = ? ORDER BY due, era LIMIT ?

-- name: delete_task
DELETE FROM tasks WHERE id = ?

-- name: has_tasks
SELECT count(*) FROM main.sqlite_schema WHERE type = 'table' AND name = 'tasks'

-- name: rescued_lanes
SELECT id, pool, priority, "group", scale FROM main.lanes {order}

-- name: copy_lane
INSERT INTO fresh.lanes (id, pool, priority, "group", scale) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: copy_tasks
INSERT INTO fresh.tasks (
    id, lane_id, due, period, definition, key, submitted_by, submitted_at, ended_at
)
SELECT id, lane_id, due, period, definition, key, submitted_by, submitted_at, ended_at
FROM main.tasks NOT INDEXED
WHERE (ended_at IS NULL OR id IN (SELECT value FROM json_each(:ended)))
AND id BETWEEN :begin AND :end
AND due BETWEEN :first AND :last AND submitted_at BETWEEN :first AND :last
AND coalesce(ended_at, due) BETWEEN :first AND :last
AND lane_id IN (SELECT id FROM fresh.lanes) ORDER BY id
ON CONFLICT DO NOTHING

-- name: copied_texts
SELECT definition, key, submitted_by FROM fresh.tasks WHERE id BETWEEN :begin AND :end

-- name: rescued_tasks
SELECT id, lane_id, due, period, definition, key, submitted_by, submitted_at, ended_at
FROM main.tasks NOT INDEXED
WHERE (ended_at IS NULL OR id IN (SELECT value FROM json_each(:ended)))
AND id BETWEEN :begin AND :end ORDER BY id {order}

-- name: copy_task
INSERT INTO fresh.tasks (
    id, lane_id, due, period, definition, key, submitted_by, submitted_at, ended_at
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: count_copied
UPDATE fresh.lanes SET (open, stored) = (
    SELECT count(*), count(*) FROM fresh.tasks WHERE lane_id = lanes.id AND ended_at IS NULL
)

-- name: count_ended
UPDATE fresh.lanes SET stored = stored + ended.number FROM (
    SELECT lane_id, count(*) AS number FROM fresh.tasks INDEXED BY tasks_ended
    WHERE ended_at IS NOT NULL GROUP BY lane_id
) AS ended WHERE ended.lane_id = lanes.id

-- name: delete_bare_lanes
DELETE FROM fresh.lanes WHERE stored = 0
