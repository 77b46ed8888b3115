"""`berth submit` and `berth plan`: send a job, or ask what would happen to it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from berth_client.cli.description import describe, flags_add
from berth_client.cli.files import check_script_names, named, text_read
from berth_client.cli.job_words import end_words, plan_words, similar_words
from berth_client.cli.jobs import format_job
from berth_client.cli.logs import print_pieces
from berth_client.cli.options import output_add
from berth_client.cli.output import format_value, printable
from berth_client.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth
    from berth_client.fields import JobDescription
    from berth_client.shapes import Imported, JobDetail

OWN_ENDS, OF_SIGNALS = frozenset({"FAILED", "OUT_OF_MEMORY"}), 128
"""States that say how the command ended. Others say that it was ended, which is no answer of its own."""
NO_CODE = 1
"""How --wait ends for a job that did not complete and has no exit code of its own: cancelled, out of time, lost."""
SUBMIT = """\
Submit a job, for example
    berth submit --gpus 1,2,4 --time 10h --file train.py -- python train.py --epochs 30
    berth submit --gpus 2 train.sbatch config.yaml
    berth submit --template train --set lr=0.1
    berth submit --continue-from 41:checkpoints/ --time 20h
FILE is a batch script for sbatch, or a job in YAML; - reads it from standard input. Words behind a batch script
are its arguments; those that begin with - stand behind --. Other options of the command line come before those of
the file. Directives without effect are listed on standard error.
With --wait or --follow the exit code is the job's own, 128 and the signal's number where a signal ended it
(1 where it has none: cancelled, out of time, lost)."""
PLAN = """\
Say what would happen to a job now, and submit nothing. Exit code 0: it would start with the next planning; 2: it would not."""


def submit_options(parser: argparse.ArgumentParser) -> None:
    plan_options(parser)
    parser.description = SUBMIT
    parser.add_argument("--key", metavar="TEXT", help="with the same key the same job is submitted once only")
    parser.add_argument(
        "--print", action="store_true", help="submit nothing: print the description, and the result of each directive"
    )
    parser.add_argument("--wait", action="store_true", help="wait until it has ended; its states go to standard error")
    parser.add_argument("-f", "--follow", action="store_true", help="print its output as it comes, until it has ended")


def plan_options(parser: argparse.ArgumentParser) -> None:
    parser.description = PLAN
    flags_add(parser)
    parser.add_argument("script", metavar="FILE", nargs="?", help="a batch script for sbatch, or a job in YAML")
    parser.add_argument("arguments", metavar="ARGUMENT", nargs="*", help="of a batch script: its $1, $2 and so on")
    parser.add_argument(
        "--format", choices=["sbatch", "yaml"], help="the format of FILE, where its beginning does not tell"
    )
    parser.add_argument(
        "--without-refused", action="store_true", help="go on without the directives that cannot be had here"
    )
    parser.set_defaults(print=False)
    output_add(parser)


def submit(asked: Any, berth: Berth) -> int:
    if asked.template:
        if asked.print:
            raise ClientError(
                "--print shows a description of FILE and flags; `berth templates show` prints a template."
            )
        job = berth.templates_submit(**_order(asked, berth), idempotency_key=asked.key)
        return _ended(asked, berth, job)
    description = _description(asked, berth)
    if asked.print:
        sys.stdout.write(format_value(asked, description))
        return 0
    return _ended(asked, berth, berth.jobs_submit(description, idempotency_key=asked.key))


def _order(asked: Any, berth: Berth) -> dict[str, Any]:
    """Return the order for a template: its name, values, and the fields that the flags replace."""
    if asked.script is not None or asked.continue_from:
        raise ClientError("Give one of --template, --continue-from and FILE.")
    job = describe(asked, berth)
    return {
        "name": asked.template,
        "values": dict(asked.set or ()),
        "version": asked.template_version,
        "tenant": job.pop("tenant", None),
        "job": job or None,
    }


def _ended(asked: Any, berth: Berth, job: JobDetail) -> int:
    """Tell of a submitted job; with --wait or --follow until its end. Return the exit code."""
    if not (asked.wait or asked.follow):
        sys.stdout.write(_format_submitted(asked, job))
        _print_similar(asked, berth, job)
        return 0
    print(f"job {job['number']} is submitted", file=sys.stderr, flush=True)
    if asked.follow:
        print_pieces(berth.jobs_follow(job["number"]))
    job = berth.jobs_wait(job["number"], on_state=_print_state)
    if asked.output != "table" or asked.parsable:
        sys.stdout.write(format_job(asked, job))
    return exit_code(job)


def _print_similar(asked: Any, berth: Berth, job: JobDetail) -> None:
    """Say what similar jobs took, to a person whose job declares no length. The job is submitted, so nothing fails here."""
    if asked.output != "table" or asked.parsable or job["expected_duration_s"] or job["samples"]:
        return
    try:
        told = similar_words(berth.jobs_similar(job["number"])["similar"])
    except ClientError:  # a portal from before there was this, or one that went away
        return
    if told:
        print(printable(told), file=sys.stderr)


def _description(asked: Any, berth: Berth) -> JobDescription:
    """Return the fields of file and flags. Raises ClientError when the file asks for something impossible here."""
    own = describe(asked, berth)
    if asked.continue_from:
        return cast("JobDescription", _continue(asked, berth, own))
    if asked.script is None:
        if not own.get("command"):
            raise ClientError(
                f"say what to run: `berth {asked.verb} [options] -- COMMAND`, or name a batch script or a job in YAML."
            )
        return cast("JobDescription", own)
    text = text_read(asked.script)
    with named(asked.script):
        found = _import(asked, berth, text, own)
    for line in found["lines"]:
        if asked.print or line["verdict"] != "mapped":
            said = f"line {line['line']}: {line['text']}: {line['verdict']}: {line['detail']}"
            print(printable(said), file=sys.stderr)
    refused = [line["line"] for line in found["lines"] if line["verdict"] == "refused"]
    if refused and not asked.without_refused and not asked.print:
        raise ClientError(
            f"{asked.script} asks for things that this Berth does not have (line {', '.join(map(str, refused))}); nothing was "
            "submitted. Change it, or submit it --without-refused."
        )
    return cast("JobDescription", _merge(dict(found["description"]), own))


def _import(asked: Any, berth: Berth, text: str, own: dict[str, Any]) -> Imported:
    """Read the file. Words behind a batch script, and those behind --, are what it is called with."""
    found = berth.jobs_import(text, format=asked.format)
    if found["format"] != "sbatch":
        if asked.arguments:
            raise ClientError("a job in YAML takes no arguments; say another command behind --.")
        return found
    check_script_names(asked, found["description"].get("files") or {})
    if not (asked.arguments or asked.command):
        return found
    own.pop("command", None)
    return berth.jobs_import(text, format="sbatch", arguments=[*asked.arguments, *asked.command])


def _continue(asked: Any, berth: Berth, own: dict[str, Any]) -> dict[str, Any]:
    """Return the earlier job's description with the command line's changes; it begins with its artefact."""
    if asked.script is not None:
        raise ClientError("Give --continue-from or FILE, not both.")
    number, path = asked.continue_from
    earlier: dict[str, Any] = dict(berth.jobs_description(number, begin_with=path))
    if "inputs" in own:
        own["inputs"] = [*earlier["inputs"], *own["inputs"]]
    return _merge(earlier, own)


def _merge(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Put the command line's fields over the file's; files, variables and labels are joined."""
    both: dict[str, Any] = {
        name: {**base[name], **own[name]}
        for name in ("files", "environment", "labels")
        if isinstance(base.get(name), dict) and name in own
    }
    return {**base, **own, **both}


