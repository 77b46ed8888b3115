"""A process that hangs is killed, with real processes and pipes; only the clock is ours."""

import os
import signal
import sys
import time

import pytest

from portal.foundation.layout import SOURCE, read_json
from portal.launch.processes import identity
from portal.launch.processes.children import Program
from portal.launch.processes.liveness import FIRST_SIGN_S, Asker, Liveness
from portal.launch.processes.supervisor import Supervisor
from tests.portal.launch.test_supervisor import Clock, until

pytestmark = pytest.mark.system  # processes of their own, waited for

LIMIT_S = 40.0
SIGNS = "from portal.foundation import alive; import time; alive.PERIOD_S = 0.05; alive._sign_for_ever()"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def told():
    return []


@pytest.fixture
def supervisor(layout, clock, told):
    supervisor = Supervisor(layout, notify=told.append, clock=clock, liveness=Liveness(LIMIT_S, clock, Asker(clock)))
    yield supervisor
    supervisor.liveness.asker.stop()
    supervisor._clock = time.monotonic
    for child in supervisor.children.values():
        child.signal(signal.SIGKILL)
    supervisor.stop({child.program.role for child in supervisor.children.values()})


def program(code=SIGNS, **changes):
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    values = {"name": "one", "role": "worker", "argv": [sys.executable, "-c", code], "environment": environment}
    return Program(**(values | {"signs": True} | changes))


def pass_time(supervisor, clock, seconds):
    """In steps as the supervisor takes them: a leap would be taken for a suspended machine. Returns whose end it saw."""
    ended = []
    for _ in range(int(seconds)):
        clock.now += 1.0
        ended += supervisor.tick()
    return ended


def signed(supervisor, clock):
    """The child has signed at the present time of `clock`."""
    child = supervisor.children["one"]

    def now_signed():
        supervisor.tick()
        return child.process is not None and child.signs.get(child.process.pid) == clock.now

    until(now_signed, limit_s=30)
    return child.process.pid


def hangs(layout):
    return read_json(layout.state)["children"]["one"]["hangs"]


def test_a_stopped_child_is_killed_and_started_again(supervisor, layout, clock, told):
    supervisor.start(program())
    pid = signed(supervisor, clock)
    stopped = identity.identity_of(pid)
    os.kill(pid, signal.SIGSTOP)
    pass_time(supervisor, clock, LIMIT_S - 2)
    assert identity.is_alive(stopped), "the limit is not over"
    ended = pass_time(supervisor, clock, 5)
    until(lambda: ended or supervisor.tick() == ["one"])
    assert f"one gave no sign of life for {LIMIT_S:g} s; killing it" in told
    assert hangs(layout) == 1
    clock.now += 1
    assert signed(supervisor, clock) != pid


def test_one_that_signs_is_left_alone(supervisor, layout, clock, told):
    supervisor.start(program())
    pid = signed(supervisor, clock)
    for _ in range(5):
        pass_time(supervisor, clock, LIMIT_S - 5)
        assert signed(supervisor, clock) == pid
    assert told == []


def test_a_child_that_never_signs_gets_its_time_to_begin(supervisor, clock, told):
    supervisor.start(program("import time; time.sleep(600)"))
    pass_time(supervisor, clock, FIRST_SIGN_S - 2)
    assert told == []
    pass_time(supervisor, clock, 5)
    assert "one gave no sign of life" in told[0]


def test_what_signs_is_not_read_for_ever_by_a_busy_supervisor(supervisor, clock):
    """The pipe is full long before; the child goes on, and its signs are read afterwards."""
    supervisor.start(program("from portal.foundation import alive\nwhile True: alive.sign()"))
    time.sleep(1.0)
    assert signed(supervisor, clock)


def test_a_machine_that_was_suspended_kills_nothing(supervisor, clock, told):
    supervisor.start(program())
    os.kill(signed(supervisor, clock), signal.SIGSTOP)
    clock.now += 10 * LIMIT_S
    supervisor.tick()
    pass_time(supervisor, clock, LIMIT_S - 2)
    assert told == []
    pass_time(supervisor, clock, 5)
    assert "one gave no sign of life" in told[0]


