"""Keep a ledger locked as another program may do: ledger_hold.py LEDGER.

Says "held" once it has the lock, waits for a line, lets go, says "released".
"""

import os
import sqlite3
import sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
os.write(1, b"held\n")
sys.stdin.readline()
connection.execute("COMMIT")
connection.close()
os.write(1, b"released\n")
