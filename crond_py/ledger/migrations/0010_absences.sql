-- The stretches in which nothing could start a task, in the cursor of tasks, as long as a task is left
-- that was due then; NULL: none. JSON: of each the scale of its instants, after which and up to which
-- instant it was, why, whether what was due then was missed or is lost, and the last task of which that
-- can be so, where that is known. Before this column, what was lost ended at the cursor's barrier.

ALTER TABLE cursors ADD COLUMN absences TEXT;

UPDATE cursors SET
    absences = '[["wall",0,' || barrier_until || ',"the ledger has lost its newest records; '
        || 'nobody knows whether it ran","lost"],["steady",' || -anchor || ','
        || (barrier_until - anchor) || ',"the ledger has lost its newest records; '
        || 'nobody knows whether it ran","lost"]]',
    barrier_from = NULL,
    barrier_until = NULL
WHERE job = 'tasks:' AND barrier_until IS NOT NULL AND anchor IS NOT NULL;
