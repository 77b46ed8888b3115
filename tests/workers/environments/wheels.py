"""Tiny packages for tests: wheels written by hand, so that no network is needed."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def wheel_write(directory: Path, name: str = "tinypack", version: str = "1.0", *, code: str = "") -> Path:
    """Write a wheel whose module of the same name has `VERSION`, and what `code` says."""
    directory.mkdir(parents=True, exist_ok=True)
    about = f"{name}-{version}.dist-info"
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n{code}\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: berth\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    return path
