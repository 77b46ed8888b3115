"""One connection of ssh to a running job: its key, the host's key, and the bytes both ways.

The key is made when the first connection begins, is shared by those that log in meanwhile, and is removed when the last
of them is in. It opens nothing by itself: the way to the server needs a token of the portal.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from berth_client.errors import AwayError, ClientError
from berth_client.settings import file_path
from berth_client.terminal import LOST

try:
    import fcntl
except ImportError:  # Windows: its key stays for the next connection
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from pathlib import Path

    from berth_client.websocket import Duplex

LOGIN_S = 60.0
"""A login takes less than this."""
READ_BYTES = 16 * 1024
MOST_WAITING = 256 * 1024
"""Bytes that wait for the portal; then nothing more is read from ssh."""
MOST_HOSTS = 32
"""Hosts' keys that are kept: each is of one connection."""


class Keys:
    """The files that ssh reads: the person's key of the moment, and the keys of the hosts of the last connections."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.key, self.hosts = directory / "key", directory / "known_hosts"
        self._lock = -1

    @classmethod
    def of_user(cls) -> Keys:
        return cls(file_path().parent / "ssh")

    def __enter__(self) -> Self:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_SH)
        return self

    def __exit__(self, *_: object) -> None:
        self.login_over()

    def login_over(self) -> None:
        """Remove the key, unless another connection is logging in with it."""
        if self._lock < 0:
            return
        with suppress(OSError):
            if fcntl is not None:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.key.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = -1

    def public(self) -> str:
        """Return the public half of the key, which is made where there is none. Raises ClientError."""
        if not self.key.exists():
            made = self._directory / f"new-{os.getpid()}"
            try:
                _keygen("-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(made))
                with suppress(FileExistsError):  # another connection has made one meanwhile
                    os.link(made, self.key)
            finally:
                for each in (made, made.with_suffix(".pub")):
                    each.unlink(missing_ok=True)
        return " ".join(_keygen("-y", "-f", str(self.key)).split()[:2])

    def host_add(self, host: str, key: str) -> None:
        with (self._directory / "known_hosts.lock").open("w") as alone:  # of two that write at once, one would be lost
            if fcntl is not None:
                fcntl.flock(alone, fcntl.LOCK_EX)
            lines = self.hosts.read_text().splitlines()[-MOST_HOSTS:] if self.hosts.exists() else []
            new = self._directory / f"known_hosts-{os.getpid()}"
            new.write_text("".join(f"{line}\n" for line in (*lines, f"{host.lower()} {key}")))
            new.replace(self.hosts)


def _keygen(*arguments: str) -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise ClientError("ssh-keygen is not here; install OpenSSH (package openssh-client)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)  # noqa: S603
    if done.returncode:
        raise ClientError(f"ssh-keygen made no key: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Proxy:
    """Carries between ssh, on standard input and output, and the server in the job."""

    def __init__(self, talk: Duplex, keys: Keys, host: str) -> None:
        from berth_client.websocket import Heart

        self._talk, self._keys, self._host = talk, keys, host
        self._heart = Heart(talk)
        self._first: bytes | None = b""
        """The beginning of the line with the host's key; None once it is known."""
        self._begun_s = time.monotonic()
        self._end: Any = None
        self._left = False

    def run(self) -> int:
        from berth_client.websocket import BrokenError

        typed, mine = socket.socketpair()
        threading.Thread(target=_read_all, args=(mine,), daemon=True).start()
        try:
            while self._end is None and not self._left:
                self._turn(typed)
        except BrokenError as error:
            raise AwayError(f"{error} The job runs on.") from None
        except BrokenPipeError:  # ssh has left
            return 0
        return self._ended()

    def _turn(self, typed: socket.socket) -> None:
        import select

        talk = self._talk
        reading: list[Any] = [talk, *([typed] if talk.waiting < MOST_WAITING else [])]
        ready, _, _ = select.select(reading, [talk] if talk.waiting else [], [], 1.0)
        if typed in ready:
            data = typed.recv(READ_BYTES)
            self._left = not data
            if data:
                talk.send(data)
        for message in self._heart.take():
            if isinstance(message, bytes):
                self._show(message)
            elif (said := json.loads(message)).get("state") == "ended":
                self._end = said
        if talk.is_over and self._end is None:
            raise AwayError("the portal has closed the connection; the job runs on")
        if self._end is None:
            talk.flush()
        if time.monotonic() - self._begun_s > LOGIN_S:
            self._keys.login_over()

    def _show(self, data: bytes) -> None:
        if self._first is not None:
            line, found, data = (self._first + data).partition(b"\n")
            self._first = None if found else line
            if len(line) > 1000 or (found and not line.startswith(b"ssh-ed25519 ")):
                raise ClientError("the job's server did not say its key")
            if not found:
                return
            self._keys.host_add(self._host, line.decode("ascii", "replace").strip())
        while data:
            data = data[os.write(1, data) :]

    def _ended(self) -> int:
        if self._end is None:
            return 0
        code, detail = str(self._end.get("code", "")), str(self._end.get("detail", ""))
        if code == "ended":
            return 0
        raise (AwayError if code in LOST else ClientError)(detail or code)


def _read_all(out: socket.socket) -> None:
    """Pass standard input on. A thread: nothing waits for a pipe and a socket at once on Windows."""
    with suppress(OSError):
        while data := os.read(0, READ_BYTES):
            out.sendall(data)
    with suppress(OSError):
        out.close()
