"""The agent's settings: one list, which also has their values. Command line, environment and documents are made from it."""

from __future__ import annotations

import argparse
import os
import socket
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.setting import Setting, declare, settings_of
from workers.networks.settings import RANGE, Service, network_read, services_read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from ipaddress import IPv4Network


AUTO_OFF = ("auto", "off")
_path = partial(declare, None, kind=Path, syntax="a path")


class SettingError(Exception):
    """A setting is missing or out of range; the text names it and the remedy."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The values. Each field is one setting."""

    url: str = declare(None, "The portal's address, `http://...` or `https://...`.", "Needed.")
    token: str | None = declare(None, "A join token.", "Needed until the node has its own token (DIR/node.json).")
    dir: Path = _path("The agent's own directory: node token, journal, jobs.", "Needed.")
    name: str = declare(None, "The node's name. Default: the machine's name.", "Two machines have one name.")
    address: str | None = declare(
        None,
        "The address by which other nodes reach this one (MASTER_ADDR). Default: found by itself.",
        "The machine has several addresses, and jobs over several nodes do not meet.",
    )
    virtual: str | None = declare(
        None,
        "Be a virtual node with these resources instead of the machine's: `gpus=8,type='A100 80 "
        "GB',gpu-memory-mib=81920,cores=64,memory-mib=524288`. GPUs of several types are lists: "
        "`gpus=4+2,type=A100+T4,gpu-memory-mib=81920+16384`. With `core-percent=4` the work of one virtual GPU takes 4 % "
        "of a real core (default 100); jobs read that share in BERTH_VIRTUAL_PACE. With `memory-gb-s=200` its memory can "
        "move so much, and jobs that say so draw from it (VIRTUAL_TRAFFIC).",
        "You try Berth without GPUs.",
    )
    allocation: str = declare(
        "off",
        "The agent runs in a job of a batch system, and has what that job was given. `slurm`: GPUs, cores, memory and the end "
        "as Slurm says. `other`: the GPUs of CUDA_VISIBLE_DEVICES. At SIGTERM it stops its jobs and signs off. `off`: the "
        "machine is the agent's, and its jobs run on at SIGTERM.",
        "The agent is started by a batch system, or in a pod.",
        choices=("off", "slurm", "other"),
    )
    leave_s: float = declare(
        25.0,
        "With --allocation: jobs are stopped this long before the allocation's end, and have ended within it. After "
        "SIGTERM the same, within Slurm's KillWait where that is shorter.",
        "Up: jobs save checkpoints for longer, and KillWait allows it.",
        "s",
        (1, 3600),
    )
    memory_bandwidth: float | None = declare(
        None,
        "The traffic that this machine's memory can carry (reads and writes together), where its processor counts traffic "
        "(resctrl). Default: measured for a third of a second on all cores, at a start without jobs, and kept in DIR.",
        "The agent never starts without jobs, or the machine's maker says another figure.",
        "GB/s",
        (0.1, 100_000),
        kind=float,
    )
    storage_domain: str | None = declare(
        None, "A name. Nodes with the same name share one storage directory.", "Nodes share a file system."
    )
    storage_dir: Path = _path("Where checkpoints are kept. Default: DIR/storage.", "Nodes share a file system.")
    trust_tenants: bool = declare(
        False,
        "Run the jobs of several tenants under this one account.",
        "The agent does not run as root, and your tenants trust each other.",
        syntax="given or not",
    )
    isolation: str = declare(
        "auto",
        "`auto`: the kernel keeps jobs out of the files and processes of the agent and of other jobs, if it can "
        "(Landlock). `off`: it does not.",
        "off: jobs mount file systems or use set-user-id programs.",
        choices=AUTO_OFF,
    )
    accounts: str = declare(
        "auto",
        "`auto`: an agent that runs as root gives each tenant's jobs an account of their own: the tenant's, or number "
        "200000 and the tenant's. `off`: all jobs run as root.",
        "off: jobs need root.",
        choices=AUTO_OFF,
    )
    pids_limit: int = declare(
        8192,
        "The most processes and threads of one job here. Kept by a control group, else by the account's limit.",
        "Up: jobs cannot start threads.",
        "",
        (64, 4_194_304),
    )
    mps_pipes: Path = declare(
        Path("/tmp/nvidia-mps"),  # noqa: S108 - NVIDIA's own default
        "Where the pipes of NVIDIA's MPS control daemon lie, if one runs here: jobs of one account that share a GPU use it.",
        "The daemon runs with another CUDA_MPS_PIPE_DIRECTORY.",
        kind=Path,
        syntax="a path",
    )
    jobs_network: IPv4Network | str = declare(
        RANGE,
        "The range of private IPv4 addresses for tenants' networks on this node, which nothing here may use; each node "
        "may have the same. `off`: jobs stay in the node's network, where tenants reach each other's ports. It needs "
        "root.",
        "Something here uses the range.",
        kind=network_read,
        syntax="a private range of IPv4 addresses, as 10.213.0.0/16, or `off`",
    )
    jobs_open: tuple[Service, ...] = declare(
        None,
        "Services of this node that jobs in tenants' networks may reach (TCP and UDP): a resolver, a "
        "proxy, a licence server. Jobs use the same address, 127.0.0.1 too. Other machines are reached in any case.",
        "Jobs need such a service.",
        kind=services_read,
        syntax="a list of IPv4 addresses with ports, as 127.0.0.1:3128,192.168.1.5:27000",
    )
    closed: Path | None = _path(
        "One more directory that jobs are kept out of.", "On the portal's machine: the portal's data directory."
    )
    ca_sha256: str | None = declare(
        None,
        "SHA-256 (hexadecimal) of the certificate authority that the portal must show.",
        "The portal made its certificate itself. `./berth join-token` prints it.",
    )
    insecure: bool = declare(
        False,
        "Talk to a portal on another machine without proof that it is the portal.",
        "The network is your own.",
        syntax="given or not",
    )
    nice: int = declare(
        None,
        "Niceness of jobs. Default: 19 on a virtual node, else 0.",
        "Up: other programs here are slowed.",
        "",
        (0, 19),
        kind=int,
    )
    log_period_s: float = declare(
        1.0, "How often new log output is sent.", "Up: the portal is busy with logs.", "s", (0.1, 60)
    )
    retry_max_s: float = declare(
        10.0,
        "The longest pause between two tries while the portal does not answer; six times as long while it refuses the node's "
        "token.",
        "Up: hundreds of nodes come back at once.",
        "s",
        (0.1, 300),
    )
    keep_ended_s: float = declare(
        86_400.0,
        "How long the directory of an ended part is kept.",
        "Down: the disk is small. Up: you look for a fault.",
        "s",
        (0, 30 * 86_400),
    )
    disk_low_mib: int = declare(
        200,
        "When less is free where jobs write, the node takes no new jobs. 0: it takes them always.",
        "Up: jobs find no room for their checkpoints.",
        "MiB",
        (0, 10**9),
    )
    health_check: Path | None = _path(
        "A program of yours that says whether this node is well: with exit code 0 it is, else it gets no new jobs.",
        "You know of faults that Berth does not see.",
    )
    health_check_period_s: float = declare(
        300.0, "The pause between two runs of --health-check.", "Down: faults hurt jobs at once.", "s", (1, 86_400)
    )
    health_check_limit_s: float = declare(
        30.0, "The longest that --health-check may take.", "Up: your program takes longer.", "s", (0.1, 3600)
    )
    environments: str = declare(
        "",
        "Environments of this machine that jobs may name, virtual or conda ones: `torch=/opt/torch,jax=/opt/jax`.",
        "You install software for your tenants.",
    )
    environments_python: Path | None = _path(
        "The Python of the environments that jobs have built from requirements. Default: the agent's.",
        "Jobs need another version.",
    )
    environments_index: str | None = declare(
        None,
        "The package index for these, `https://...`, without a name or password. Default: the installer's.",
        "You have a mirror.",
    )
    environments_wheels: Path | None = _path(
        "A directory of wheels for these. Without --environments-index nothing is fetched from a network.",
        "The nodes reach no package index.",
    )
    environments_build_s: float = declare(
        600.0, "The longest that building one may take: its job waits.", "Up: builds are cut off.", "s", (1, 86_400)
    )
    environments_one_gib: float = declare(
        20.0, "The most that one may take of the disk.", "Down: the disk is small.", "GiB", (0.01, 10**6)
    )
    environments_all_gib: float = declare(
        50.0, "Above this, those longest unused are removed.", "Down: the disk is small.", "GiB", (0.01, 10**6)
    )
    environments_keep_days: float = declare(
        14.0, "One that no job has used for this time is removed.", "Down: the disk is small.", "days", (0.01, 3650)
    )
    uploads_gib: float = declare(
        10.0,
        "Uploaded files kept for next jobs; the longest unused go.",
        "Down: the disk is small.",
        "GiB",
        (0, 10**6),
    )
    artefacts_period_s: float = declare(
        2.0,
        "How often what jobs write for keeping is looked at.",
        "Up: jobs keep many thousand files.",
        "s",
        (0.1, 3600),
    )
    artefacts_rate: float = declare(
        50.0,
        "The most that is sent of it a second. 0: no limit.",
        "Down: it slows the jobs' own network.",
        "MiB/s",
        (0, 100_000),
    )
    artefacts_wait_s: float = declare(
        2.0,
        "The longest that a job's end waits for it to be sent; the rest is sent after the end.",
        "Up: the next job of a chain begins with this one's files.",
        "s",
        (0, 3600),
    )


