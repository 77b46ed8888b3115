"""What an execution engine does for the agent: one file an engine, one protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from workers.controls.usage import Usage
    from workers.system.procs import Identity

Life = Literal["absent", "void", "alive", "ended", "lost"]


class Engine(Protocol):
    """Runs a part whose control directory is prepared. Every answer is read from it, so any agent may ask.

    What is there and is not what was written is kept aside and reported; it counts as missing.
    """

    def start(self, directory: Path) -> None:
        """Start the part; harmless when it has been started before."""

    def life(self, directory: Path) -> Life:
        """Where it stands.

        `absent`: not started; `void`: never will be; `alive`; `ended`: with a result; `lost`: gone without one.
        """

    def shim(self, directory: Path) -> Identity | None:
        """The process that looks after the part, alive or not; None before it has come up."""

    def pid(self, directory: Path) -> int | None:
        """The command's first process; None before it runs."""

    def job(self, directory: Path) -> dict[str, Any] | None:
        """What the shim noted of the command: `pid, started_at`, and by which files its log is known (`logs`)."""

    def stop(self, directory: Path, *, grace_s: float, detail: str) -> None:
        """SIGTERM now, SIGKILL after `grace_s`; 0 kills at once."""

    def lease(self, directory: Path, *, until: float) -> None:
        """The part may run until `until` (seconds since boot)."""

    def result(self, directory: Path) -> dict[str, Any] | None:
        """How it ended: `reason, detail, exit_code, signal, pid, ended_at`."""

    def usage(self, directory: Path) -> Usage | None:
        """What it uses now."""

    def void(self, directory: Path) -> bool:
        """Close a directory in which nothing has started yet; False when something has."""

    def purge(self, directory: Path, *, mark: str) -> int:
        """Kill what a lost part left behind, known by its mark among others; return how many processes that were."""

    def abandon(self, directory: Path) -> int:
        """End all of a part that nothing is known of but its directory; return how many processes were killed."""

    def last_words(self, directory: Path) -> str:
        """What a shim that did not come up said."""

    def reap(self) -> None:
        """Collect ended children."""
