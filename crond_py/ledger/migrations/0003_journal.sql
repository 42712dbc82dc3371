-- What could not be written here at once was kept in the journal beside this file. Its records are
-- numbered; those up to this number are in this ledger.

ALTER TABLE meta ADD COLUMN journal_applied INTEGER NOT NULL DEFAULT 0;
