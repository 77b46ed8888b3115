"""`berth submit` and `berth plan`: send a job, or ask what would happen to it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from berth_client.cli.described import described, flags_add
from berth_client.cli.job_words import plan_words
from berth_client.cli.jobs import job_told
from berth_client.cli.logs import printed
from berth_client.cli.options import output_add, verb_add
from berth_client.cli.output import value_text

if TYPE_CHECKING:
    from berth_client import Berth
    from berth_client.shapes import JobDescription, JobDetail

NOT_PLACEABLE = 2
NO_CODE = 1
"""How --wait ends for a job that did not complete and has no exit code of its own: cancelled, out of time, lost."""
SUBMIT = """\
Submit a job, for example
    berth submit --gpus 1,2,4 --time 10h --file train.py -- python3 train.py --epochs 30
With --wait or --follow the exit code is the job's own (1 where it has none: cancelled, out of time, lost)."""
PLAN = """\
Say what would happen to a job now, and submit nothing. Exit code 0: it would start with the next planning; 2: it would not."""


def parsers_add(verbs: Any) -> None:
    sent = verb_add(verbs, "submit", submit, "submit a job", about=SUBMIT)
    flags_add(sent)
    sent.add_argument("--key", metavar="TEXT", help="with the same key the same job is submitted once only")
    sent.add_argument("--wait", action="store_true", help="wait until it has ended; its states go to standard error")
    sent.add_argument("-f", "--follow", action="store_true", help="print its output as it comes, until it has ended")
    output_add(sent)
    planned = verb_add(verbs, "plan", plan, "say what would happen to a job now, without submitting it", about=PLAN)
    flags_add(planned)
    output_add(planned)


def submit(asked: Any, berth: Berth) -> int:
    job = berth.jobs_submit(_description(asked, berth), idempotency_key=asked.key)
    if not (asked.wait or asked.follow):
        sys.stdout.write(_submitted(asked, job))
        return 0
    print(f"job {job['number']} is submitted", file=sys.stderr, flush=True)
    if asked.follow:
        printed(berth.jobs_follow(job["number"]))
    job = berth.jobs_wait(job["number"], on_state=_state_told)
    if asked.output != "table" or asked.parsable:
        sys.stdout.write(job_told(asked, job))
    return exit_code(job)


def _description(asked: Any, berth: Berth) -> JobDescription:
    return cast("JobDescription", described(asked))


def _submitted(asked: Any, job: JobDetail) -> str:
    if asked.parsable or asked.output == "name":
        return f"{job['number']}\n"
    return f"job {job['number']} is submitted\n" if asked.output == "table" else job_told(asked, job)


def _state_told(job: JobDetail) -> None:
    ended = f", exit code {job['exit_code']}" if job["exit_code"] is not None else ""
    detail = f": {job['end_detail']}" if job["end_detail"] else ""
    where = f" on {', '.join(job['nodes'])}" if job["nodes"] else ""
    print(f"job {job['number']}: {job['state']}{where}{ended}{detail}", file=sys.stderr, flush=True)


def exit_code(job: JobDetail) -> int:
    """Return how a process that stands for an ended job ends: with the job's code, as a shell tells it."""
    if job["state"] == "COMPLETED":
        return 0
    code = job["exit_code"]
    if not code:
        return NO_CODE
    return code if 0 < code < 256 else 128 - code if -128 < code < 0 else NO_CODE


def plan(asked: Any, berth: Berth) -> int:
    found = berth.jobs_plan(_description(asked, berth))
    as_text = asked.output in {"table", "wide"} and not asked.parsable
    if asked.output in {"json", "yaml"}:
        sys.stdout.write(value_text(asked, found))
    elif as_text:
        sys.stdout.write(plan_words(found))
    else:
        print("start" if found["placeable"] else found["reason"])
    return 0 if found["placeable"] else NOT_PLACEABLE
