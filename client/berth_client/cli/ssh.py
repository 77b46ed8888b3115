"""`berth ssh`: the way of `ssh`, `scp`, `rsync`, VS Code and PyCharm into a running job."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from berth_client.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth

ABOUT = """\
Connect standard input and output to a server of ssh inside a running job. ssh runs it, by these lines in ~/.ssh/config,
which --config prints; then `ssh berth-41` is a shell in job 41, and `ssh berth-41.1` one on the second node of a job on several.
The server lives for one connection, in the job's own account, walls and limits. Nothing listens on the network."""


def ssh_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    parser.add_argument(
        "host", metavar="HOST", nargs="?", help="berth-41, or berth-41.1 for its second node; %%n in ~/.ssh/config"
    )
    parser.add_argument(
        "user", metavar="USER", nargs="?", default="berth", help="the name that ssh logs in with; %%r there"
    )
    parser.add_argument("--config", action="store_true", help="print the lines for ~/.ssh/config, and no more")


def ssh(asked: Any, berth: Berth) -> int:
    from berth_client.ssh import Keys, Proxy

    keys = Keys.of_user()
    if asked.config:
        sys.stdout.write(config_of(keys))
        return 0
    named = re.fullmatch(r"(?:berth-)?([0-9]+(?:_[0-9]+)?)(?:\.([0-9]{1,4}))?", asked.host or "")
    if named is None:
        raise ClientError("HOST is berth-JOB, as in berth-41, or berth-41.1 for the second node of a job on several")
    if sys.stdin is not None and sys.stdin.isatty():
        raise ClientError("this is run by ssh; write `berth ssh --config >> ~/.ssh/config`, then `ssh berth-41`")
    for name in ("SIGHUP", "SIGTERM"):  # so ssh ends it; the key goes first
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: sys.exit(0))
    with keys:
        talk = berth.jobs_ssh(named[1], keys.public(), rank=int(named[2] or 0), user=asked.user)
        with closing(talk):
            return Proxy(talk, keys, asked.host).run()


def config_of(keys: Any) -> str:
    """Return the lines of ~/.ssh/config. Their paths are whole: the home that ssh finds may be another than $HOME."""
    found = shutil.which("berth")
    program = shlex.quote(found) if found else f"{shlex.quote(sys.executable)} -m berth_client"
    lines = f'  IdentityFile "{keys.key}"\n  UserKnownHostsFile "{keys.hosts}"\n'
    return f"Host berth-*\n  ProxyCommand {program} ssh %n %r\n{lines}"
