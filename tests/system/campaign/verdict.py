"""What a campaign must end with, from what the jobs wrote and what Berth says of them."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.system.helpers.client import FINAL

MUST_NOT_BE = ("unwell", "stuck", "lost", "untrue", "unasked", "overlapping", "orphans", "leaks")


@dataclass
class Verdict:
    """Numbers of jobs. What `MUST_NOT_BE` names must be empty.

    `unwell`: faults after which `/healthz` never said `ok` again. `lost`: did not end well. `untrue`: Berth's word is not what
    the ledger says. `unasked`: made twice of one submission. `orphans`: pids of jobs after their end. `refused`: messages of
    nodes, as stale. `spoilt`: those that the campaign itself killed, or whose shim it killed. `again`: those that may run
    again and did, though they had ended well: their node could not say so within their lease.
    """

    accepted: int = 0
    ended: dict = field(default_factory=dict)
    unwell: list = field(default_factory=list)
    stuck: list = field(default_factory=list)
    lost: list = field(default_factory=list)
    untrue: list = field(default_factory=list)
    unasked: list = field(default_factory=list)
    overlapping: list = field(default_factory=list)
    again: list = field(default_factory=list)
    spoilt: list = field(default_factory=list)
    orphans: list = field(default_factory=list)
    leaks: int = 0
    refused: int = 0

    @property
    def faults(self):
        """{what: numbers} of what must not be."""
        found = {name: getattr(self, name) for name in MUST_NOT_BE}
        return {name: what for name, what in found.items() if what}


def judge(*, accepted, states, entries, killed):
    """The verdict on jobs `accepted` ({number: may be run again}).

    `states`: {number: state} of all jobs that came of it, as Berth tells it. `entries`: the ledger's lines. `killed`: pids of
    jobs that the campaign killed.
    """
    of = defaultdict(list)
    for entry in entries:
        of[entry["job"]].append(entry)
    verdict = Verdict(accepted=len(accepted), ended=dict(Counter(states.get(number, "unknown") for number in accepted)))
    verdict.spoilt = sorted({entry["job"] for entry in entries if entry["pid"] in killed})
    verdict.overlapping = sorted({entry["job"] for entry in entries if entry["what"] == "violation"})
    verdict.unasked = sorted(set(states) - set(accepted))
    for number, again in accepted.items():
        state, done = states.get(number), sum(entry["what"] == "done" and entry["rank"] == 0 for entry in of[number])
        if state not in FINAL:
            verdict.stuck.append(number)
        elif state != "COMPLETED" and number not in verdict.spoilt:
            verdict.lost.append(number)
        elif (state == "COMPLETED") != (done > 0) or (done > 1 and not again):
            verdict.untrue.append(number)
        elif done > 1:
            verdict.again.append(number)
    return verdict