def _format_submitted(asked: Any, job: JobDetail) -> str:
    if asked.parsable or asked.output == "name":
        return f"{job['number']}\n"
    return f"job {job['number']} is submitted\n" if asked.output == "table" else format_job(asked, job)


def _print_state(job: JobDetail) -> None:
    ended = end_words(job)
    where = f" on {', '.join(job['nodes'])}" if job["nodes"] else ""
    text = f"job {job['number']}: {job['state']}{where}{f', {ended}' if ended else ''}"
    print(printable(text), file=sys.stderr, flush=True)


def exit_code(job: JobDetail) -> int:
    """Return how a process that stands for an ended job ends: as a shell tells the end of the job's command."""
    if job["state"] == "COMPLETED":
        return 0
    if job["state"] not in OWN_ENDS:
        return NO_CODE
    signal = job.get("signal")  # a portal from before there were signals tells none
    return OF_SIGNALS + signal if signal else job["exit_code"] or NO_CODE


def plan(asked: Any, berth: Berth) -> int:
    found = (
        berth.templates_plan(**_order(asked, berth)) if asked.template else berth.jobs_plan(_description(asked, berth))
    )
    as_text = asked.output in {"table", "wide"} and not asked.parsable
    if asked.output in {"json", "yaml"}:
        sys.stdout.write(format_value(asked, found))
    elif as_text:
        sys.stdout.write(plan_words(found))
    else:
        print("start" if found["placeable"] else found["reason"])
    return 0 if found["placeable"] else 2
