"""`./berth test [--fast] [pytest arguments]`: runs pytest. The last line is its summary.

--fast leaves out tests that need a database, processes, servers, a browser or a GPU, and those marked slow, which play a whole
experiment or the like (docs/decisions/0236), and draws a quarter of Hypothesis's examples (0214). The linters are tests too
(tests/test_house.py). On two or more cores several runs go side by side. One has the tests with real servers and browsers,
which mostly wait; two compute meanwhile, so that no core is ever idle: one the tests of most rooms of the portal, one all
others. With --fast, one has the tests of the core, the client and three rooms of the portal, the other the rest. Of named
folders each has every second file.

A few tests with servers that fail beside all others are run again alone, and the end says so (docs/decisions/0140).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from portal.launch.processes.descendants import become_subreaper, end_all
from portal.launch.summing import costs_of, summary_of
from portal.layout import SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

NOT_FAST = ("system", "browser", "postgres", "gpu", "impure", "slow")
FAST = ["-m", " and ".join(f"not {mark}" for mark in NOT_FAST), "--fewer-examples"]
WAITING = "system or browser or postgres"
_WAITS = re.compile(rf"mark\.({WAITING.replace(' or ', '|')})\b")
PORTAL = "tests/portal"
_COMPUTING = ["--durations=25", "-m", f"not ({WAITING}) and not gpu"]
LENT = "ab"
"""The first letters of the rooms that the run of the others takes, so that both end at about the same time."""
COMPUTING_PARTS = (
    [*_COMPUTING, f"--ignore-glob={PORTAL}/[{LENT}]*", PORTAL],
    [*_COMPUTING, f"--ignore-glob={PORTAL}/[!{LENT}]*"],
)
COMPUTING = {tuple(part) for part in COMPUTING_PARTS}
YIELDING = 5
"""So much nicer are the runs that compute: those with servers mostly wait, and a core is theirs at once when they do not."""
# Four files of them at a time: each waits for servers, leases and browsers. In our order: left to itself, xdist begins
# with the files of most tests, and comes last to the one test that takes three minutes.
WAITING_PART = [
    *("-p", "xdist", "-n", "4", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("--durations=25", "-m", f"({WAITING}) and not gpu"),
]
TOGETHER = {
    "shells": (
        "tests/system/test_scripts_life.py",
        "tests/system/test_shell.py",
        "tests/system/test_terminal.py",
        "tests/system/test_idle.py",
        "tests/system/test_road.py",
        "tests/system/test_forward.py",
        "tests/system/test_secret_story.py",
        "tests/system/test_lab.py",
        "tests/system/test_gpus.py",
    ),
    "pages": (
        "tests/system/test_browser.py",
        "tests/system/test_live_pages.py",
        "tests/system/test_replans.py",
        "tests/system/test_board_pages.py",
    ),
    "looks": (
        "tests/system/test_axe.py",
        "tests/system/test_submit_page.py",
        "tests/system/test_sharing.py",
    ),
}
"""Files that share a Berth (tests/together.py). A group is the work of one process: 250 s of processor time at most."""
FIRST = (
    "tests/postgres/test_same_on_postgres.py",
    *TOGETHER["looks"],
    *TOGETHER["pages"],
    "tests/system/test_postgres.py",
    *TOGETHER["shells"],
    "tests/system/test_kills.py",
    "tests/system/test_readme.py",
    "tests/system/test_restore.py",
    "tests/system/test_artefacts_kept.py",
    "tests/portal/backups/test_commands.py",
    "tests/system/test_launcher.py",
    "tests/system/test_full_disk.py",
    "tests/system/test_kills_lease.py",
    "tests/system/test_hostile_job.py",
    "tests/system/test_portal_machine.py",
    "tests/system/test_hang.py",
    "tests/workers/agent/test_agent.py",
)
"""Those that take the most processor time, which begin first: no lane is to be left with one of them at the end."""
CORE = "tests/scheduler"
WITHOUT_DJANGO = ["-p", "no:django", "-W", "ignore:Unknown config option"]
"""The core imports none of it. Where its tests are all there is, making the apps ready takes a third of the time to begin."""
SECOND = (CORE, "tests/client", "tests/research", f"{PORTAL}/dashboard", f"{PORTAL}/previews")
"""With --fast they take as much processor time as all others with the linters do."""
FAST_PARTS = ([*FAST, "-q", *(f"--ignore={each}" for each in SECOND)], [*FAST, "-q", *SECOND])
WORTH_TWO = 20  # so many files of named folders are worth a second process of pytest, which takes two seconds to start
COSTS = "TESTS_COSTS_IN"
"""Names the folder in which each process of pytest tells what its files cost (tests/costs.py)."""
FAILED = "TESTS_FAILED_IN"
"""Names the file in which a run of pytest tells which of its tests failed (tests/failures.py)."""
SKIPPED = "TESTS_SKIPPED_IN"
"""Names the file in which each run of pytest tells which of its tests were skipped; `.ci/run` gives it."""
AGAIN = 3
"""Tests with servers that failed are run again if they stand in so many files at most. More are no accident of a busy machine."""
FAILURES, NO_TESTS = 1, 5
LEFT_OUT = frozenset({"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "BERTH_DATA_DIR", "DJANGO_SETTINGS_MODULE"})
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPT_PATIENCE_S = 20.0
END_PATIENCE_S = 5.0


def arguments_for(arguments: list[str]) -> list[str]:
    """Return pytest's arguments. GPU tests run only when -m asks for them."""
    rest = [argument for argument in arguments if argument != "--fast"]
    if "--fast" in arguments:
        return [*FAST, "-q", *rest]
    return rest if "-m" in rest else ["-m", "not gpu", *rest]


