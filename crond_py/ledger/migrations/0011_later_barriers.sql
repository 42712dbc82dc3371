-- The stretches that were accounted for before the clock was set back a little and are not due again, but
-- for the first one, which stands in barrier_from and barrier_until: there are several where the clock was
-- set back several times. NULL: none. JSON: of each the instants after which and up to which it is.

ALTER TABLE cursors ADD COLUMN later_barriers TEXT;
