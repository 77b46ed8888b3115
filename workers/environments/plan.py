"""A part's software and code: the plans that its build and its fetch follow, and the changes of its launch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.environments import build, fetch
from workers.environments.build import AWAY_REMEDY
from workers.environments.offer import ENGINE, Offer, pull_step
from workers.protocol.requirement_lines import LineError, requirement_lines
from workers.system.files import write_atomic, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping


FORMAT = 1
"""Part of each hash: raised when environments are built in another way."""


class PlanError(Exception):
    """The node cannot give the part its software. The text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`entry`: where it is built, below the offer's root; None: nothing is. `prefix`: whose `bin` leads the job's PATH.

    `image`: in which the job's command runs.
    """

    kind: str
    entry: Path | None
    prefix: Path | None
    content: Mapping[str, Any]
    image: Path | None = None


def environment_hash(text: str, offer: Offer, secrets: Mapping[str, str] | None = None) -> str:
    """Name an environment by all that decides what is in it: requirements, interpreter, platform, installer, index.

    `secrets`: those of its build by variable; their names count, not their values, which may be renewed.
    """
    about = {name: offer.about.get(name) for name in ("version", "implementation", "platform")}
    decided = [FORMAT, _lines(text), about, offer.python, offer.installer, offer.index]
    decided += [dict(secrets)] if secrets else []
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:32]


def _lines(text: str) -> list[str]:
    """Return the lines as every installer reads them, without comments: these do not change what is installed."""
    try:
        return requirement_lines(text)
    except LineError as error:
        raise PlanError(f"its requirements: {error}") from error


def software_plan(
    software: Mapping[str, str], offer: Offer, tenant: int | str, secrets: Mapping[str, str] | None = None
) -> Plan:
    """Return the plan for a job's one of `environment`, `path`, `requirements`. Raises PlanError.

    `secrets`: the variables among the job's that its build gets, with the secrets' names.
    """
    if (name := software.get("environment")) is not None:
        if name not in offer.named:
            raise PlanError(f"this node has no environment named {name}; its agent's --environments registers them")
        return _of_prefix(offer.named[name], f"The environment {name}")
    if (path := software.get("path")) is not None:
        if not path.startswith("/") or ".." in path.split("/"):
            raise PlanError(f"{path!r} is no absolute path without `..`")
        return _of_prefix(Path(path), f"The environment at {path}")
    if (text := software.get("requirements")) is not None:
        return _of_requirements(text, offer, tenant, secrets)
    if (reference := software.get("image")) is not None:
        return _of_image(reference, offer, tenant, secrets)
    raise PlanError("its software is of a kind that this node's agent does not know; upgrade the agent")


def _of_prefix(prefix: Path, name: str) -> Plan:
    return Plan("prefix", None, prefix, {"prefix": str(prefix), "name": name})


def _of_requirements(text: str, offer: Offer, tenant: int | str, secrets: Mapping[str, str] | None) -> Plan:
    if offer.installer is None:
        raise PlanError(offer.missing.get("build", "this node builds no environments"))
    entry = offer.root / f"tenant-{tenant}" / environment_hash(text, offer, secrets)
    venv = entry / "venv"
    content = {
        "entry": str(entry),
        "doing": f"Building the environment {entry.name} with {offer.installer} (Python {offer.about['version']}).",
        "installer": offer.installer,
        "made": str(venv / "bin" / "python"),
        "away": AWAY_REMEDY,
        "again_s": offer.limits.again_s,
        "environment": dict(offer.proxies),
        "steps": _steps(offer, venv),
        "text": "".join(f"{line}\n" for line in _lines(text)),
    }
    return Plan("requirements", entry, venv, content)


def _of_image(reference: str, offer: Offer, tenant: int | str, secrets: Mapping[str, str] | None) -> Plan:
    """Return how an image gets here: into a file of the tenant's, once for each reference."""
    if offer.engine is None:
        raise PlanError(offer.missing.get("image", "this node runs no images"))
    decided = [FORMAT, "image", reference, *([dict(secrets)] if secrets else [])]
    name = hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:32]
    entry = offer.root / f"tenant-{tenant}" / name
    image = entry / "image.sif"
    content = {
        "entry": str(entry),
        "doing": f"Fetching the image {reference}.",
        "installer": ENGINE,
        "made": str(image),
        "away": "This node could not reach the image's registry. Its operator can set a proxy (https_proxy) for the agent.",
        "again_s": offer.limits.again_s,
        "environment": dict(offer.proxies),
        "steps": [pull_step(offer.engine, str(image), reference)],
    }
    return Plan("requirements", entry, None, content, image)


def _steps(offer: Offer, venv: Path) -> list[list[str]]:
    """Return the commands; REQUIREMENTS stands for the file, which each part has for itself."""
    program, python = list(offer.program), str(venv / "bin" / "python")
    if offer.installer == "uv":
        made = [*program, "venv", "--no-config", "--quiet", "--python", offer.python, str(venv)]
        fill = [*program, "pip", "install", "--no-config", "--no-cache", "--python", python]
    else:
        made = [offer.python, "-I", "-m", "venv", "--without-pip", str(venv)]
        quiet = ["--isolated", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--retries", "2"]
        fill = [*program, "--python", python, *quiet, "install", "--progress-bar", "off"]
    return [made, [*fill, *offer.index, "-r", "REQUIREMENTS"]]


def plan_write(plan: Plan, room: Path) -> Path:
    """Write the plan and its files into the part's directory `room`; return the plan's file. Raises OSError."""
    room.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = {**plan.content, "kind": plan.kind, "why": str(room / "why")}
    if "text" in content:
        requirements = room / "requirements.txt"
        write_atomic(requirements, str(content.pop("text")).encode(), durable=False)
        steps = content["steps"]
        content["steps"] = [[str(requirements) if word == "REQUIREMENTS" else word for word in step] for step in steps]
    write_json(room / "plan.json", content, durable=False)
    return room / "plan.json"


def build_command(python: str, plan_file: Path) -> list[str]:
    return [python, "-I", "-S", str(Path(build.__file__).resolve()), str(plan_file)]


def fetch_stage(code: Mapping[str, Any], offer: Offer | None, *, room: Path, into: Path, python: str) -> dict[str, Any]:
    """Write the plan into the empty directory `room`; return the stage for `launch.json`. Raises PlanError, OSError."""
    if offer is None or offer.git is None:
        raise PlanError("this node has no git; ask its operator to install it")
    plan = {
        **code,
        "program": offer.git,
        "proxies": dict(offer.proxies),
        "into": str(into),
        "room": str(room),
        "why": str(room / "why"),
        "commit": str(room / "commit"),
    }
    write_json(room / "plan.json", plan, durable=False)
    return {
        "what": "its code",
        "argv": [python, "-I", "-S", str(Path(fetch.__file__).resolve()), str(room / "plan.json")],
        "limit_s": offer.limits.build_s,
        "disk_mib": offer.limits.one_gib * 1024,
        "entry": None,
        "why": plan["why"],
        "commit": plan["commit"],
    }
