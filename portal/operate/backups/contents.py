"""The files of the data directory that belong to a backup beside the database, and how they are put back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from django.conf import settings

from portal.foundation.environment import env
from portal.foundation.layout import Layout


class BackupError(Exception):
    """A sentence and its remedy; nothing was changed."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem} {remedy}".strip())


NAMES = ("launch.json", "operator.json", "demo-tokens.json", "demo-users.json")


def layout_here() -> Layout:
    return Layout.at(settings.DATA_DIR)


def secret_key_path() -> Path:
    return Path(env("BERTH_SECRET_KEY_FILE") or layout_here().secret_key)


def files_here() -> dict[str, Path]:
    """Return the files that are there, by their names in a backup: key, certificates, tokens of nodes and of the demo."""
    layout = layout_here()
    found = {"files/secret-key": secret_key_path()}
    found |= {f"files/{name}": layout.root / name for name in NAMES}
    for room, pattern in ((layout.tls, "*"), (layout.nodes, "*/node.json")):
        found |= {f"files/{path.relative_to(layout.root)}": path for path in sorted(room.glob(pattern))}
    return {name: path for name, path in found.items() if path.is_file() and not path.is_symlink()}


def file_put(name: str, source: Path, aside: Path) -> None:
    """Put a file of a backup into its place. The file that was there goes into `aside`."""
    relative = name.removeprefix("files/")
    target = secret_key_path() if relative == "secret-key" else layout_here().root / relative
    if target.exists() or target.is_symlink():
        kept = aside / relative
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy2(target, kept, follow_symlinks=False)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(source, temporary)
    temporary.chmod(0o600)
    temporary.replace(target)
