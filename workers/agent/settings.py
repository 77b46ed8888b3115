"""The agent's settings: read from command line and environment."""

from __future__ import annotations

import argparse
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workers.agent.settings_list import NEEDED, SETTINGS
from workers.networks.settings import network_read, services_read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from ipaddress import IPv4Network
    from pathlib import Path

    from workers.networks.settings import Service
    from workers.system.setting import Setting


class SettingError(Exception):
    """A setting is missing or out of range; the text names it and the remedy."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The values; fields are `SETTINGS` by name."""

    url: str
    token: str | None
    dir: Path
    name: str
    address: str | None
    virtual: str | None
    memory_bandwidth: float | None
    storage_domain: str | None
    storage_dir: Path
    trust_tenants: bool
    isolation: str
    accounts: str
    pids_limit: int
    mps_pipes: Path
    jobs_network: IPv4Network | str
    jobs_open: tuple[Service, ...]
    closed: Path | None
    ca_sha256: str | None
    insecure: bool
    nice: int
    sync_wait_s: float
    log_period_s: float
    retry_max_s: float
    revoked_retry_s: float
    keep_ended_s: float
    disk_low_mib: int
    health_check: Path | None
    health_check_period_s: float
    health_check_limit_s: float
    environments: str
    environments_python: Path | None
    environments_index: str | None
    environments_wheels: Path | None
    environments_build_s: float
    environments_one_gib: float
    environments_all_gib: float
    environments_keep_days: float
    uploads_gib: float
    artefacts_period_s: float
    artefacts_rate: float
    artefacts_wait_s: float
    telemetry_backlog_s: int


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.agent", description="The agent of one Berth node.")
    for setting in SETTINGS:
        text = setting.meaning.replace("%", "%%")
        if setting.kind is bool:
            parser.add_argument(setting.flag, action="store_true", default=None, help=text)
        else:
            parser.add_argument(setting.flag, default=None, help=f"{text} Environment: {setting.env}.")
    parser.add_argument(
        "--check-isolation",
        action="store_true",
        help="Print as JSON how far jobs would be kept out of Berth's files. Start nothing.",
    )
    parser.add_argument(
        "--keep-jobs", type=float, metavar="HOURS", help="End the agent of DIR. Let its jobs run on for so many hours."
    )
    parser.add_argument(
        "--stop-all", action="store_true", help="End the agent of DIR and all its jobs. Wait until they have ended."
    )
    parser.add_argument(
        "--grace", type=float, default=30.0, metavar="S", help="With --stop-all: seconds from SIGTERM to SIGKILL."
    )
    return parser


URLS = ("url", "environments_index")
LOGIN = (
    "it holds a name, a password or a token in its URL, which everybody reads that sees this node's log or processes. Take it "
    "out. A job is let into a private index by its secret PIP_INDEX_URL."
)
_KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    network_read: "a private range of IPv4 addresses, as 10.213.0.0/16, or `off`",
    services_read: "a list of IPv4 addresses with ports, as 127.0.0.1:3128,192.168.1.5:27000",
}


def _boolean(text: str) -> bool:
    return text.strip().lower() in {"1", "true", "yes", "on"}


def _value(setting: Setting, given: Any, environ: Mapping[str, str]) -> Any:
    """Command line over environment over default. Raises SettingError."""
    name, raw = (setting.flag, given) if given is not None else (setting.env, environ.get(setting.env))
    if raw is None or raw == "":
        return setting.default
    if setting.kind is bool:
        return raw if isinstance(raw, bool) else _boolean(raw)
    try:
        value = setting.kind(raw)
    except ValueError as error:
        raise SettingError(f"{name}: {raw!r} is not {_KINDS.get(setting.kind, 'allowed')}") from error
    if setting.choices and value not in setting.choices:
        raise SettingError(f"{name}: {raw!r} is not one of {', '.join(setting.choices)}")
    low, high = setting.minimum, setting.maximum
    if low is not None and high is not None and not low <= value <= high:
        raise SettingError(f"{name}: {value} is not within {low:g} to {high:g} {setting.unit}".rstrip())
    return value


def settings_read(given: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> AgentSettings:
    """Raises SettingError when a needed one is missing or one is out of range."""
    values = {s.name: _value(s, getattr(given, s.name), environ) for s in SETTINGS}
    for name in NEEDED:
        if values[name] is None:
            raise SettingError(f"--{name} is needed")
    for setting in SETTINGS:
        if setting.name in URLS and set(values[setting.name] or "") & set("@?#"):
            raise SettingError(f"{setting.flag}: {LOGIN}")
    values["url"] = values["url"].rstrip("/")
    values["dir"] = values["dir"].resolve()
    values["name"] = values["name"] or socket.gethostname()
    values["jobs_open"] = values["jobs_open"] or ()
    values["closed"] = values["closed"] and values["closed"].resolve()
    values["health_check"] = values["health_check"] and values["health_check"].resolve()
    values["storage_dir"] = (values["storage_dir"] or values["dir"] / "storage").resolve()
    if values["nice"] is None:
        # A virtual node shares the machine with the portal, whose answers must not wait for jobs. Measured on two cores
        # with twenty jobs: at niceness 10 the portal got half a core, at 19 it gets nine tenths of one.
        values["nice"] = 19 if values["virtual"] else 0
    return AgentSettings(**values)


def settings_from(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> AgentSettings:
    return settings_read(arguments_parser().parse_args(argv), environ)
