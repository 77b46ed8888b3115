"""The bridge's settings: one list, which also has their values. Command line and documents are made from it."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.setting import declare, settings_of
from workers.agent.settings import SettingError, flag_of

if TYPE_CHECKING:
    from scheduler.setting import Setting

KINDS = ("slurm",)
MOST_DAYS = 366
_path = partial(declare, None, kind=Path, syntax="a path")


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """The values. Each field is one setting, given as a flag alone."""

    url: str = declare(None, "The portal's address, `http://...` or `https://...`.", "Needed.")
    token: str | None = declare(
        None,
        "A join token, or BERTH_BRIDGE_TOKEN. It is used once; then the bridge has a token of its own.",
        "Needed at first.",
    )
    partition: str = declare(None, "The partition whose nodes Berth is to use.", "Needed.")
    dir: Path = _path("The bridge's own directory. Default: `var/bridge` beside `./berth`.", "Needed.")
    shared_dir: Path = _path(
        "The folder that compute nodes have under the same path: pilots' secrets and checkpoints. Default: the bridge's own "
        "directory.",
        "The default is not shared with the compute nodes. Needed with --ssh.",
    )
    berth: Path = _path(
        "The program `berth` on compute nodes, with its environment beside it. Default: this one.",
        "This one is not shared with the compute nodes. Needed with --ssh.",
    )
    gpus_max: int = declare(
        8,
        "The most GPUs that pilots hold at once.",
        "Up: Berth is to have more of the partition.",
        "GPUs",
        (1, 1_000_000),
    )
    gpus_per_pilot: int = declare(
        0,
        "The GPUs that one pilot holds. 0: pilots are whole nodes.",
        "Up from 0: others' jobs leave no node empty. Jobs with more GPUs then run over several pilots.",
        "GPUs",
        (0, 1024),
    )
    hours: float = declare(
        12.0,
        "The time limit of a pilot. A new one is asked for before it ends, and jobs that save checkpoints move there.",
        "Down: the partition's limit is shorter. Up: jobs run for longer and save no checkpoints.",
        "h",
        (0.05, 8760),
    )
    node_flags: str = declare(
        "", "More flags of `./berth node` for pilots, as `--environments-index URL`.", "Your nodes need them."
    )
    idle_s: float = declare(
        300.0, "A pilot without a job is given back after it.", "Down: others wait for these GPUs.", "s", (10, 86_400)
    )
    leave_s: float = declare(
        25.0,
        "Jobs are stopped this long before a pilot's end, and have ended within it.",
        "Up: jobs save checkpoints for longer, and Slurm's KillWait allows it.",
        "s",
        (1, 3600),
    )
    tenant: str = declare("", "The only tenant whose jobs run here. Empty: all.", "Compute nodes have no Landlock.")
    account: str = declare(
        "", "The Slurm account that pilots are charged to. Empty: the user's own.", "Your site asks for one."
    )
    sbatch: str = declare(
        "",
        "More flags of sbatch for pilots, as `--qos=low --constraint=a100`.",
        "Your site asks for them.",
    )
    ssh: str = declare(
        "",
        "The login node, as `user@host`: Slurm's commands are sent there. Empty: they are here.",
        "The bridge runs beside the portal.",
    )
    node_dir: Path = declare(
        Path("/tmp"),  # noqa: S108 - each pilot makes a folder of its own there, with a name that nobody can guess
        "Where a pilot's agent works on its node.",
        "The folder is small, or in memory.",
        kind=Path,
        syntax="a path",
    )
    storage_dir: Path = _path(
        "Where jobs' checkpoints are kept, on all compute nodes. Default: DIR/storage.",
        "Another shared folder is faster.",
    )
    ca_sha256: str | None = declare(
        None,
        "SHA-256 (hexadecimal) of the certificate authority that the portal must show.",
        "The portal made its certificate itself. `./berth join-token` prints it.",
    )
    insecure: bool = declare(
        False,
        "Talk to the portal without proof that it is the portal.",
        "The network is your own.",
        syntax="given or not",
    )


SETTINGS = settings_of(BridgeSettings)
NEEDED = ("url", "partition", "dir")
HERE = Path(__file__).resolve().parents[2]


def flag(setting: Setting) -> str:
    return "--join" if setting.name == "url" else flag_of(setting)


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./berth bridge", description="Attach a partition of another scheduler: an ordinary account is enough."
    )
    parser.add_argument("kind", choices=KINDS, help="The other scheduler.")
    for setting in SETTINGS:
        text = setting.meaning.replace("%", "%%")
        if setting.reader is bool:
            parser.add_argument(flag(setting), dest=setting.name, action="store_true", default=None, help=text)
        else:
            parser.add_argument(flag(setting), dest=setting.name, default=None, help=text)
    parser.add_argument("--check", action="store_true", help="Say in a table whether all is there. Start nothing.")
    parser.add_argument(
        "--try-job", action="store_true", help="With --check: also start a job of one core for a moment."
    )
    parser.add_argument("--json", action="store_true", help="With --check: as JSON.")
    parser.add_argument(
        "--history",
        type=_days,
        metavar="DAYS",
        help="Send the partition's jobs of the last days to the laboratory, which says what Berth would have done. Start "
        "nothing.",
    )
    return parser


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_DAYS):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number of days from 1 to {MOST_DAYS}")
    return int(text)


def settings_read(given: argparse.Namespace) -> BridgeSettings:
    """Raises SettingError when a needed one is missing or one is out of range."""
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        text = getattr(given, setting.name)
        if text is None and setting.name in NEEDED:
            raise SettingError(f"{flag(setting)} is needed")
        try:
            values[setting.name] = setting.default if text is None else text if text is True else setting.read(text)
        except ValueError as error:
            raise SettingError(f"{flag(setting)}: {error}") from error
    values["url"] = values["url"].rstrip("/")
    values["token"] = values["token"] or os.environ.get("BERTH_BRIDGE_TOKEN")
    values["dir"] = values["dir"].resolve()
    if values["ssh"] and not (values["shared_dir"] and values["berth"]):
        raise SettingError("--ssh needs --shared-dir and --berth: this machine's own folders are not on compute nodes")
    values["shared_dir"] = values["shared_dir"] or values["dir"]
    values["berth"] = values["berth"] or HERE / "berth"
    values["storage_dir"] = values["storage_dir"] or values["shared_dir"] / "storage"
    return BridgeSettings(**values)
