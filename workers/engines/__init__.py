"""The interface of an execution engine. Each engine has a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from workers.controls.usage import Usage
    from workers.system.procs import Identity

Life = Literal["absent", "void", "alive", "ended", "lost"]


class Engine(Protocol):
    """Runs parts whose control directory is prepared. All answers are read from that directory, so any agent may ask.

    A file there that is not as it was written is renamed and reported; it counts as missing.
    """

    def start(self, directory: Path, secrets: bytes = b"", network: int | None = None) -> None:
        """Start the part with its secrets, as the portal sent them; b"": it has none. Calling it again does no harm.

        `network`: a descriptor of the namespace that the part lives in; None: the agent's.
        """

    def life(self, directory: Path) -> Life:
        """Return the part's state.

        `absent`: not started. `void`: it never will be. `alive`: its shim runs. `ended`: the shim left a result. `lost`: the
        shim is gone and left none.
        """

    def shim(self, directory: Path) -> Identity | None:
        """Return the process that watches the part, alive or not; None before it has started."""

    def pid(self, directory: Path) -> int | None:
        """Return the pid of the command's first process; None before it runs."""

    def job(self, directory: Path) -> dict[str, Any] | None:
        """Return the shim's record of the command: `pid, started_at`, and the identities of its log files (`logs`)."""

    def stop(self, directory: Path, *, grace_s: float, detail: str) -> None:
        """Send SIGTERM now and SIGKILL after `grace_s`. 0 kills at once."""

    def lease(self, directory: Path, *, until: float) -> None:
        """Let the part run until `until` (seconds since boot)."""

    def limit(self, directory: Path, *, limit_s: float) -> None:
        """Let the part run for `limit_s` seconds from its start; never fewer than before. Raises OSError."""

    def terminal(self, directory: Path, tty: str, end: str, command: str | None = None, *, plain: bool = False) -> None:
        """Order a shell, or `command`, on this terminal inside the running part. One order at a time. Raises OSError.

        `end`: the pipe in `directory` that gets its exit code. `plain`: nobody types, so it reads from /dev/null.
        """

    def terminal_taken(self, directory: Path) -> bool:
        """Say whether the part has opened the terminal of the last order, or has refused it."""

    def terminal_forget(self, directory: Path) -> None:
        """Take back an order that nobody follows. Raises OSError."""

    def cores(self, directory: Path, cores: list[int], *, sequence: int, share: float = 1.0) -> None:
        """Order the part onto these declared cores, held back to a share of its present use; 1: not held back.

        Calling it again does no harm. Raises OSError.
        """

    def cores_held(self, directory: Path) -> dict[str, Any] | None:
        """Return the last order that holds, `sequence, cores, settled, by`; None before the first.

        `settled` false: the job kept binding itself elsewhere. `by`: the kernel's means, `cpuset2`, `cpuset1`, `affinity`.
        """

    def result(self, directory: Path) -> dict[str, Any] | None:
        """Return how it ended: `reason, detail, exit_code, signal, pid, ended_at`; None before that."""

    def usage(self, directory: Path) -> Usage | None:
        """Return the part's present usage."""

    def void(self, directory: Path) -> bool:
        """Close the directory of a part that has not started, so that it never will; False when it has started."""

    def purge(self, directory: Path, *, mark: str) -> int:
        """Kill what a lost part left behind; return how many processes. `mark`: one of the ways to recognise them."""

    def abandon(self, directory: Path) -> int:
        """End all processes of a part of which only the directory is known; return how many were killed."""

    def last_words(self, directory: Path) -> str:
        """Return the last output of a shim that did not start."""

    def reap(self) -> None:
        """Collect ended children."""
