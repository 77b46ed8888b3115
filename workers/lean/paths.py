"""Does what the shim needs of `pathlib.Path`, on Linux."""

from __future__ import annotations

import errno
import os
import stat

from workers.lean.library import loaded

TYPE_CHECKING = False  # as `typing` has it, which is one of what is not loaded
if TYPE_CHECKING:
    from typing import Any

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP})


def _tidy(text: str) -> str:
    """Leave out what says nothing: empty steps and those of one dot."""
    # POSIX lets exactly two slashes at the beginning mean something of their own.
    root = "" if text[:1] != "/" else "//" if text[:2] == "//" and text[2:3] != "/" else "/"
    return root + "/".join(step for step in text.split("/") if step not in {"", "."}) or "."


class Path:
    """A path. What it cannot do itself a real `pathlib.Path` does for it."""

    __slots__ = ("_text",)

    def __init__(self, *parts: str | os.PathLike[str]) -> None:
        self._text = _tidy(os.path.join("", *parts))  # noqa: PTH118 - `pathlib` is what this is about

    @classmethod
    def cwd(cls) -> Path:
        return cls(os.getcwd())  # noqa: PTH109 - and so below

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(loaded("pathlib").Path(self._text), name)

    def __fspath__(self) -> str:
        return self._text

    __str__ = __fspath__

    def __repr__(self) -> str:
        return f"PosixPath({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Path) else NotImplemented

    def __lt__(self, other: Path) -> bool:
        return self.parts < other.parts

    def __hash__(self) -> int:
        return hash(self._text)

    def __truediv__(self, step: str | os.PathLike[str]) -> Path:
        return Path(self._text, step)

    @property
    def parts(self) -> tuple[str, ...]:
        root = self._text[: len(self._text) - len(self._text.lstrip("/"))]
        steps = [step for step in self._text.split("/") if step not in {"", "."}]
        return ((root,) if root else ()) + tuple(steps)

    @property
    def name(self) -> str:
        parts = self.parts
        return "" if not parts or parts[-1].startswith("/") else parts[-1]

    @property
    def parent(self) -> Path:
        return Path(*self.parts[:-1]) if self.name else self

    @property
    def parents(self) -> tuple[Path, ...]:
        found, above = [], self
        while above.parent != above:
            above = above.parent
            found.append(above)
        return tuple(found)

    def with_name(self, name: str) -> Path:
        if not self.name or not name or "/" in name or name == ".":
            raise ValueError(f"{self!r} cannot be given the name {name!r}")
        return self.parent / name

    def is_relative_to(self, other: str | os.PathLike[str]) -> bool:
        above = Path(other).parts
        return self.parts[: len(above)] == above if above else not self._text.startswith("/")

    def resolve(self) -> Path:
        return Path(os.path.realpath(self))

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self._mode(os.stat if follow_symlinks else os.lstat) is not None

    def is_dir(self) -> bool:
        return stat.S_ISDIR(self._mode(os.stat) or 0)

    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self._mode(os.lstat) or 0)

    def _mode(self, ask: Any) -> int | None:
        """Return the mode; None when nothing is there. Raises OSError when that cannot be told, as `pathlib` does."""
        try:
            mode: int = ask(self).st_mode
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            return None
        except ValueError:  # a null character
            return None
        return mode

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self, follow_symlinks=follow_symlinks)  # noqa: PTH116

    def lstat(self) -> os.stat_result:
        return os.lstat(self)

    def read_bytes(self) -> bytes:
        with open(self, "rb") as file:  # noqa: PTH123
            return file.read()

    def read_text(self, encoding: str = "utf-8", errors: str | None = None) -> str:
        with open(self, encoding=encoding, errors=errors) as file:  # noqa: PTH123
            return file.read()

    def write_text(self, text: str, encoding: str = "utf-8", errors: str | None = None) -> int:
        with open(self, "w", encoding=encoding, errors=errors) as file:  # noqa: PTH123
            return file.write(text)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if parents:
            loaded("pathlib").Path(self._text).mkdir(mode, parents, exist_ok)
            return
        try:
            os.mkdir(self, mode)  # noqa: PTH102
        except OSError:
            if not exist_ok or not self.is_dir():
                raise

    def rmdir(self) -> None:
        os.rmdir(self)  # noqa: PTH106

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            os.unlink(self)  # noqa: PTH108
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target: str | os.PathLike[str]) -> Path:
        os.rename(self, target)  # noqa: PTH104
        return Path(target)

    def replace(self, target: str | os.PathLike[str]) -> Path:
        os.replace(self, target)  # noqa: PTH105
        return Path(target)

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        os.chmod(self, mode, follow_symlinks=follow_symlinks)  # noqa: PTH101
