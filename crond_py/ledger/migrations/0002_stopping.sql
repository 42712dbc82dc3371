-- What an attempt that is being ended before its own end is going to end as; NULL: nothing ends it.

ALTER TABLE attempts ADD COLUMN stopping TEXT;
