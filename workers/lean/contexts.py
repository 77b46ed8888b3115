"""Does what the shim needs of `contextlib`."""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which is one of what is not loaded
if TYPE_CHECKING:
    from types import TracebackType


class suppress:  # noqa: N801 - the library's name
    """Ignore these exceptions in a block. Groups of exceptions are not looked into: nothing of the shim's raises one."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return kind is not None and issubclass(kind, self._kinds)
