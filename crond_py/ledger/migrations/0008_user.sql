-- The user that the processes of an attempt are of, by name or number as the crontab has it, or else
-- the number of the daemon's own; NULL: nobody knows. It is not what the job says by now.

ALTER TABLE attempts ADD COLUMN "user" TEXT;
