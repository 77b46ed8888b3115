"""Tells Berth how long the iterations of a training take. One file, standard library only. Without Berth it does nothing.

    import os, sys
    sys.path.append(os.environ.get("BERTH_INSTRUMENT_PATH", "."))
    from berth_instrument import Recorder

    recorder = Recorder(batch_per_gpu=64, total=1_000_000, done=samples_in_the_checkpoint, parameters=11_000_000)
    while training:
        with recorder.time("data"):      # data, forward, backward, update, communication, wait: those you can time
            batch = next(loader)
        ...
        recorder.step()                  # an iteration is over
        if recorder.should_stop():       # Berth asked the job to end: SIGTERM came
            save()
            recorder.saved()             # the samples so far are in a checkpoint
            break

On each node one process records (LOCAL_RANK 0). A record is a line of JSON: sums since the last record, and up to ROWS
iterations chosen at random. It is written each second at first, and when the job's cores changed (BERTH_CORES_FILE), each half
minute later; no record spans such a change by more than a second. Records lie in BERTH_RECORDS_DIR in
segments of SEGMENT_BYTES; the last two segments are kept. A recorder never stops a training: when it cannot write, it says
so once on stderr and records no more.

A server that answers queries calls `recorder.query(seconds)` after each in place of step(), from any thread.

PyTorch, Hugging Face and Lightning: berth_torch, berth_transformers and berth_lightning do these calls by themselves.

There are two modes (Hops 3.2). While a job runs, its rows hold the parts that change from run to run: data, communication,
wait and the whole time. In the first minute of a job on one GPU they hold every part. With BERTH_PROFILE=1 Berth only
measures, in a scratch directory: rows hold every part, and when enough iterations are timed (PROFILE_MOST, or
PROFILE_LEAST after PROFILE_ENOUGH_S) step() ends the program by SystemExit with code 0.
"""

from __future__ import annotations

import atexit
import bisect
import json
import os
import random
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PARTS = ("data", "forward", "backward", "update", "communication", "wait")
"""The parts of an iteration that may be timed, in the order of a row. The whole time comes last in a row."""

RUNNING_PARTS = frozenset({"data", "communication", "wait"})
"""The parts in the rows of a running job. They vary, or depend on where it runs, so they are recorded all the time."""
FIRST_S = 60.0
"""How long the rows of a job on one GPU hold all parts. This replaces a profile when no GPU was idle for one."""
PROFILE_LEAST, PROFILE_MOST, PROFILE_ENOUGH_S = 10, 50, 20.0
"""How many iterations a profile times: PROFILE_MOST, but after PROFILE_ENOUGH_S seconds PROFILE_LEAST are enough."""

SEGMENT_BYTES = 1024 * 1024
SEGMENTS_KEPT = 2
ROWS = 16
WARM_UP = 2
"""The first iterations of a process are counted but not timed, because caches fill and kernels are compiled in them."""
PERIODS_S = ((60.0, 1.0), (600.0, 5.0), (float("inf"), 30.0))
"""(time since the recorder began, or the number of cores changed; up to this: seconds between two records)."""
QUERY_EDGES_MS = (1, 2, 5, 10, 20, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 2000, 5000, 10000)
"""Queries are counted by how long they took: up to each of these, and longer than the last."""
SLO_MS = 150.0
"""A query that took longer is late, unless BERTH_SLO_MS says otherwise."""
LOOK_S = 1.0
"""How often it is looked whether the number of cores changed."""


