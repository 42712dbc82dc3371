-- How a stop of pycron has left a run without an outcome to the next one: "running", its process goes
-- on; "recalled", it was claimed and not begun. NULL: a stop has not left it so. Before this column an
-- older pycron's reason, or the shape of the row, told it.

ALTER TABLE runs ADD COLUMN left_as TEXT;

UPDATE runs SET left_as = 'running'
WHERE outcome IS NULL AND state = 'running' AND reason = 'left running when pycron was stopped';

UPDATE runs SET left_as = 'recalled'
WHERE outcome IS NULL AND state = 'queued' AND 'cancelled' = (
    SELECT a.outcome FROM attempts AS a WHERE a.run_id = runs.id ORDER BY a.number DESC LIMIT 1
);
