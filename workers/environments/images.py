"""Container images of jobs: whether this node can run them, by Apptainer without any right of root."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ENGINE = "apptainer"
_ASK_S = 30.0
_SWITCHES = ("user/max_user_namespaces", "kernel/unprivileged_userns_clone")
"""Each may be absent; 0 means that an account may make no namespaces, and so no container."""


def engine_find(path: str | None, *, is_root: bool, switches: Path = Path("/proc/sys")) -> tuple[str | None, str]:
    """Return Apptainer's program, found on `path`; or None, with why not and the remedy."""
    if is_root:
        return None, (
            "images run without rights of root only, and this agent runs as root; start it under an account of its own"
        )
    engine = shutil.which(ENGINE, path=path)
    if engine is None:
        return None, "Apptainer was not found; install it (it needs no setuid program) and start the agent again"
    for name in _SWITCHES:
        if _says(switches / name) == "0":
            setting = name.replace("/", ".")
            return None, f"accounts may make no user namespaces here; set {setting} (sysctl) and start the agent again"
    try:
        subprocess.run([engine, "--version"], capture_output=True, check=True, timeout=_ASK_S)  # noqa: S603 - as found
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{engine} --version fails ({error}); mend it and start the agent again"
    return engine, ""


def _says(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # this kernel has no such switch
        return ""


def pull_step(engine: str, image: str, reference: str) -> list[str]:
    """Return the command that fetches an image from a registry into a file (apptainer-pull(1))."""
    return [engine, "pull", "--force", "--disable-cache", image, f"docker://{reference}"]
