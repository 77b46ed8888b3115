"""Fetches a job's repository before its command: `python -I -S fetch.py PLAN_FILE`. Exit code 0: it is there.

It runs as the job does: the same account, walls, limits and log. It imports only the standard library. Git reads no settings
but these, runs no hooks and asks nobody. The secret comes by the environment of this process; git asks for it by GIT_ASKPASS,
which is this file again, and gets it only for the repository's own scheme and host; ssh reads a key from a file in memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECRET = "BERTH_GIT_SECRET"  # noqa: S105 - the name of a variable
USER = "git"
"""User name of a token without a name: servers that take tokens look only at the token."""
KEPT_LINES = 40
OPTIONS = {
    "credential.helper": "",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "advice.detachedHead": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "protocol.version": "2",
}
COMPLAINTS = (
    (
        (
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            "Permission denied (",
            "error: 403",
        ),
        "{host} does not let it in. Name a secret in `code.secret` that may read the repository",
    ),
    (
        ("remote ref", "not our ref", "unadvertised object"),
        "There is no {ref} in the repository (any more). Give a branch, a tag, or the whole number of a commit",
    ),
    (("not allowed",), "The operator does not allow to fetch a repository in this way"),
    (
        (
            "Could not resolve host",
            "Failed to connect",
            "Couldn't connect",
            "Connection refused",
            "timed out",
            "Operation too slow",
            "Could not resolve hostname",
            "unreachable",
        ),
        "This node could not reach {host}. Look at the URL; or the node's operator sets a proxy (https_proxy) for the agent",
    ),
    (
        ("not found", "does not appear to be a git repository", "does not exist"),
        "{host} shows no such repository. Look at the URL, and at what the secret in `code.secret` may read",
    ),
    (("would be overwritten",), "The job brings a file that the repository has too; leave it out of the job's files"),
)
"""Words of git -> Berth's sentence."""


class FetchError(Exception):
    """The repository cannot be had. The text says why, for the job's page."""


def say(sentence: str) -> None:
    print("[code]", sentence, flush=True)  # noqa: T201 - standard output is the log


def main(plan_file: Path) -> int:
    plan = json.loads(plan_file.read_text())
    try:
        fetch(plan, os.environ.pop(SECRET, ""))
    except (FetchError, OSError) as error:
        say(f"Failed: {error}")
        with contextlib.suppress(OSError):  # the log has it as well
            Path(plan["why"]).write_text(str(error))
        return 1
    return 0