SETTINGS = settings_of(AgentSettings)
NEEDED = ("url", "dir")


def flag_of(setting: Setting) -> str:
    return "--" + setting.name.replace("_", "-")


def variable_of(setting: Setting) -> str:
    return "BERTH_TRUST_TENANTS" if setting.name == "trust_tenants" else "BERTH_AGENT_" + setting.name.upper()


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers.agent", description="The agent of one Berth node.")
    for setting in SETTINGS:
        text = setting.meaning.replace("%", "%%")
        if setting.reader is bool:
            parser.add_argument(flag_of(setting), action="store_true", default=None, help=text)
        else:
            parser.add_argument(flag_of(setting), default=None, help=f"{text} Environment: {variable_of(setting)}.")
    parser.add_argument(
        "--check-isolation",
        action="store_true",
        help="Print as JSON how far jobs would be kept out of Berth's files. Start nothing.",
    )
    parser.add_argument(
        "--keep-jobs", type=float, metavar="HOURS", help="End the agent of DIR. Let its jobs run on for these hours."
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
    "it holds a name, a password or a token in its URL, which everybody reads that sees this node's log or processes. "
    "Take it out. A job is let into a private index by its secret PIP_INDEX_URL."
)


def _value(setting: Setting, given: Any, environ: Mapping[str, str]) -> Any:
    """Command line over environment over default. Raises SettingError."""
    name = variable_of(setting) if given is None else flag_of(setting)
    text = environ.get(name) if given is None else given
    if text is None or text == "":
        return setting.default
    try:
        return text if isinstance(text, bool) else setting.read(text)
    except ValueError as error:
        raise SettingError(f"{name}: {error}") from error


def settings_read(given: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> AgentSettings:
    """Raises SettingError when a needed one is missing or one is out of range."""
    values = {s.name: _value(s, getattr(given, s.name), environ) for s in SETTINGS}
    for name in NEEDED:
        if values[name] is None:
            raise SettingError(f"--{name} is needed")
    for setting in SETTINGS:
        if setting.name in URLS and set(values[setting.name] or "") & set("@?#"):
            raise SettingError(f"{flag_of(setting)}: {LOGIN}")
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
