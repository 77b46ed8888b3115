"""Verbs on jobs that there are: ps, show, cancel, hold, release, keep, requeue, retry, explain, edit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli import complain
from berth_client.cli.job_words import COLUMNS, format_explanation, job_facts
from berth_client.cli.options import READ, job_add, live_add, most_add, output_add, read_labels
from berth_client.cli.output import format_one, format_page, format_rows, format_value, print_again
from berth_client.errors import AwayError, ClientError, RefusedError
from berth_client.fields import FLAGS
from berth_client.jobs import FINAL

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from berth_client import Berth
    from berth_client.shapes import JobDetail

UNFINISHED = "PENDING,HELD,STARTING,RUNNING,PREEMPTED"
EDITED = {"priority": "", "time_limit_s": "", "name": "the job's new name", "gpus": ""}
"""The options of `edit`; None: the same help as in `submit`."""
RETRIED = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")
STATES = (*UNFINISHED.split(","), *sorted(FINAL))


def act_options(parser: argparse.ArgumentParser) -> None:
    job_add(parser, several=True)
    output_add(parser)


def retry_options(parser: argparse.ArgumentParser) -> None:
    act_options(parser)
    words = f"of an array: only its tasks in these states: {', '.join(RETRIED)}"
    parser.add_argument("--state", metavar="S,S", help=words)


def show_options(parser: argparse.ArgumentParser) -> None:
    job_add(parser)
    output_add(parser, watch=True)


def explain_options(parser: argparse.ArgumentParser) -> None:
    show_options(parser)
    parser.add_argument(
        "--what-if", action="store_true", help="also which single changes would start it; takes seconds"
    )


def edit_options(parser: argparse.ArgumentParser) -> None:
    job_add(parser)
    for flag in FLAGS:
        if flag.field in EDITED:
            words = EDITED[flag.field] or flag.help
            parser.add_argument(flag.name, dest=flag.field, type=READ[flag.kind], metavar=flag.metavar, help=words)
    parser.add_argument("--label", action="append", metavar="NAME[=VALUE]", help="its labels from now on")
    output_add(parser)


FILTERS = (
    "state tenant owner category label node name array since until started_since started_until ended_since ended_until "
    "ordering"
).split()


def ps_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--all", action="store_true", help="also those that have ended")
    parser.add_argument("--mine", action="store_true", help="only your own")
    parser.add_argument("--state", metavar="S,S", help=f"only those in these states: {', '.join(STATES)}")
    live_add(parser, "tenants", "--tenant", metavar="T", help="only this tenant's")
    parser.add_argument("--owner", metavar="USER", help="only this person's")
    parser.add_argument("--category", metavar="C", help="only of this category: cv, nlp, speech, cpu, other")
    parser.add_argument("--label", metavar="NAME[=VALUE]", help="only those with this label")
    parser.add_argument("--node", metavar="NODE", help="only those that run or ran on this node")
    parser.add_argument("--name", metavar="TEXT", help="only those whose name contains this")
    parser.add_argument("--array", type=int, metavar="JOB", help="the tasks of this array")
    parser.add_argument("--since", metavar="TIME", help="submitted then or later, for example 2026-01-31T12:00:00Z")
    parser.add_argument("--until", metavar="TIME", help="submitted before")
    for word, column in (("first started", "started"), ("ended", "ended")):
        parser.add_argument(f"--{column}-since", metavar="TIME", help=f"{word} then or later; ended ones need -a")
        parser.add_argument(f"--{column}-until", metavar="TIME", help=f"{word} before; ended ones need -a")
    parser.add_argument(
        "--ordering", metavar="FIELD", help="by id (newest first), name, state, priority, ...; -FIELD turns it"
    )
    most_add(parser, 50)
    output_add(parser, watch=True)


def ps(asked: Any, berth: Berth) -> int:
    query = {name: getattr(asked, name) for name in FILTERS}
    if not asked.all and asked.state is None:
        query["state"] = UNFINISHED
    if asked.mine:
        query["owner"] = berth.me()["username"]

    def make() -> str:
        empty = "no such job" if asked.all else "no such job; -a: also those that have ended"
        return format_page(asked, berth, berth.jobs_list, columns=COLUMNS, empty=empty, **query)

    return print_again(asked, make)


def show(asked: Any, berth: Berth) -> int:
    return print_again(asked, lambda: format_job(asked, berth.jobs_show(asked.number)))


def format_job(asked: Any, job: JobDetail) -> str:
    """Return one job in the form that was asked for."""
    plain = format_one(asked, job, [job], COLUMNS)
    return job_facts(job, wide=asked.output == "wide") if plain is None else plain


def act(asked: Any, berth: Berth) -> int:
    """Do the verb to each job. A refused one is reported, and the others are still done."""
    return do_each(asked, getattr(berth, f"jobs_{asked.verb}"))


def retry(asked: Any, berth: Berth) -> int:
    return do_each(asked, lambda number: berth.jobs_retry(number, state=asked.state))


def edit(asked: Any, berth: Berth) -> int:
    asked.number = [asked.number]
    wanted = {field: value for field in EDITED if (value := getattr(asked, field)) is not None}
    if asked.label:
        wanted["labels"] = read_labels(asked.label)
    if not wanted:
        raise ClientError("say what to change: --priority, --time, --name, --gpus or --label")
    return do_each(asked, lambda number: berth.jobs_change(number, **wanted))


def do_each(asked: Any, do: Callable[[str], JobDetail]) -> int:
    done, code = [], 0
    for number in asked.number:
        try:
            done.append(do(number))
        except AwayError:
            raise
        except RefusedError as error:
            complain(f"job {number}: {error}")
            code = ClientError.exit_code
        else:
            if asked.output == "table" and not asked.parsable:
                print(_done(asked.verb, done[-1]))
    if asked.output != "table" or asked.parsable:
        sys.stdout.write(format_rows(asked, done, COLUMNS, empty=""))
    return code


def _done(verb: str, job: JobDetail) -> str:
    if verb == "cancel" and job["state"] not in FINAL:
        return f"job {job['number']}: {job['state']}, it is being stopped"
    if verb == "edit":
        limit = f", time limit {job['time_limit_s']} s" if job["time_limit_s"] else ""
        return f"job {job['number']}: {job['state']}, priority {job['priority']}{limit}"
    return f"job {job['number']}: {job['state']}"


def explain(asked: Any, berth: Berth) -> int:
    def make() -> str:
        found = berth.jobs_explain(asked.number, what_if=asked.what_if)
        return format_value(asked, found) if asked.output in {"json", "yaml"} else format_explanation(found)

    return print_again(asked, make)