def parts_of(arguments: list[str]) -> tuple[list[str], ...] | None:
    """Return the arguments of the runs side by side: the whole, the quick tests, or those of folders. None: one run."""
    folders = [SOURCE / each for each in arguments[1:]]
    if arguments[:1] != ["--fast"] or not folders or not all(each.is_dir() for each in folders):
        return {(): whole(), ("--fast",): FAST_PARTS}.get(tuple(arguments))
    files = sorted({str(file) for folder in folders for file in folder.rglob("test_*.py")})
    own = WITHOUT_DJANGO if all(each.is_relative_to(SOURCE / CORE) for each in folders) else []
    return tuple([*FAST, *own, "-q", *files[begin::2]] for begin in (0, 1)) if len(files) >= WORTH_TWO else None


def waiting_files() -> list[str]:
    """Find the files whose text names a mark of the waiting part: its processes need not import all the others."""
    files = sorted(SOURCE.glob("tests/**/test_*.py"))
    found = [str(path.relative_to(SOURCE)) for path in files if _WAITS.search(path.read_text(encoding="utf-8"))]
    return sorted(found, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))


def whole() -> tuple[list[str], ...]:
    """Return the arguments of the runs that are the whole."""
    return *COMPUTING_PARTS, [*WAITING_PART, *waiting_files()]


