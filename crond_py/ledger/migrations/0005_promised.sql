-- How many durable writes this ledger has taken. The mark beside it has the same number: where that
-- is larger, the newest records of this ledger are lost. It is kept beside the last id, where a
-- claim writes anyway: a page of its own would cost each claim a fifth of its time.

INSERT INTO sqlite_sequence (name, seq) VALUES ('promised', 0);
