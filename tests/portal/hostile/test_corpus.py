"""The corpus against a portal in a process of its own: no crash, no 5xx, no long work, no huge answer."""

import json
import shutil
import subprocess
import sys

import pytest

from portal.foundation.layout import Layout
from tests.portal.hostile import cases

pytestmark = [pytest.mark.impure, pytest.mark.slow]
MOST_CPU_S = 3.0
MOST_MIB = 150
MOST_ANSWER_BYTES = {"page": 2_500_000, "rest": 30_000}
"""A page repeats what was typed into its form, so that it can be mended."""
RESTARTS = 60
KINDS = ("descriptions", "traces", "numbers", "odd")


def sent(folder, wanted):
    """{name: outcome}, even if the process died meanwhile."""
    found, left, folder = {}, list(wanted), str(folder)
    for _ in range(RESTARTS):
        text = "".join(case.line() + "\n" for case in left)
        argv = [sys.executable, "-m", "tests.portal.hostile.door", folder]
        run = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
        found |= {line[1]: line[2:] for line in lines if line[0] == "done"}
        if run.returncode == 0:
            return found
        assert lines, run.stderr[-4000:]
        found[lines[-1][1]] = [f"the process ended with {run.returncode}", 0, 0, 0, run.stderr[-300:]]
        left = [case for case in left if case.name not in found]
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory, template):
    """{name: outcome} of every case, sent to one portal as long as it lives."""
    every = {case.name: case for kind in KINDS for case in wanted_of(kind).values()}
    assert len(every) == sum(len(wanted_of(kind)) for kind in KINDS), "two cases of one name"
    folder = tmp_path_factory.mktemp("door")
    shutil.copy(Layout.at(template).database, folder)
    return sent(folder, every.values())


def wanted_of(kind):
    return {case.name: case for case in getattr(cases, kind)()}


def wrong(wanted, answers):
    found, by = {}, {case.name: case.by for case in wanted}
    for name, (status, cpu_s, grown_mib, size, beginning) in answers.items():
        if not isinstance(status, int) or status >= 500:
            found[name] = f"{status}: {beginning[:120]}"
        elif cpu_s > MOST_CPU_S:
            found[name] = f"{cpu_s} s of processor time"
        elif grown_mib > MOST_MIB:
            found[name] = f"{grown_mib} MiB more"
        elif size > MOST_ANSWER_BYTES[by[name]]:
            found[name] = f"an answer of {size} bytes"
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_request_of_the_corpus_hurts(answers, kind):
    wanted = wanted_of(kind)
    assert wanted.keys() <= answers.keys()
    assert not (found := wrong(wanted.values(), {name: answers[name] for name in wanted})), json.dumps(
        found, indent=1, ensure_ascii=False
    )


def test_a_hostile_description_is_refused_by_its_field(answers):
    """Refused, not merely survived; by REST with the field, by the form with the sentence."""
    described = [name for name in wanted_of("descriptions") if "tenants of one name" not in name]
    harmless = {"all the memory", "a name of 4 000 digits"}
    accepted = {name for name in described if answers[name][0] < 400 and name.rpartition(": ")[2] not in harmless}
    assert not accepted
    told = answers["description by REST: what killed the portal"]
    assert told[0] == 400
    assert '"field": "cluster"' in told[4] or '"field":"cluster"' in told[4]
