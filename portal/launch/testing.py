"""`./berth test [--fast] [pytest arguments]`: pytest, its summary as the last line.

--fast leaves out what needs a database, processes, servers, a browser or a GPU; the linters are tests
(tests/test_house.py) and always run. Without arguments, on two cores or more, there are two runs side by side: the tests
with real servers and browsers wait most of their time, the others compute meanwhile.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from portal.launch.layout import SOURCE

FAST = ["-m", "not system and not browser and not postgres and not gpu and not impure"]
WAITING = "system or browser or postgres"
COMPUTING_PART = ["-m", f"not ({WAITING}) and not gpu"]
WAITING_PART = ["-m", f"({WAITING}) and not gpu"]
NO_TESTS = 5
_COUNT = re.compile(r"(\d+) (failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?)")


def arguments_for(arguments: list[str]) -> list[str]:
    """The arguments pytest gets; a GPU test runs only when -m asks for it."""
    rest = [argument for argument in arguments if argument != "--fast"]
    if "--fast" in arguments:
        return [*FAST, "-q", *rest]
    return rest if "-m" in rest else ["-m", "not gpu", *rest]


def counts_of(output: str) -> Counter[str]:
    """What pytest's last line counts; what it left out is counted by the other run."""
    last = next((line for line in reversed(output.splitlines()) if _COUNT.search(line)), "")
    found = Counter({word.removesuffix("s"): int(count) for count, word in _COUNT.findall(last)})
    del found["deselected"]
    return found


def summary_of(outputs: list[str], took_s: float) -> str:
    """One line for all runs, as pytest's own."""
    total: Counter[str] = Counter()
    for output in outputs:
        total += counts_of(output)
    order = ("failed", "error", "passed", "skipped", "xfailed", "xpassed", "warning")
    plural = {"error", "warning"}
    words = [
        f"{total[name]} {name}{'s' if name in plural and total[name] != 1 else ''}" for name in order if total[name]
    ]
    return f"===== {', '.join(words) or 'no tests ran'} in {took_s:.0f} s ====="


def _pytest(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


def _side_by_side(environment: dict[str, str]) -> int:
    """Both parts at once: the computing one is shown as it goes, the waiting one when both have ended."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "waiting"
        with told.open("wb") as file:
            waiting = subprocess.Popen(  # noqa: S603 - our own argv
                _pytest(WAITING_PART), cwd=SOURCE, env=environment, stdout=file, stderr=subprocess.STDOUT
            )
            try:
                code, shown = _shown(_pytest(COMPUTING_PART), environment)
                other = waiting.wait()
            except BaseException:
                waiting.send_signal(signal.SIGINT)
                waiting.wait()
                raise
        output = told.read_text(errors="replace")
    sys.stdout.write(output)
    sys.stdout.write(summary_of([shown, output], time.monotonic() - began_s) + "\n")
    sys.stdout.flush()
    return next((each for each in (code, other) if each not in {0, NO_TESTS}), 0)


def _shown(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run and show; the exit status and what was shown."""
    kept: list[str] = []
    with subprocess.Popen(  # noqa: S603 - our own argv
        command, cwd=SOURCE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        for line in running.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            kept.append(line)
        return running.wait(), "".join(kept)


def main(arguments: list[str]) -> int:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "BERTH_DATA_DIR"}}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if not arguments and len(os.sched_getaffinity(0)) > 1:
        return _side_by_side(environment)
    command = _pytest(arguments_for(arguments))
    return subprocess.run(command, cwd=SOURCE, env=environment, check=False).returncode  # noqa: S603 - our own argv


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
