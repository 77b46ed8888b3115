"""`python -I -S try_write.py FILE`: commits a write that changes nothing into an SQLite database; exit code 0 when it could."""

import contextlib
import sqlite3
import sys
from pathlib import Path

WAIT_S = 2.0
"""The longest wait for another writer."""


def refusal(path: str | Path) -> sqlite3.Error | None:
    """Return SQLite's error at a write by a new connection of this process; None when it was committed."""
    name = f"{Path(path).as_uri()}?mode=rw"  # it makes no file where there is none
    try:
        with contextlib.closing(sqlite3.connect(name, uri=True, timeout=WAIT_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {version:d}")  # written also when it stays the same
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        return error
    return None


if __name__ == "__main__":
    sys.exit(1 if refusal(sys.argv[1]) else 0)
