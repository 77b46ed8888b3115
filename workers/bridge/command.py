"""Runs commands of the other scheduler, on this machine or on its login node by ssh: no shell here, a limit, an environment.

The environment has nothing of this process but PATH, HOME and SLURM_CONF, so that no variable changes a command's meaning.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from workers.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LIMIT_S = 15.0
"""Slurm's commands give up 9 s after their controller went away."""
MOST_BYTES = 32 * 2**20
MOST_WORDS = 300
LOOK_S = 0.05
USUAL = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/slurm/bin:/usr/local/slurm/bin"
"""Folders that PATH may lack: a login by ssh reads no profile."""
FIXED = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
NOT_FOUND = 127
SSH_FAILED, SAME_AS_SSH = 255, 254

FAR = f"""limit=$1
shift
PATH="$PATH:{USUAL}"
printf '\\036\\n'
env -i PATH="$PATH" HOME="$HOME" {" ".join(f"{name}={value}" for name, value in FIXED.items())} \
${{SLURM_CONF:+"SLURM_CONF=$SLURM_CONF"}} timeout -s KILL "$limit" "$@"
code=$?
[ $code -ne {SSH_FAILED} ] || code={SAME_AS_SSH}
exit $code"""
"""A login shell may print before it. 255 is left to ssh: then nobody knows whether the command ran. Nothing runs on there."""
BEGINS = "\x1e\n"

PUT = """set -eu
umask 077
folder=$(dirname -- "$1")
mkdir -p -- "$folder"
case $(stat -c %a -- "$folder") in
*700) ;;
*) echo "$folder is open to other accounts: chmod 700 $folder" >&2; exit 1 ;;
esac
cat >"$1.$$"
if [ "$(wc -c <"$1.$$")" -ne "$2" ]; then rm -f -- "$1.$$"; echo "the connection broke" >&2; exit 1; fi
mv -f -- "$1.$$" "$1"
"""


class CommandError(Exception):
    """A file could not be written, or ssh could not be prepared; the text says how to mend it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a command. `code` None: no answer in time or on the way, and nobody knows its effect."""

    code: int | None
    out: str
    err: str
    took_s: float

    @property
    def words(self) -> str:
        """Return its words of its failure, in one line."""
        return " ".join((self.err.strip() or self.out.strip() or f"exit code {self.code}").split())[:MOST_WORDS]


class Runner(Protocol):
    """Where the other scheduler's commands run."""

    def run(self, *words: str, text: str = "", limit_s: float | None = None) -> Answer:
        """Run the command with `text` as its standard input."""

    def put(self, path: str, text: str) -> None:
        """Write a file with mode 0600, in a folder with mode 0700. Raises CommandError."""


class Local:
    """Commands of this machine."""

    def __init__(self, *, limit_s: float = LIMIT_S, environ: Mapping[str, str] = os.environ) -> None:
        self.limit_s = limit_s
        own = {name: environ[name] for name in ("HOME", "SLURM_CONF") if name in environ}
        path = ":".join(filter(None, (environ.get("PATH"), USUAL)))
        self._environment = {"HOME": str(Path.home()), **own, "PATH": path, **FIXED}
        self._found: dict[str, str] = {}

    def run(self, *words: str, text: str = "", limit_s: float | None = None) -> Answer:
        """Run the command with `text` as its standard input."""
        name, *rest = words
        if name not in self._found:
            path = shutil.which(name, path=self._environment["PATH"])
            if path is None:
                return Answer(NOT_FOUND, "", f"{name}: no such command on this machine", 0.0)
            self._found[name] = path
        return _answer([self._found[name], *rest], self._environment, text, limit_s or self.limit_s)

    def put(self, path: str, text: str) -> None:
        """Write a file with mode 0600, in a folder with mode 0700. Raises CommandError."""
        folder = Path(path).parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if stat.S_IMODE(folder.stat().st_mode) & 0o777 != 0o700:
                raise CommandError(f"{folder} is open to other accounts: chmod 700 {folder}")
            write_atomic(Path(path), text.encode())
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}") from error


