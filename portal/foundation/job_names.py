"""The names under which browsers reach ports of jobs: `41-8888.jobs.example.org` is port 8888 of job 41.

Each job and port is an origin of its own, and none of them is the portal's: cookies know no ports, so a port of the
portal's own host would be no wall. A setting names the wildcard; a portal on loopback has `*.localhost` without one,
which browsers send to their own machine.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCAL = "localhost"
MOST_MESSAGE = 8 * 1024 * 1024
"""Bytes of one message of a WebSocket to or from a page of a job; a notebook's picture is one."""
_JOB = re.compile(r"([1-9][0-9]{0,17})(?:-([0-9]{1,6}))?-([1-9][0-9]{0,4})", re.ASCII)
_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)
_PORT = re.compile(r":[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobName:
    """`number`: the job's, as people read it, such as 1044 or 1044_6."""

    number: str
    port: int


def host_of(address: str) -> str:
    """Return the name of an address or of the header Host, in small letters, without port and last dot."""
    netloc = urlsplit(address).netloc if "//" in address else address
    name, colon, port = netloc.rpartition(":")
    bare = name if colon and (port.isdigit() or not port) else netloc
    return bare.strip("[]").rstrip(".").lower()


def is_loopback(name: str) -> bool:
    try:
        return name == LOCAL or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def domain(asked: str, *, base_url: str, allowed: Iterable[str]) -> str:
    """Return the domain below which jobs have their names; empty: jobs have none here. Raises ValueError.

    `asked`: the wildcard of BERTH_JOBS_NAMES, or empty.
    """
    own, asked = host_of(base_url), asked.strip().lower()
    hosts = [each.strip().lower() for each in allowed]
    if not asked:
        alone = (not own or is_loopback(own)) and not any(_is_below(each, LOCAL) for each in hosts)
        return LOCAL if alone and "*" not in hosts else ""
    star, _, name = asked.partition(".")
    if star != "*" or not _NAME.fullmatch(name):
        raise ValueError("it must be a wildcard such as *.jobs.example.org")
    if name == LOCAL:
        if own and not is_loopback(own):
            raise ValueError("*.localhost leads to the reader's own machine, and this portal has a name on the network")
    elif not base_url.startswith("https://"):
        raise ValueError("BERTH_BASE_URL must begin with https:// for it: browsers keep its cookies with TLS only")
    if own and (_is_below(name, own) or _is_below(own, name)):
        raise ValueError(f"it must not lie below {own}, the portal's own name, nor that below it")
    if bad := next((each for each in hosts if _covers(each, name)), None):
        raise ValueError(f"BERTH_ALLOWED_HOSTS has {bad}, which is a name of a job, too")
    return name


def _is_below(name: str, above: str) -> bool:
    """Say whether it is that name, or lies below it; `localhost` itself is no job's, and may be the portal's."""
    return name.endswith(f".{above}") or (name == above != LOCAL)


def _covers(allowed: str, name: str) -> bool:
    return allowed == "*" or _is_below(allowed, name) or (allowed.startswith(".") and f".{name}".endswith(allowed))


def is_job_host(host: str, below: str) -> bool:
    """Say whether the header Host names something below the domain of jobs, well-formed or not: the portal is not there."""
    return bool(below) and host_of(host).endswith(f".{below}")


def job_name(host: str, below: str) -> JobName | None:
    """Return the job and port that the header Host names; None where it is malformed."""
    label, dot, rest = host.partition(".")
    found = _JOB.fullmatch(label)
    after = rest.removeprefix(below) if rest.startswith(below) else "?"
    if not dot or found is None or (after and not _PORT.fullmatch(after)) or int(found[3]) >= 1 << 16:
        return None
    return JobName(found[1] + (f"_{found[2]}" if found[2] else ""), int(found[3]))


def job_host(number: str, port: int, *, below: str, beside: str) -> str:
    """Return the header Host of a job's port, at the same port of the server as `beside`, a Host of the portal."""
    _, colon, own = beside.rpartition(":")
    return f"{number.replace('_', '-')}-{port}.{below}" + (f":{own}" if colon and own.isdigit() else "")
