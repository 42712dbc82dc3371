"""Write to a ledger until its files may grow no more: ledger_fill.py LEDGER BYTES.

Says how the first write failed, and how many runs there are; then the limit is lifted, and it
says how many there are after one more write.
"""

import itertools
import resource
import sys
from pathlib import Path

from crond_py.errors import LedgerError
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ports import RunQuery
from tests.support.ledgers import T0, at, claim

ledger = SqliteLedger.open(Path(sys.argv[1]), now=T0)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
written = 0
try:
    for number in itertools.count():
        ledger.write([claim(f"job-{job}", at(number)) for job in range(100)], durable=True)
        written += 100
except LedgerError as error:
    sys.stdout.write(f"{error}\n")
sys.stdout.write(f"{written} {len(ledger.runs(RunQuery(limit=None)))}\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
ledger.write([claim("one more")], durable=True)
sys.stdout.write(f"{len(ledger.runs(RunQuery(limit=None)))}\n")
ledger.close()