class Ssh:
    """Commands of the login node. One connection serves all of them, and lasts a minute longer than the last one.

    The host's key is taken at the first connection, for nobody can be asked, and a changed one is refused from then on. An
    operator that wants more writes it into `known_hosts` before.
    """

    def __init__(self, host: str, directory: Path, *, key: Path | None = None, limit_s: float = LIMIT_S) -> None:
        """`host`: as for ssh, also ssh://USER@HOST:PORT. `directory`: of the bridge, for the key and the connection."""
        self.limit_s, self.directory, self.key = limit_s, directory, key or directory / "key"
        self._near = Local(limit_s=limit_s)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        if len(os.fsencode(directory)) > 85:
            raise CommandError(f"{directory}: its path is too long for a socket; choose one of at most 85 bytes")
        if key is None and not self.key.exists():
            made = self._near.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "berth", "-f", str(self.key))
            if made.code != 0:
                raise CommandError(f"ssh-keygen makes no key: {made.words}")
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": "10",
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "2",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": directory / "known_hosts",
            "ControlMaster": "auto",
            "ControlPath": directory / "socket",
            "ControlPersist": "60",
        }
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        self._ssh = ("ssh", "-T", "-i", str(self.key), *flags)
        self.host = host

    def run(self, *words: str, text: str = "", limit_s: float | None = None) -> Answer:
        """Run the command with `text` as its standard input."""
        limit_s = limit_s or self.limit_s
        line = shlex.join(["sh", "-c", FAR, "sh", f"{limit_s:.3f}", *words])
        done = self._near.run(*self._ssh, "--", self.host, line, text=text, limit_s=limit_s)
        code = None if done.code == SSH_FAILED else done.code
        _, begins, out = done.out.partition(BEGINS)
        return Answer(code, out if begins else done.out, done.err, done.took_s)

    def put(self, path: str, text: str) -> None:
        """Write a file with mode 0600, in a folder with mode 0700. Raises CommandError."""
        done = self.run("sh", "-c", PUT, "sh", path, str(len(text.encode())), text=text)
        if done.code != 0:
            raise CommandError(f"{path} cannot be written on {self.host}: {done.words}")

    def close(self) -> None:
        """End the connection."""
        self._near.run(*self._ssh, "-O", "exit", "--", self.host)


def _answer(words: Sequence[str], environment: Mapping[str, str], text: str, limit_s: float) -> Answer:
    began = time.monotonic()
    with os.fdopen(os.memfd_create("stdin"), "w+b") as given:
        given.write(text.encode())
        given.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603
                words,
                env=environment,
                cwd="/",
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return Answer(NOT_FOUND, "", f"{words[0]}: {error.strerror}", 0.0)
    with process:
        try:
            out, err = _gathered(process, began + limit_s)
            code: int | None = process.wait(max(0.0, began + limit_s - time.monotonic()))
        except (subprocess.TimeoutExpired, OverflowError):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            took_s = time.monotonic() - began
            why = f"no answer within {limit_s:g} s" if took_s >= limit_s else f"more than {MOST_BYTES >> 20} MiB"
            return Answer(None, "", f"{Path(words[0]).name}: {why}", took_s)
    return Answer(code, out, err, time.monotonic() - began)


def _gathered(process: subprocess.Popen[bytes], until: float) -> tuple[str, str]:
    """Return both outputs. A child that lives on may hold them open, as ssh's connection does, so they need not end."""
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    taken = {pipe.fileno(): bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(LOOK_S)
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                taken[key.fd] += piece
                if not piece:
                    selector.unregister(key.fileobj)
            if not ready and process.poll() is not None:
                break
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(process.args, 0)
            if sum(map(len, taken.values())) > MOST_BYTES:
                raise OverflowError
    out, err = (bytes(each).decode(errors="replace") for each in taken.values())
    return out, err
