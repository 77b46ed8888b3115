"""The flags of `submit` and `plan`, and the job description that they make. The portal says whether it can run."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, NoReturn

from berth_client.cli.files import files_sent, text_read
from berth_client.cli.options import READ, artefact, job_input, live_add, pair, read_labels
from berth_client.errors import ClientError
from berth_client.fields import FLAGS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from berth_client import Berth


SOFTWARE = (
    ("requirements", "--requirements", "FILE", "Python packages, built on the node: a requirements.txt"),
    ("image", "--image", "IMAGE", "a container image, of those that your tenant may use"),
    ("environment", "--environment", "NAME", "an environment that the nodes offer, by name"),
    ("path", "--environment-path", "DIR", "an environment on the nodes, by its directory"),
)
"""Kind, flag, metavar and help."""
LISTS = ("gpu_types", "inputs", "artefacts", "log_matches")
"""Fields of a list, whose option may be given again."""
ALSO = {"start_after": ("--begin",)}
"""Other names of a flag: sbatch's."""


LIVE = {"--tenant": "tenants", "--secret": "secrets"}
"""Options that the shell completes with live values."""
AGAIN: tuple[tuple[str, str, Callable[[str], Any], str, str], ...] = (
    ("--gpu-type", "gpu_types", str, "TYPE", "only GPUs of this type"),
    ("--after", "after", int, "JOB", "start when this job has completed"),
    ("--after-any", "after_any", int, "JOB", "start when it has ended, however"),
    ("--after-notok", "after_notok", int, "JOB", "start when it ended without success"),
    ("--env", "env", pair, "NAME=VALUE", "a variable"),
    ("--secret", "secret", pair, "NAME=SECRET", "a variable that gets a secret's value"),
    ("--label", "label", str, "NAME[=VALUE]", "a label"),
    ("--file", "file", str, "PATH[:NAME]", "a file that comes along, under its own name or NAME"),
    ("--input", "inputs", job_input, "JOB:PATH[=TO]", "begin with an earlier job's artefact, under its name or TO"),
    ("--artefacts", "artefacts", str, "PATTERN", "files that are kept beside those in $BERTH_ARTEFACTS: 'out/*.pt'"),
    ("--log-match", "log_matches", str, "TEXT", "notify of a line of the log that has this; * is any text between"),
    ("--set", "set", pair, "FIELD=JSON", "any other field, as in REST; with --template: NAME=VALUE of a parameter"),
)
"""Flag, name, reader, metavar and help of each option that may be given again."""


def flags_add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("resources of the job")
    for flag in FLAGS:
        if not flag.metavar:
            group.add_argument(flag.name, dest=flag.field, action="store_true", default=None, help=flag.help)
            continue
        of, names = LIVE.get(flag.name, ""), (flag.name, *ALSO.get(flag.field, ()))
        live_add(group, of, *names, dest=flag.field, type=READ[flag.kind], metavar=flag.metavar, help=flag.help)
    for name, field, read, metavar, words in AGAIN:
        more, of = f"{words}; may be given again", LIVE.get(name, "")
        live_add(group, of, name, dest=field, action="append", type=read, metavar=metavar, help=more)
    group.add_argument("--singleton", action="store_true", help="start when your earlier jobs of its name have ended")
    code = group.add_mutually_exclusive_group()
    code.add_argument("--git", metavar="URL", help="the job's code: a repository, fetched on the node")
    code.add_argument("--code-path", metavar="DIR", help="the job's code: a directory on the nodes")
    group.add_argument("--ref", metavar="REF", help="of --git: branch, tag or commit; else the default branch")
    live_add(group, "secrets", "--git-secret", metavar="SECRET", help="of --git: the secret that may read it")
    group.add_argument("--submodules", action="store_true", help="of --git: its submodules too")
    words = "all files below it come along except those in its .berthignore; sent once"
    group.add_argument("--folder", metavar="DIR", help=words)
    words = "a job like this earlier one, which begins with this artefact of it; a folder ends with /"
    group.add_argument("--continue-from", type=artefact, metavar="JOB:PATH", help=words)
    software = group.add_mutually_exclusive_group()
    for kind, name, metavar, words in SOFTWARE:
        software.add_argument(name, dest=f"software_{kind}", metavar=metavar, help=words)
    live_add(group, "templates", "--template", metavar="NAME", help="a job template, whose parameters --set gives")
    group.add_argument("--template-version", type=int, metavar="N", help="this version of it; else the last one")
    parser.set_defaults(command=[])
    parser.usage = f"{parser.prog} [options] [FILE [ARGUMENT ...]] [-- COMMAND]"
    parser.epilog = "COMMAND: a program with its arguments, or one text in quotes, which /bin/sh runs as it stands."


def describe(asked: Any, berth: Berth) -> dict[str, Any]:
    """Return the description that the flags make; files that it does not take are uploaded. Raises ClientError."""
    fields = (*(flag.field for flag in FLAGS), *LISTS)
    found = {field: value for field in fields if (value := getattr(asked, field)) is not None}
    if asked.command:
        found["command"] = asked.command[0] if len(asked.command) == 1 else shlex.join(asked.command)
    kinds = {"any": asked.after_any, "notok": asked.after_notok}
    waits = [*(asked.after or ()), *({"job": job, "kind": kind} for kind, jobs in kinds.items() for job in jobs or ())]
    if asked.singleton:
        waits.append({"kind": "singleton"})
    if waits:
        found["depends_on"] = waits
    named = {
        "environment": dict(asked.env or ()),
        "secrets": dict(asked.secret or ()),
        "labels": read_labels(asked.label or []),
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
    for kind, *_ in SOFTWARE:
        if given := getattr(asked, f"software_{kind}"):
            return {"software": {kind: text_read(given) if kind == "requirements" else given}}
    return {}


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