def fetch(plan: dict[str, Any], secret: str) -> None:
    """Lay the repository into the job's directory, and write down the commit. Raises FetchError."""
    into = Path(plan["into"])
    if (into / ".git").exists():
        raise FetchError("The job brings a .git of its own; leave it out of the job's files")
    git = [plan["program"], "-C", str(into), *(word for each in OPTIONS.items() for word in ("-c", "=".join(each)))]
    environment = _environment(plan, secret)
    say(f"Fetching {plan['ref']} of {plan['git']}.")
    _run([*git, "init", "--quiet", "--template="], environment, plan)
    _run([*git, "remote", "add", "origin", plan["git"]], environment, plan)
    how = ["--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"]
    _run([*git, "fetch", *how, plan["git"], plan["ref"]], environment, plan)
    commit = subprocess.run(  # noqa: S603 - the plan is the agent's
        [*git, "rev-parse", "--verify", "FETCH_HEAD^{commit}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if not commit:
        raise FetchError(f"{plan['ref']} is no commit")
    _run([*git, "checkout", "--quiet", "--detach", commit], environment, plan)
    if plan["submodules"]:
        _run([*git, "submodule", "--quiet", "update", "--init", "--recursive", "--depth=1"], environment, plan)
    Path(plan["commit"]).write_text(commit)
    say(f"Commit {commit}.")


def _environment(plan: dict[str, Any], secret: str) -> dict[str, str]:
    """Return the whole environment of git: nothing of the node's or a person's settings."""
    room = Path(plan["room"])
    asked = room / "askpass"
    program = [
        sys.executable,
        "-I",
        "-S",
        str(Path(__file__).resolve()),
        "--answer",
        f"{urlsplit(plan['git']).scheme}://{_host(plan['git'])}",
    ]
    asked.write_text(f'#!/bin/sh\nexec {shlex.join(program)} "$1"\n')
    asked.chmod(0o700)
    found = {
        "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "HOME": str(room),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": str(asked),
        "GIT_ALLOW_PROTOCOL": ":".join(plan["schemes"]),
        "GIT_SSH_COMMAND": shlex.join(_ssh(room, secret, plan["git"])),
        **plan["proxies"],
    }
    return found if "PRIVATE KEY" in secret else {**found, SECRET: secret}


def _ssh(room: Path, secret: str, url: str) -> list[str]:
    """Return how ssh is called. A host that the node does not know is taken as it answers; one that it knows must be itself.

    A key is for the repository's own host and port: a submodule's host is not offered it.
    """
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "accept-new",
        "UserKnownHostsFile": str(room / "known_hosts"),
        "ConnectTimeout": "30",
        "ServerAliveInterval": "15",
    }
    settings = room / "ssh_config"
    settings.write_text("")
    words = ["ssh", "-F", str(settings), *(word for each in options.items() for word in ("-o", "=".join(each)))]
    if "PRIVATE KEY" not in secret:
        return words
    words += ["-o", "IdentitiesOnly=yes"]
    site = re.fullmatch(r"\[?([A-Za-z0-9.:-]+?)\]?(?::([0-9]+))?", _host(url))
    if urlsplit(url).scheme != "ssh" or site is None:
        return words
    key = os.memfd_create("key", 0)
    os.fchmod(key, 0o600)
    os.write(key, f"{secret.strip()}\n".encode())
    settings.write_text(
        f'Match originalhost {site[1]},{site[1].lower()} exec "test %p = {site[2] or 22}"\n'
        f"  IdentityFile /proc/{os.getpid()}/fd/{key}\n"
    )
    return words


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def answer(site: str, prompt: str) -> int:
    """Answer git's question for name or password where it is for the repository's own site; a submodule's gets nothing.

    So neither does the same host by another scheme, whose bytes others could read.
    """
    scheme, sign, asked = prompt.partition("'")[2].rpartition("'")[0].partition("://")
    # No URL to be read as one: older versions of git write `a/b@` where the name was `a%2Fb`.
    host = asked.rpartition("@")[2]
    secret = os.environ.get(SECRET, "").strip()
    if not secret or scheme + sign + host != site:
        return 1
    name, colon, password = secret.partition(":")
    if not colon:
        name, password = USER, secret
    print(name if prompt.startswith("Username") else password)  # noqa: T201 - to git
    return 0


def _run(command: list[str], environment: dict[str, str], plan: dict[str, Any]) -> None:
    """Run one command, its output into the log. Raises FetchError with the cause and the remedy."""
    said: deque[str] = deque(maxlen=KEPT_LINES)
    with subprocess.Popen(  # noqa: S603 - the plan is the agent's
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            said.append(line.rstrip())
            print(line, end="", flush=True)  # noqa: T201 - as say()
    if child.returncode == 0:
        return
    text = "\n".join(said)
    about = {"host": _host(plan["git"]) or "the node's disk", "ref": plan["ref"]}
    for signs, sentence in COMPLAINTS:
        if any(sign in text for sign in signs):
            raise FetchError(sentence.format(**about))
    last = next((line for line in reversed(said) if line.strip()), "")
    raise FetchError(f"git ended with code {child.returncode}: {last[:200]}")


if __name__ == "__main__":
    sys.exit(answer(*sys.argv[2:4]) if sys.argv[1] == "--answer" else main(Path(sys.argv[1])))
