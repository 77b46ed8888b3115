"""Tiny packages for tests: wheels and source distributions written by hand, so that no network is needed."""

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


def source_write(directory: Path, name: str, *, setup: str) -> Path:
    """Write a source distribution whose `setup.py` is `setup`: pip runs it while it builds."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-1.0.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}-1.0/setup.py", setup)
        archive.writestr(f"{name}-1.0/PKG-INFO", f"Metadata-Version: 1.0\nName: {name}\nVersion: 1.0\n")
    return path
