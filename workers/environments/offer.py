"""The node's software for jobs: found once at the agent's start, and sent to the portal with the inventory.

It runs container images by Apptainer, without any right of root.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from workers.protocol.inventory import SoftwareOffer

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


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_ASK = """
import importlib.util as u, json, platform, sys, sysconfig
print(json.dumps({"version": platform.python_version(), "implementation": sys.implementation.cache_tag,
 "platform": sysconfig.get_platform() + "-" + "-".join(platform.libc_ver()), "venv": u.find_spec("venv") is not None,
 "pip": u.find_spec("pip") is not None}))
"""


class OfferError(Exception):
    """A setting about environments is wrong; the text names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of environments: seconds and GiB to build one, GiB of all, days unused; seconds until another try."""

    build_s: float = 600.0
    one_gib: float = 20.0
    all_gib: float = 50.0
    keep_days: float = 14.0
    again_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Offer:
    """The node's abilities. `root`: directory of environments. `installer`: "uv" or "pip", with its `program`; None: none.

    `engine`: the program that runs images, `git`: the one that fetches repositories; None: none does.
    """

    root: Path
    python: str = sys.executable
    about: Mapping[str, Any] = field(default_factory=dict)
    installer: str | None = None
    program: tuple[str, ...] = ()
    engine: str | None = None
    git: str | None = None
    named: Mapping[str, Path] = field(default_factory=dict)
    index: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)  # kind that is not offered -> why, and the remedy
    proxies: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def to_wire(self) -> SoftwareOffer:
        return {
            "python": str(self.about.get("version", "")),
            "installer": self.installer,
            "images": ENGINE if self.engine else None,
            "git": self.git is not None,
            "environments": sorted(self.named),
            "missing": dict(self.missing),
        }


def named_parse(text: str) -> dict[str, Path]:
    """Read `torch=/opt/torch,jax=/opt/jax`. Raises OfferError."""
    found: dict[str, Path] = {}
    for item in filter(None, (each.strip() for each in text.split(","))):
        name, _, path = item.partition("=")
        if not NAME.match(name):
            raise OfferError(f"--environments: {name!r} is no name; use letters, digits and ._-, at most 63")
        if not path.startswith("/"):
            raise OfferError(f"--environments: {name} needs an absolute directory, as in {name}=/opt/{name}")
        if name in found:
            raise OfferError(f"--environments: {name} is there twice")
        found[name] = Path(path)
    return found


def offer_with(offer: Offer, wanted: Mapping[str, str], *, closed: Collection[Path] = ()) -> Offer:
    """Return the offer with the environments that operators named for all nodes, name -> directory; its own names win.

    `closed`: directories that no job may see, in which, and above which, no environment may lie. Looks at the disk.
    """
    named, missing = dict(offer.named), dict(offer.missing)
    for name, directory in wanted.items():
        if name in named or f"environment:{name}" in missing:
            continue
        path = Path(directory)
        if not NAME.match(name) or not path.is_absolute() or ".." in path.parts:
            missing[f"environment:{name}"] = "its name or directory is none; mend it in the console"
            continue
        real = path.resolve()
        if any(real.is_relative_to(shut) or shut.is_relative_to(real) for shut in closed):
            missing[f"environment:{name}"] = f"{path} is above or in a directory that is closed to jobs; use another"
        elif (path / "bin" / "python").exists():
            named[name] = path
        else:
            missing[f"environment:{name}"] = f"{path} has no bin/python; make it here, and it is found within a minute"
    return replace(offer, named=named, missing=missing)


def index_options(index: str | None, wheels: Path | None) -> tuple[str, ...]:
    """Return the options that pip and uv both know. With wheels and no index nothing else is asked."""
    options = ["--find-links", str(wheels)] if wheels else []
    if index:
        return ("--index-url", index, *options)
    return ("--no-index", *options) if wheels else ()


def offer_find(
    root: Path,
    *,
    named: str = "",
    python: Path | None = None,
    index: str | None = None,
    wheels: Path | None = None,
    limits: Limits | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Offer:
    """Look at this machine. Raises OfferError for a wrong setting; absent software stands in `missing`."""
    chosen = str(python or getattr(sys, "_base_executable", None) or sys.executable)
    about = _about(chosen)
    missing: dict[str, str] = {}
    installer, program = _installer(chosen, about, environ)
    if not about:
        missing["build"] = f"{chosen} does not run; name a Python with the agent's --environments-python"
    elif installer is None:
        missing["build"] = "neither uv nor pip was found; install one (`pip install uv`) and start the agent again"
    engine, no_engine = engine_find(environ.get("PATH"), is_root=os.geteuid() == 0)
    missing |= {"image": no_engine} if no_engine else {}
    git = shutil.which("git", path=environ.get("PATH"))
    if git is None:
        missing["git"] = "git was not found; install it and start the agent again"
    found, environments = {}, named_parse(named)
    for name, path in environments.items():
        if (path / "bin" / "python").exists():
            found[name] = path
        else:
            missing[f"environment:{name}"] = f"{path} has no bin/python; mend it and start the agent again"
    return Offer(
        root=root,
        python=chosen,
        about=about,
        installer=installer if about else None,
        program=program,
        engine=engine,
        git=git,
        named=found,
        index=index_options(index, wheels),
        missing=missing,
        proxies={name: environ[name] for name in PROXIES if name in environ},
        limits=limits or Limits(),
    )


def _about(python: str) -> dict[str, Any]:
    """Ask a Python for its version, platform and modules; {} when it does not answer."""
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own Python
            [python, "-I", "-c", _ASK], capture_output=True, check=True, timeout=_ASK_S
        )
        return dict(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


def _installer(python: str, about: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Return uv if there is one; else the pip of that Python, or the agent's own."""
    if uv := shutil.which("uv", path=environ.get("PATH")):
        return "uv", (uv,)
    if not about.get("venv"):
        return None, ()
    if about.get("pip"):
        return "pip", (python, "-I", "-m", "pip")
    if _about(sys.executable).get("pip"):
        return "pip", (sys.executable, "-I", "-m", "pip")
    return None, ()
