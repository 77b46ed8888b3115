"""The flags of `submit` and `plan`, and the job description that they make. The portal says whether it can run."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, NoReturn

from berth_client.cli.files import files_sent, text_read
from berth_client.cli.options import array, artefact, begun, duration, gib, gpus, live_add, mib, moment, number, pair
from berth_client.errors import ClientError
from berth_client.fields import FLAGS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from berth_client import Berth


READ: dict[str, Callable[[str], Any]] = {
    "text": str,
    "whole": int,
    "number": number,
    "duration": duration,
    "mib": mib,
    "gib": gib,
    "time": moment,
    "gpus": gpus,
    "array": array,
}
"""By a flag's kind."""
ALSO = {"start_after": ("--begin",)}
"""Other names of a flag: sbatch's."""


def flags_add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("resources of the job")
    for flag in FLAGS:
        if not flag.metavar:
            group.add_argument(flag.name, dest=flag.field, action="store_true", default=None, help=flag.help)
            continue
        of = "tenants" if flag.field == "tenant" else ""
        names = (flag.name, *ALSO.get(flag.field, ()))
        live_add(group, of, *names, dest=flag.field, type=READ[flag.kind], metavar=flag.metavar, help=flag.help)
    group.add_argument("--gpu-type", action="append", metavar="TYPE", help="only GPUs of this type; may be given again")
    group.add_argument("--after", action="append", type=int, metavar="JOB", help="start when this job has completed")
    group.add_argument("--after-any", action="append", type=int, metavar="JOB", help="start when it has ended, however")
    group.add_argument(
        "--after-notok", action="append", type=int, metavar="JOB", help="start when it ended without success"
    )
    group.add_argument("--singleton", action="store_true", help="start when your earlier jobs of its name have ended")
    group.add_argument("--env", action="append", type=pair, metavar="NAME=VALUE", help="a variable; may be given again")
    words = "a variable that gets a secret's value"
    live_add(group, "secrets", "--secret", action="append", type=pair, metavar="NAME=SECRET", help=words)
    code = group.add_mutually_exclusive_group()
    code.add_argument("--git", metavar="URL", help="the job's code: a repository, fetched on the node")
    code.add_argument("--code-path", metavar="DIR", help="the job's code: a directory on the nodes")
    group.add_argument("--ref", metavar="REF", help="of --git: branch, tag or commit; else the default branch")
    live_add(group, "secrets", "--git-secret", metavar="SECRET", help="of --git: the secret that may read it")
    group.add_argument("--submodules", action="store_true", help="of --git: its submodules too")
    group.add_argument("--label", action="append", metavar="NAME[=VALUE]", help="a label; may be given again")
    group.add_argument(
        "--file",
        action="append",
        metavar="PATH[:NAME]",
        help="a file that comes along, under its own name or NAME; may be given again",
    )
    group.add_argument(
        "--folder", metavar="DIR", help="all files below it come along except those in its .berthignore; sent once"
    )
    _keeping_add(group)
    software = group.add_mutually_exclusive_group()
    software.add_argument(
        "--requirements", metavar="FILE", help="Python packages, built on the node: a requirements.txt"
    )
    software.add_argument("--image", metavar="IMAGE", help="a container image, of those that your tenant may use")
    software.add_argument("--environment", metavar="NAME", help="an environment that the nodes offer, by name")
    software.add_argument("--environment-path", metavar="DIR", help="an environment on the nodes, by its directory")
    group.add_argument(
        "--set",
        action="append",
        type=pair,
        metavar="FIELD=JSON",
        help="any other field of the description, as in REST; with --template: NAME=VALUE of a parameter",
    )
    live_add(group, "templates", "--template", metavar="NAME", help="a job template, whose parameters --set gives")
    group.add_argument("--template-version", type=int, metavar="N", help="this version of it; else the last one")
    parser.set_defaults(command=[])
    parser.usage = f"{parser.prog} [options] [FILE [ARGUMENT ...]] [-- COMMAND]"
    parser.epilog = "COMMAND: a program with its arguments, or one text in quotes, which /bin/sh runs as it stands."


def _keeping_add(group: Any) -> None:
    group.add_argument(
        "--continue-from",
        type=artefact,
        metavar="JOB:PATH",
        help="a job like this earlier one, which begins with this artefact of it; a folder ends with /",
    )
    group.add_argument(
        "--input",
        action="append",
        type=begun,
        metavar="JOB:PATH[=TO]",
        help="an artefact of an earlier job that it begins with, under its own name or TO; may be given again",
    )
    group.add_argument(
        "--artefacts",
        action="append",
        metavar="PATTERN",
        help="files that are kept beside those in $BERTH_ARTEFACTS: 'out/*.pt'; may be given again",
    )
    group.add_argument(
        "--log-match",
        action="append",
        metavar="TEXT",
        help="tell who chose *Log match* when a line of the log has it; * is any text between; may be given again",
    )


def labels_of(given: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (label.partition("=") for label in given)}


def described(asked: Any, berth: Berth) -> dict[str, Any]:
    """Return the description that the flags make; files that it does not take are uploaded. Raises ClientError."""
    found = {flag.field: value for flag in FLAGS if (value := getattr(asked, flag.field)) is not None}
    if asked.command:
        found["command"] = asked.command[0] if len(asked.command) == 1 else shlex.join(asked.command)
    if asked.gpu_type:
        found["gpu_types"] = asked.gpu_type
    kinds = {"any": asked.after_any, "notok": asked.after_notok}
    waits = [*(asked.after or ()), *({"job": job, "kind": kind} for kind, jobs in kinds.items() for job in jobs or ())]
    if asked.singleton:
        waits.append({"kind": "singleton"})
    if waits:
        found["depends_on"] = waits
    if asked.input:
        found["inputs"] = asked.input
    if asked.artefacts:
        found["artefacts"] = asked.artefacts
    if asked.log_match:
        found["log_matches"] = asked.log_match
    named = {
        "environment": dict(asked.env or ()),
        "secrets": dict(asked.secret or ()),
        "labels": labels_of(asked.label or []),
    }
    found |= {field: pairs for field, pairs in named.items() if pairs}
    if asked.file or asked.folder:
        found |= files_sent(asked, berth)
    more = {} if asked.template else dict(map(_set, asked.set or ()))
    return found | _code(asked) | _software(asked) | more


def _code(asked: Any) -> dict[str, Any]:
    of_git = {"ref": asked.ref, "secret": asked.git_secret, "submodules": asked.submodules or None}
    given = {name: value for name, value in of_git.items() if value is not None}
    if given and not asked.git:
        raise ClientError("--ref, --git-secret and --submodules belong to --git URL.")
    if asked.git:
        return {"code": {"git": asked.git, **given}}
    return {"code": {"path": asked.code_path}} if asked.code_path else {}


def _software(asked: Any) -> dict[str, Any]:
    if asked.requirements:
        return {"software": {"requirements": text_read(asked.requirements)}}
    if asked.image:
        return {"software": {"image": asked.image}}
    if asked.environment:
        return {"software": {"environment": asked.environment}}
    return {"software": {"path": asked.environment_path}} if asked.environment_path else {}


def _set(given: tuple[str, str]) -> tuple[str, Any]:
    field, text = given
    try:
        return field, json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise ClientError(f"--set {field}: {text[:60]!r} is no JSON; write a text in quotes, as '\"text\"'.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ClientError(f"--set names one thing twice: {', '.join(name for name, _ in pairs)}; write each once.")
    return found


def _no_number(text: str) -> NoReturn:
    raise ClientError(f"--set: {text} is no number.")
