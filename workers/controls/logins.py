"""Starts a server of ssh in the place of a terminal's shell: OpenSSH's, for one connection, under the job's own account.

It speaks by two pipes, so nothing listens. Its host key and the list of the one key that it lets in are made for this
connection, and are gone when the login is over. The public half of the host key goes ahead of all that the server says.
Its configuration holds the job's variables, secrets among them: it goes through a pipe, and never to a disk. Standard
library only.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shlex
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.system.files import BrokenFileError
from workers.system.view import files_replace

if TYPE_CHECKING:
    from typing import NoReturn

SSHD, KEYGEN = "/usr/sbin/sshd", "/usr/bin/ssh-keygen"
SFTP = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")
LOGIN_S = 20
"""How long a login may take; then nobody can begin one by this connection, and its keys are removed."""
NO_TERMINAL = (
    "This node gives ssh no terminal (its /dev/pts lacks gid=5). Commands and files go; `berth shell` has a terminal."
)
_CONFIG = """\
HostKey {where}/host
AuthorizedKeysFile {where}/key
AuthenticationMethods publickey
LoginGraceTime {login_s}
MaxAuthTries 60
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
PidFile none
LogLevel FATAL
PrintMotd no
PrintLastLog no
PermitUserRC no
PermitTTY {tty}
AllowTcpForwarding local
PermitOpen localhost:* 127.0.0.1:* [::1]:*
PermitListen none
AllowStreamLocalForwarding local
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
Subsystem sftp {sftp}
SetEnv {variables}
ForceCommand cd {cwd} && {run}; {hint}exec "$SHELL" -l
"""
_RUN = """if [ -n "$SSH_ORIGINAL_COMMAND" ]; then exec "$SHELL" -c "$SSH_ORIGINAL_COMMAND"; fi"""


@dataclass(slots=True)
class Login:
    """`pipes`: descriptors, open here, from and to the person. `user`: the name that their ssh gives the account."""

    pipes: tuple[int, int]
    user: str
    key: str


def login_open(directory: Path, asked: Any) -> Login:
    """Open the pipes that an order names. Raises OSError, or BrokenFileError for an order that is none."""
    values: list[Any] = [asked.get(name) for name in ("in", "out", "user", "key")] if isinstance(asked, dict) else []
    shapes = (r"terminal-[0-9]{1,9}\.in", r"terminal-[0-9]{1,9}\.out", r"[^\s:]+", r"[^\r\n]+")
    if not values or not all(isinstance(v, str) and re.fullmatch(s, v) for v, s in zip(values, shapes, strict=True)):
        raise BrokenFileError(directory / "terminal.json", "asks for an ssh that is none")
    flags, pipes = os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, list[int]()
    try:
        for name, way in ((values[0], os.O_RDONLY), (values[1], os.O_WRONLY)):
            pipes.append(os.open(directory / name, flags | way))
            os.set_blocking(pipes[-1], True)
    except OSError:
        for pipe in pipes:
            os.close(pipe)
        raise
    return Login((pipes[0], pipes[1]), values[2], values[3])


def account_name(launch: dict[str, Any], login: Login) -> None:
    """Make sure that the name stands for the job's account: sshd lets nobody in whose name the system does not know.

    A tenant's account often has no name. Root lends it the one that was asked for, in a mount namespace of this server
    and its sessions. Elsewhere the name must be the account's own. Raises OSError.
    """
    account = launch.get("account")
    if account:
        here = f"{login.user}:x:{account['uid']}:{account['gid']}::{launch['job_dir']}:{_shell()}\n"
        passwd, groups = Path("/etc/passwd"), Path("/etc/group")
        kept = [line for line in _read(groups).splitlines(True) if _has_tty_group() or not line.startswith("tty:")]
        files_replace({passwd: here + _read(passwd), groups: "".join(kept)})
        return
    own = pwd.getpwuid(os.getuid())
    if own.pw_uid == 0:  # sshd of root shuts its part that speaks with strangers into this empty directory
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    if login.user != own.pw_name:
        raise PermissionError(
            f"jobs here run as {own.pw_name}. Say `ssh {own.pw_name}@...`, or add `User {own.pw_name}` to ~/.ssh/config"
        )
    if Path(own.pw_shell).name in {"nologin", "false"}:
        raise PermissionError(f"the account {own.pw_name}, as which jobs run here, has no shell (chsh)")


def sshd_of(launch: dict[str, Any], login: Login, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Make the keys, say the host's, and return the server's program and environment. Raises OSError."""
    if launch.get("container"):
        raise PermissionError("the job runs in an image, which ssh does not reach. Use `berth shell`")
    cwd = str(launch["cwd"])
    if "\n" in cwd:
        raise PermissionError("the job's directory has a line break in its name")
    where = Path(launch["tmp_dir"]) / f".ssh-{os.urandom(8).hex()}"
    where.mkdir(mode=0o700)
    made = os.posix_spawn(KEYGEN, [KEYGEN, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", f"{where}/host"], {})
    if os.waitpid(made, 0)[1] != 0:
        raise OSError(f"{KEYGEN} made no key")
    (where / "key").write_text(f"{login.key}\n")
    has_tty = _has_tty_group() or os.getuid() == 0 or bool(launch.get("account"))
    config = _CONFIG.format(
        where=where,
        login_s=LOGIN_S,
        tty="yes" if has_tty else "no",
        sftp=next(filter(os.path.exists, SFTP), SFTP[0]),
        variables=" ".join(_quoted(environment)),
        cwd=shlex.quote(cwd),
        run=_RUN,
        hint="" if has_tty else f"echo {shlex.quote(NO_TERMINAL)} >&2; ",
    )
    os.mkfifo(where / "config", 0o600)
    os.write(1, (where / "host.pub").read_bytes())
    _tend_beside(where, config.encode(errors="surrogateescape"))
    return [SSHD, "-i", "-e", "-f", f"{where}/config"], {"PATH": environment["PATH"]}


def _quoted(environment: dict[str, str]) -> list[str]:
    """Return the variables as words of SetEnv, which has no way to say a line break: those values are left out."""
    kept = {name: value for name, value in environment.items() if name != "TERM" and not re.search(r"[\r\n\0]", value)}
    return ['"' + f"{name}={value}".replace("\\", "\\\\").replace('"', '\\"') + '"' for name, value in kept.items()]


def _tend_beside(where: Path, config: bytes) -> None:
    """Let another process hand the server its configuration, and remove keys and all when the login is over."""
    server = os.getpid()
    if (between := os.fork()) == 0:
        if os.fork() == 0:  # the shim's, not the server's
            _tend(where, config, server)
        os._exit(0)
    os.waitpid(between, 0)


def _tend(where: Path, config: bytes, server: int) -> NoReturn:
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.closerange(0, 256)  # else the pipes would seem to be in use
        end, rest = time.monotonic() + LOGIN_S + 1, config
        pipe = -1
        while time.monotonic() < end and _lives(server):
            try:
                pipe = os.open(where / "config", os.O_WRONLY | os.O_NONBLOCK) if pipe < 0 and rest else pipe
                rest = rest[os.write(pipe, rest) :] if rest else rest
            except OSError:  # the server has not opened it yet, or not read so far
                pass
            if not rest and pipe >= 0:
                os.close(pipe)
                pipe = -1
            time.sleep(0.01 if rest else 0.2)
    finally:
        shutil.rmtree(where, ignore_errors=True)
        os._exit(0)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _has_tty_group() -> bool:
    """Say whether new terminals belong to the group `tty`, which sshd insists on where there is one."""
    master, slave = os.openpty()
    try:
        return os.fstat(slave).st_gid == grp.getgrnam("tty").gr_gid
    except KeyError:
        return True
    finally:
        os.close(master)
        os.close(slave)


def _shell() -> str:
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


def _read(path: Path) -> str:
    return path.read_text(errors="surrogateescape")
