"""Every setting of a node's agent, once: the command line, the environment and the documentation are made from here."""

from __future__ import annotations

import argparse
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class SettingError(Exception):
    """A setting is missing or out of range; the text names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `default` is shown as it stands; None means "none" or, where `meaning` says so, "found out"."""

    name: str
    kind: Callable[[str], Any]
    default: Any
    unit: str
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def env(self) -> str:
        return "BERTH_TRUST_TENANTS" if self.name == "trust_tenants" else "BERTH_AGENT_" + self.name.upper()


SETTINGS: tuple[Setting, ...] = (
    Setting("url", str, None, "", "The portal's address, `http://...` or `https://...`. Needed."),
    Setting("token", str, None, "", "A join token; needed only until the node has its own (DIR/node.json)."),
    Setting("dir", Path, None, "", "The agent's own directory: node token, journal, jobs. Needed."),
    Setting("name", str, None, "", "The node's name; the host's name when not given."),
    Setting("address", str, None, "", "Where other nodes reach this one (MASTER_ADDR); found out when not given."),
    Setting(
        "virtual",
        str,
        None,
        "",
        "Be a virtual node with these resources instead of the machine's: "
        "`gpus=8,type='A100 80 GB',gpu-memory-mib=81920,cores=64,memory-mib=524288`. `core-percent=4`: of a real core, what "
        "the work of one GPU takes (BERTH_VIRTUAL_PACE tells jobs; default 100).",
    ),
    Setting("storage_domain", str, None, "", "Nodes that name the same domain see the same storage directory."),
    Setting("storage_dir", Path, None, "", "Where checkpoints are kept; DIR/storage when not given."),
    Setting("trust_tenants", bool, False, "", "Run several tenants' jobs under this one account."),
    Setting(
        "isolation",
        str,
        "auto",
        "",
        "`auto`: the kernel keeps jobs out of the agent's files, its processes and those of other jobs, where it can "
        "(Landlock). `off`: it does not; for jobs that need set-user-id programs or mount file systems.",
        choices=("auto", "off"),
    ),
    Setting(
        "closed",
        Path,
        None,
        "",
        "A further directory that jobs are kept out of: the portal's data directory, where both share a machine.",
    ),
    Setting("ca_sha256", str, None, "", "SHA-256 (hex) of the certificate authority that the portal must show."),
    Setting("insecure", bool, False, "", "Talk to a portal elsewhere without proof that it is the portal."),
    Setting("nice", int, None, "", "Niceness of jobs; 19 on a virtual node, else 0, when not given.", 0, 19),
    Setting("sync_wait_s", float, 25.0, "s", "How long one long poll waits.", 0, 25),
    Setting("log_period_s", float, 1.0, "s", "How often new log bytes are looked for and sent.", 0.1, 60),
    Setting("retry_max_s", float, 10.0, "s", "Longest pause between tries while the portal is away.", 0.1, 300),
    Setting("revoked_retry_s", float, 60.0, "s", "Pause between tries while the portal refuses the token.", 0.1, 3600),
    Setting("keep_ended_s", float, 86400.0, "s", "How long an ended part's directory stays.", 0, 30 * 86400),
    Setting(
        "disk_low_mib",
        int,
        200,
        "MiB",
        "With less free where jobs write the node takes no new jobs; 0: always.",
        0,
        10**9,
    ),
    Setting("telemetry_backlog_s", int, 600, "s", "How much telemetry is kept while the portal is away.", 5, 86400),
)
NEEDED = ("url", "dir")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The values; fields are `SETTINGS` by name."""

    url: str
    token: str | None
    dir: Path
    name: str
    address: str | None
    virtual: str | None
    storage_domain: str | None
    storage_dir: Path
    trust_tenants: bool
    isolation: str
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
        "--check-isolation", action="store_true", help="Say as JSON what jobs would be kept out of, and start nothing."
    )
    parser.add_argument(
        "--keep-jobs", type=float, metavar="HOURS", help="End the agent of DIR and let its jobs run on this long."
    )
    parser.add_argument("--stop-all", action="store_true", help="End the agent of DIR and all its jobs, and wait.")
    parser.add_argument("--grace", type=float, default=30.0, metavar="S", help="With --stop-all: SIGTERM to SIGKILL.")
    return parser


def _boolean(text: str) -> bool:
    return text.strip().lower() in {"1", "true", "yes", "on"}


def _value(setting: Setting, given: Any, environ: Mapping[str, str]) -> Any:
    """Command line over environment over default. Raises SettingError."""
    raw = given if given is not None else environ.get(setting.env)
    if raw is None or raw == "":
        return setting.default
    if setting.kind is bool:
        return raw if isinstance(raw, bool) else _boolean(raw)
    try:
        value = setting.kind(raw)
    except ValueError as error:
        raise SettingError(f"{setting.flag}: {raw!r} is not a {setting.kind.__name__}") from error
    if setting.choices and value not in setting.choices:
        raise SettingError(f"{setting.flag}: {raw!r} is not one of {', '.join(setting.choices)}")
    low, high = setting.minimum, setting.maximum
    if low is not None and high is not None and not low <= value <= high:
        raise SettingError(f"{setting.flag}: {value} is not within {low:g} to {high:g} {setting.unit}".rstrip())
    return value


def settings_read(given: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> AgentSettings:
    """Raises SettingError when a needed one is missing or one is out of range."""
    values = {s.name: _value(s, getattr(given, s.name), environ) for s in SETTINGS}
    for name in NEEDED:
        if values[name] is None:
            raise SettingError(f"--{name} is needed")
    values["url"] = values["url"].rstrip("/")
    values["dir"] = values["dir"].resolve()
    values["name"] = values["name"] or socket.gethostname()
    values["closed"] = values["closed"] and values["closed"].resolve()
    values["storage_dir"] = (values["storage_dir"] or values["dir"] / "storage").resolve()
    if values["nice"] is None:
        # A virtual node shares the machine with the portal, whose answers must not wait for jobs: beside twenty of them at
        # 10 on two cores it had half of one, at 19 it has nine tenths.
        values["nice"] = 19 if values["virtual"] else 0
    return AgentSettings(**values)


def settings_from(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> AgentSettings:
    return settings_read(arguments_parser().parse_args(argv), environ)