def test_an_agents_jobs_are_spared(supervisor, clock, tmp_path):
    note = tmp_path / "job"
    code = f"import subprocess; subprocess.Popen(['/bin/sh', '-c', 'echo $$ > {note}; exec sleep 600']); {SIGNS}"
    supervisor.start(program(code, role="agent", spares_group=True))
    os.kill(signed(supervisor, clock), signal.SIGSTOP)
    until(lambda: note.exists() and note.read_text().strip())
    job = identity.identity_of(int(note.read_text()))
    ended = pass_time(supervisor, clock, LIMIT_S + 5)
    until(lambda: ended or supervisor.tick() == ["one"])
    try:
        time.sleep(0.2)
        assert identity.is_alive(job)
    finally:
        os.kill(job.pid, signal.SIGKILL)


def test_a_stopped_process_of_a_pool_is_killed_alone(supervisor, clock, told, tmp_path):
    note = tmp_path / "pool"
    code = f"import os; from pathlib import Path\nif os.fork() == 0: Path({str(note)!r}).write_text(str(os.getpid()))\n{SIGNS}"
    supervisor.start(program(code))
    main = signed(supervisor, clock)
    until(lambda: note.exists() and note.read_text().strip())
    pool = identity.identity_of(int(note.read_text()))
    until(lambda: supervisor.tick() == [] and pool.pid in supervisor.children["one"].signs)
    os.kill(pool.pid, signal.SIGSTOP)
    for _ in range(2):
        pass_time(supervisor, clock, LIMIT_S / 2 + 2)
        assert signed(supervisor, clock) == main
    assert told == [f"process {pool.pid} of one gave no sign of life; killing it"]
    until(lambda: not identity.is_alive(pool))


def test_one_that_answers_is_left_alone_and_one_that_does_not_is_killed(supervisor, clock, told, tmp_path):
    switch = tmp_path / "silent"

    def ask():
        if switch.exists():
            raise TimeoutError

    supervisor.liveness.asker._asked.clear()
    supervisor.start(program("import time; time.sleep(600)", signs=False, ask=ask))
    answered = lambda: supervisor.liveness.asker.answered_at.get("one") == clock.now  # noqa: E731
    for _ in range(2):
        until(answered)
        pass_time(supervisor, clock, LIMIT_S - 5)
    until(answered)
    assert told == []
    switch.touch()
    time.sleep(2.5)  # the question under way may still be answered
    pass_time(supervisor, clock, LIMIT_S + 5)
    assert "one gave no sign of life" in told[0]


def test_a_worker_is_not_judged_while_the_broker_does_not_answer(supervisor, clock, told):
    answered_at = supervisor.liveness.asker.answered_at
    answered_at["redis"] = clock.now
    supervisor.start(program(needs="redis"))
    os.kill(signed(supervisor, clock), signal.SIGSTOP)
    pass_time(supervisor, clock, 3 * LIMIT_S)
    assert told == []
    for _ in range(int(LIMIT_S) + 3):
        answered_at["redis"] = clock.now
        pass_time(supervisor, clock, 1)
    assert "one gave no sign of life" in told[0]


def test_a_limit_of_nought_judges_nothing(supervisor, clock, told):
    supervisor.liveness.limit_s = 0
    supervisor.start(program())
    os.kill(signed(supervisor, clock), signal.SIGSTOP)
    pass_time(supervisor, clock, 1000)
    assert told == []


def test_one_that_hangs_again_and_again_is_started_less_often(supervisor, clock):
    supervisor.start(program("import time; time.sleep(600)"))
    delays = []
    for _ in range(3):
        pass_time(supervisor, clock, FIRST_SIGN_S + 1)  # the last step kills it
        until(supervisor.tick)
        delays.append(supervisor.children["one"].start_again_at - clock.now)
        clock.now += delays[-1]
        supervisor.tick()
    assert delays == [0.5, 1.0, 2.0]
