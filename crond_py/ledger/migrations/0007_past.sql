-- What is known of the times that the wall clock showed before it was set by more than three hours;
-- NULL: nothing. JSON: "times", each after which and up to which instant it was accounted for and by how
-- many microseconds the clock is behind it; "boot" and "lead", which boot of the machine that was in, and
-- by how many microseconds the clock was ahead of the time since then.

ALTER TABLE cursors ADD COLUMN past TEXT;