def _pytest(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


def environment_of(ours: Mapping[str, str]) -> dict[str, str]:
    """Return pytest's environment, without variables that point to an installation."""
    kept = {name: value for name, value in ours.items() if name not in LEFT_OUT}
    return kept | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Stopped(Exception):
    """SIGINT (Ctrl-C), SIGTERM or SIGHUP came. The first argument is the signal's number."""


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def _side_by_side(environment: dict[str, str], parts: tuple[list[str], ...]) -> int:
    """Run all parts at once. Show the first's output as it comes, the others' when all have ended.

    Each has a session of its own, so that Ctrl-C reaches this process alone. It passes the signal on once.
    """
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as files:
        environment, failed = environment | {COSTS: folder}, Path(folder) / "failed"
        told = [Path(folder) / f"part-{number}" for number in range(1, len(parts))]
        others = [
            _begun(part, environment | ({FAILED: str(failed)} if part[:4] == WAITING_PART[:4] else {}), output)
            for part, output in zip(parts[1:], [files.enter_context(path.open("wb")) for path in told], strict=True)
        ]
        first = _begun(parts[0], environment, subprocess.PIPE)
        try:
            shown = _shown(first)
            codes = [each.wait() for each in (first, *others)]
        except Stopped:
            _interrupt(*others, first)
            raise
        outputs = [path.read_text(errors="replace") for path in told]
        sys.stdout.write("".join(outputs))
        sys.stdout.flush()
        flaky = _again(failed, environment) if codes[-1] == FAILURES else []
        sys.stdout.writelines(f"{line}\n" for line in costs_of(Path(folder)))
    if flaky:
        codes[-1] = 0
        sys.stdout.writelines(f"FLAKY: failed beside the others, passed alone: {name}\n" for name in flaky)
    sys.stdout.write(summary_of([shown, *outputs], time.monotonic() - began_s, flaky=len(flaky)) + "\n")
    sys.stdout.flush()
    return next((code for code in codes if code not in {0, NO_TESTS}), min(codes))


def _again(failed: Path, environment: dict[str, str]) -> list[str]:
    """Run the tests that failed once more, with nothing beside them; return their names if all of them pass."""
    names = list(dict.fromkeys(failed.read_text(encoding="utf-8").splitlines())) if failed.exists() else []
    if not 0 < len({name.partition("::")[0] for name in names}) <= AGAIN:
        return []
    sys.stdout.write(f"run again alone: {', '.join(names)}\n")
    again = _begun(["-m", "not gpu", *names], environment, subprocess.PIPE)
    try:
        _shown(again)
        return names if again.wait() == 0 else []
    except Stopped:
        _interrupt(again)
        raise


def _begun(arguments: list[str], environment: dict[str, str], output: IO[bytes] | int) -> subprocess.Popen[str]:
    run = subprocess.Popen(  # noqa: S603 - our own argv
        _pytest(arguments),
        cwd=SOURCE,
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    if tuple(arguments) in COMPUTING:
        os.setpriority(os.PRIO_PROCESS, run.pid, min(19, os.nice(0) + YIELDING))
    return run


def _shown(running: subprocess.Popen[str]) -> str:
    """Show what it prints until it closes its output; return the whole text."""
    kept: list[str] = []
    for line in running.stdout or ():
        sys.stdout.write(line)
        sys.stdout.flush()
        kept.append(line)
    return "".join(kept)


def _interrupt(*runs: subprocess.Popen[Any]) -> None:
    """Ask pytest to stop, and wait while it ends its servers."""
    for run in runs:
        run.send_signal(signal.SIGINT)
    deadline = time.monotonic() + INTERRUPT_PATIENCE_S
    for run in runs:
        with contextlib.suppress(subprocess.TimeoutExpired, Stopped):  # a second Ctrl-C: do not wait
            run.wait(timeout=max(0.0, deadline - time.monotonic()))


def _alone(arguments: list[str], environment: dict[str, str]) -> int:
    """Run pytest once, in our own process group, so that it may use the terminal (`--pdb`). Ctrl-C reaches both of us."""
    run = subprocess.Popen(_pytest(arguments), cwd=SOURCE, env=environment)  # noqa: S603 - our own argv
    try:
        return run.wait()
    except Stopped as stopped:
        with contextlib.suppress(subprocess.TimeoutExpired, Stopped):
            if stopped.args[0] != signal.SIGINT:
                run.send_signal(signal.SIGINT)
            run.wait(timeout=INTERRUPT_PATIENCE_S)
        raise


def main(arguments: list[str]) -> int:
    """Run the tests. However this ends, it leaves no process behind that the tests started."""
    environment = environment_of(os.environ)
    become_subreaper()
    for number in STOPPING:
        signal.signal(number, _stop)
    try:
        parts = parts_of(arguments)
        if parts is not None and len(os.sched_getaffinity(0)) > 1:
            return _side_by_side(environment, parts)
        return _alone(arguments_for(arguments), environment)
    except Stopped as stopped:
        sys.stdout.write(f"stopped by {signal.Signals(stopped.args[0]).name}\n")
        return 128 + int(stopped.args[0])
    finally:
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        for words in end_all(patience_s=END_PATIENCE_S):
            sys.stdout.write(f"still ran after the tests, and was ended: {words}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
