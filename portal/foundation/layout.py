"""The places of all files under a data directory, and the rights to read them.

The directory and all in it belong to the user who runs Berth: directories are 0700, files 0600.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any

from portal.foundation.errors import LaunchError

SOURCE = Path(__file__).resolve().parents[2]


class Layout:
    """The paths of one data directory; `root` is absolute."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run, self.logs, self.redis = root / "run", root / "logs", root / "redis"
        self.nodes, self.tls = root / "nodes", root / "tls"
        self.storage = root / "storage"  # shared by the virtual nodes: their storage domain's directory
        self.backups = root / "backups"  # where `./berth backup` writes when it is given no folder
        self.database = root / "berth.sqlite3"
        self.secret_key = root / "secret-key"
        self.metrics_token = root / "metrics-token"  # with it Prometheus is let in to `/metrics`
        self.operator = root / "operator.json"
        self.demo_tokens, self.demo_users = root / "demo-tokens.json", root / "demo-users.json"
        self.mode = root / "launch.json"  # how this was made and is served: `{"demo": bool, "base_url": str, ...}`
        self.lock = self.run / "lock"
        self.state = self.run / "state.json"  # the supervisor's report of itself and its children
        self.stop_request = self.run / "stop.json"  # the wish of `down`, read when the supervisor gets SIGTERM
        self.prepared = self.run / "prepared.json"  # the fingerprint of the last preparation's sources
        self.workload = self.run / "workload.json"  # there once the demo's jobs have been submitted
        self.restoring = (
            self.run / "restoring.json"
        )  # there while a backup is restored; `up` finds one that was cut off

    @classmethod
    def at(cls, directory: str | Path) -> "Layout":
        return cls(Path(directory).expanduser().resolve())

    def put_right(self) -> list[Path]:
        """Open again what was closed to ourselves: the directories, and the files directly in them. Returns these."""
        found = []
        for directory in (self.root, self.run, self.redis, self.logs, self.nodes, self.tls):
            found += [directory] if _opened(directory) else []
            try:
                found += [path for path in directory.iterdir() if _opened(path)]
            except OSError:  # there is none
                continue
        return found

    def prepare(self) -> None:
        """Make the directories, or say why it is not possible."""
        try:
            for path in (self.root, self.run, self.logs, self.redis, self.nodes):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = self.run / f".write-{os.getpid()}"
            probe.write_text("")
            probe.unlink()
        except OSError as error:
            raise LaunchError(
                f"The data directory {self.root} cannot be written ({error.strerror}).",
                "Choose another with --data DIR, or make it writable for this user.",
            ) from error


def _opened(path: Path) -> bool:
    """True when the path had been closed to its owner and is open again."""
    try:
        mode = path.lstat().st_mode
        needed = 0o700 if stat.S_ISDIR(mode) else 0o600 if stat.S_ISREG(mode) else 0
        if mode & needed == needed:
            return False
        path.chmod(needed)
    except OSError:  # gone meanwhile, or another's
        return False
    return True


def unwritable(database: Path) -> str | None:
    """Return which of an SQLite database's files cannot be written, and why; None when all can that are there.

    Not for a process that has the database open: to close a file gives up all its locks.
    """
    for path in (database, Path(f"{database}-wal"), Path(f"{database}-shm")):
        try:
            os.close(os.open(path, os.O_RDWR))
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{path} cannot be written ({error.strerror})"
    return None


def write_private(path: Path, text: str) -> None:
    """Replace a file at one stroke, readable by its owner only from its first byte on."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)  # half a file is of no use, and a full disk needs its room
        raise


def write_json(path: Path, value: Any) -> None:
    write_private(path, json.dumps(value, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """The file's value; None when it is absent or no JSON (ours are replaced at one stroke: a foreign hand cut it)."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
