"""Keep a ledger locked as another program may do: ledger_hold.py LEDGER.

Says "held" once it has the lock, waits for a line, lets go, says "released".
"""

import sqlite3
import sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
connection.close()
print("released", flush=True)