class Recorder:
    """Counts samples and times iterations. `total`: samples of the whole job; `done`: those of earlier attempts.

    `gpus`: processes that take part (default: BERTH_GPUS_TOTAL). `parameters`: how many the model has.
    """

    def __init__(
        self,
        *,
        batch_per_gpu: int | None = None,
        total: float | None = None,
        done: float = 0.0,
        parameters: int | None = None,
        gpus: int | None = None,
    ) -> None:
        environment = os.environ.get
        self.batch_per_gpu = batch_per_gpu or int(environment("BERTH_BATCH_PER_GPU") or 1)
        self.total, self.done, self.parameters = total, float(done), parameters
        self.learning_rate = float(environment("BERTH_LEARNING_RATE") or 0.0) or None
        """By the job's own rule, for the number of GPUs that it has now. None = the job names none."""
        self.gpus = gpus or int(environment("BERTH_GPUS_TOTAL") or 1) or 1
        directory = environment("BERTH_RECORDS_DIR")
        self.profiling = environment("BERTH_PROFILE") == "1"
        self._directory = Path(directory) if directory and environment("LOCAL_RANK", "0") == "0" else None
        self._random = random.Random()  # noqa: S311 - of its own, so that the training's seed is untouched
        self._times: dict[str, float] = {}
        self._steps, self._timed, self._news = 0, 0, False
        self._saved: float | None = None
        self._asked, self._listens = False, False
        self._slo_s = float(environment("BERTH_SLO_MS") or SLO_MS) / 1000
        self._many = threading.Lock()
        self._iterations: int = 0
        self._samples: float = 0.0
        self._seconds: float = 0.0
        self._began = self._stepped = self._written = self._paced = self._looked = time.monotonic()
        cores_file = environment("BERTH_CORES_FILE")
        self._cores_file = Path(cores_file) if cores_file else None
        self._cores_since = self._cores_changed()
        self._clear()
        if self._directory is not None:
            atexit.register(self.close)

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        """Time a part of the iteration. On a GPU synchronise first; else only the launch of the work is timed."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(part, time.monotonic() - began)

    def add(self, part: str, seconds: float) -> None:
        """Add a time that you measured yourself. Raises ValueError when `part` is not one of PARTS."""
        if part not in PARTS:
            raise ValueError(f"{part!r} is no part of an iteration; one of {', '.join(PARTS)}")
        self._times[part] = self._times.get(part, 0.0) + seconds

    def step(self, samples: float | None = None) -> None:
        """End an iteration. `samples`: over all GPUs (default: batch_per_gpu * gpus).

        In a profile, raises SystemExit(0) after the last iteration that is needed.
        """
        now = time.monotonic()
        samples = self.batch_per_gpu * self.gpus if samples is None else samples
        self.done += samples
        self._steps, self._news = self._steps + 1, True
        if self._steps > WARM_UP:
            self._keep(samples, now - self._stepped)
        self._times.clear()
        self._stepped = now
        full = self.profiling and len(self._rows) == ROWS
        if self._directory is not None and (self._has_other_cores(now) or full or self._is_due(now)):
            self._write(now)
        enough = PROFILE_LEAST if now - self._began >= PROFILE_ENOUGH_S else PROFILE_MOST
        if self.profiling and self._timed >= enough:
            self.close()
            print(f"berth_instrument: {self._timed} iterations profiled, that is enough")  # noqa: T201
            raise SystemExit(0)

    def query(self, seconds: float) -> None:
        """Record a query with its latency in seconds. Any thread may call it.

        It counts as one sample that took this time, so the speed is that of answering, however seldom somebody asks.
        """
        with self._many:
            now = time.monotonic()
            self.done += 1
            self._steps, self._news = self._steps + 1, True
            self._iterations, self._samples, self._seconds = (
                self._iterations + 1,
                self._samples + 1,
                self._seconds + seconds,
            )
            self._queries[bisect.bisect_left(QUERY_EDGES_MS, 1000 * seconds)] += 1
            self._late += seconds > self._slo_s
            if self._directory is not None and self._is_due(now):
                self._write(now)

    @property
    def wants_parts(self) -> bool:
        """Whether the rows hold every part now. Only then is it worth synchronising a GPU before a part ends."""
        return self.profiling or (self.gpus == 1 and time.monotonic() - self._began <= FIRST_S)

    def should_stop(self) -> bool:
        """Tell whether Berth has asked the job to end; to be called between iterations.

        From the first call on SIGTERM does not end this process any more, so go on calling: after the job's grace (30 s,
        if it names none) comes SIGKILL. A handler that was there before is called as well.
        """
        if not self._listens:
            self._listens = True
            self._listen()
        return self._asked

    def _listen(self) -> None:
        try:
            before = signal.getsignal(signal.SIGTERM)

            def asked(number: int, frame: FrameType | None) -> None:
                self._asked = True
                if callable(before):
                    before(number, frame)

            signal.signal(signal.SIGTERM, asked)
        except ValueError as error:  # not in the main thread
            print(f"berth_instrument: SIGTERM cannot be heard here: {error}", file=sys.stderr)  # noqa: T201

    def saved(self, done: float | None = None) -> None:
        """Tell that a checkpoint holds everything up to `done` samples (default: all that is done so far).

        Berth then knows, and shows, how much of the work a stop has cost.
        """
        self._saved = self.done if done is None else float(done)
        self._news = True
        if self._directory is not None:
            self._write(time.monotonic())

    def close(self) -> None:
        """Write what is left. At the program's exit this happens by itself."""
        if self._directory is not None and self._news:
            self._write(time.monotonic())

    def _is_due(self, now: float) -> bool:
        return now - self._written >= next(period for until, period in PERIODS_S if now - self._paced <= until)

    def _cores_changed(self) -> int | None:
        """When the file with the number of cores was written, in ns; None where there is none."""
        try:
            return self._cores_file.stat().st_mtime_ns if self._cores_file else None
        except OSError:
            return None

    def _has_other_cores(self, now: float) -> bool:
        """Whether the number of cores changed. The next rows belong to the new number, and core tuning waits for them."""
        if now - self._looked < LOOK_S:
            return False
        self._looked, before = now, self._cores_since
        self._cores_since = self._cores_changed()
        if self._cores_since != before:
            self._paced = now
        return self._cores_since != before

    def _keep(self, samples: float, total_s: float) -> None:
        """Add the iteration to the sums, and by chance to the rows: each iteration with the same probability."""
        self._iterations, self._timed = self._iterations + 1, self._timed + 1
        self._samples += samples
        self._seconds += total_s
        kept = PARTS if self.wants_parts else RUNNING_PARTS
        row = [*(self._times.get(part) if part in kept else None for part in PARTS), total_s]
        place = self._random.randrange(self._iterations)
        if len(self._rows) < ROWS:
            self._rows.append(row)
        elif place < ROWS:
            self._rows[place] = row

    def _clear(self) -> None:
        self._iterations, self._samples, self._seconds = 0, 0.0, 0.0
        self._rows: list[list[float | None]] = []
        self._queries, self._late = [0] * (len(QUERY_EDGES_MS) + 1), 0

    def _write(self, now: float) -> None:
        record: dict[str, object] = {
            "iterations": self._iterations,
            "samples": self._samples,
            "seconds": round(self._seconds, 6),
            "done": self.done,
            "total": self.total,
            "saved": self._saved,
            "batch": self.batch_per_gpu,
            "world": self.gpus,
            "parameters": self.parameters,
            "rows": [[None if each is None else round(each, 7) for each in row] for row in self._rows],
        }
        if any(self._queries):
            record.update(queries=self._queries, late=self._late)
        self._written, self._news = now, False
        self._clear()
        try:
            self._append((json.dumps(record) + "\n").encode())
        except OSError as error:
            self._directory = None
            print(f"berth_instrument: timings are recorded no more: {error}", file=sys.stderr)  # noqa: T201

    def _append(self, line: bytes) -> None:
        """Append to the newest segment, or to a new one when it is full."""
        directory = self._directory or Path()
        numbers = sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())
        newest = numbers[-1] if numbers else 0
        path = directory / str(newest)
        if path.exists() and path.stat().st_size + len(line) > SEGMENT_BYTES:
            path = directory / str(newest + 1)
            for number in numbers[: 1 - SEGMENTS_KEPT]:
                (directory / str(number)).unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
