"""The places of all files under a data directory, and the rights to read them.

The directory and all in it belong to the user who runs Berth: directories are 0700, files 0600.
"""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.foundation.errors import LaunchError

SOURCE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Layout:
    """The paths of one data directory; `root` is absolute."""

    root: Path

    @classmethod
    def at(cls, directory: str | Path) -> "Layout":
        return cls(Path(directory).expanduser().resolve())

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def redis(self) -> Path:
        return self.root / "redis"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    @property
    def tls(self) -> Path:
        return self.root / "tls"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    @property
    def state(self) -> Path:
        """The supervisor's report of itself and its children (JSON)."""
        return self.run / "state.json"

    @property
    def stop_request(self) -> Path:
        """The wish of `down` for the supervisor (JSON); read when the supervisor gets SIGTERM."""
        return self.run / "stop.json"

    @property
    def mode(self) -> Path:
        """How this directory was made and is served: `{"demo": bool, "base_url": str, ...}`; kept between starts."""
        return self.root / "launch.json"

    @property
    def secret_key(self) -> Path:
        return self.root / "secret-key"

    @property
    def metrics_token(self) -> Path:
        """The token with which Prometheus is let in to `/metrics`."""
        return self.root / "metrics-token"

    @property
    def storage(self) -> Path:
        """The storage the virtual nodes share (their storage domain's directory)."""
        return self.root / "storage"

    @property
    def prepared(self) -> Path:
        """The fingerprint of the last preparation's sources."""
        return self.run / "prepared.json"

    @property
    def workload(self) -> Path:
        """Exists once the demo's jobs have been submitted."""
        return self.run / "workload.json"

    @property
    def operator(self) -> Path:
        return self.root / "operator.json"

    @property
    def demo_tokens(self) -> Path:
        return self.root / "demo-tokens.json"

    @property
    def demo_users(self) -> Path:
        return self.root / "demo-users.json"

    @property
    def backups(self) -> Path:
        """The folder of `./berth backup` when it is given none."""
        return self.root / "backups"

    @property
    def restoring(self) -> Path:
        """Exists while a backup is being restored: found by `up`, it says that a restore was cut off (JSON)."""
        return self.run / "restoring.json"

    @property
    def database(self) -> Path:
        return self.root / "berth.sqlite3"

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
