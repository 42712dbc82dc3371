"""Write batches to a ledger until killed: ledger_write.py LEDGER FIRST COUNT.

Batch n has twenty claims due n seconds after T0, each with an attempt; every other batch is
durable. Says n once batch n is written.
"""

import os
import sys
from pathlib import Path

from crond_py.ledger.sqlite import SqliteLedger
from tests.support.ledgers import T0, at, attempted

path, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
ledger = SqliteLedger.open(path, now=T0)
for number in range(first, first + count):
    batch = [attempted(f"job-{job}", at(number)) for job in range(20)]
    ledger.write(batch, durable=number % 2 == 0)
    # One system call a line: what was said was written before.
    os.write(1, b"%d\n" % number)
