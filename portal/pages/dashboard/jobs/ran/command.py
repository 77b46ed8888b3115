"""The line of `berth submit` that makes the same job, in a folder with its files."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from portal.work.jobs.declaration.table import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_CHARS = 16_000
SECONDS = frozenset({"time_limit_s", "idle_timeout_s", "grace_s", "expected_duration_s"})
PAIRS = {"environment": "--env", "secrets": "--secret", "labels": "--label"}
EACH = {"gpu_types": "--gpu-type", "artefacts": "--artefacts", "log_matches": "--log-match"}
SOFTWARE = {"image": "--image", "environment": "--environment", "path": "--environment-path"}
CODE = {"git": "--git", "ref": "--ref", "secret": "--git-secret", "path": "--code-path"}


def submit_line(description: Mapping[str, Any]) -> str | None:
    """Return the line for a shell; None where it would be too long to paste.

    A field without an option, or with a value that its option does not take, goes into `--set`.
    """
    words = ["berth", "submit"]
    for name, value in description.items():
        if value is not None and name != "command":
            words += _options(name, value, description)
    line = shlex.join([*words, "--", str(description.get("command", ""))])
    return line if len(line) <= MOST_CHARS else None


def _options(name: str, value: Any, description: Mapping[str, Any]) -> list[str]:
    found = _of_several(name, value, description)
    if found is None:
        found = _of_one(name, value)
    return [f"--set={name}={json.dumps(value, ensure_ascii=False)}"] if found is None else found


def _of_several(name: str, value: Any, description: Mapping[str, Any]) -> list[str] | None:
    """Return the options of a field that stands for several values; None: `--set` says it."""
    if name in PAIRS and isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        plain = name == "labels" or all(value.values())  # the others take no empty value
        return [f"{PAIRS[name]}={key}={each}" for key, each in value.items()] if plain and _keys_fit(value) else None
    if name in EACH and isinstance(value, list):
        return [f"{EACH[name]}={each}" for each in value]
    if name == "files" and isinstance(value, dict):
        return _files(value)
    if name == "software" and isinstance(value, dict):
        return _software(value, description.get("files") or {})
    if name == "code" and isinstance(value, dict):
        return _code(value)
    return None


def _keys_fit(pairs: Mapping[str, Any]) -> bool:
    return all(key and "=" not in key for key in pairs)


def _files(files: Mapping[str, Any]) -> list[str] | None:
    if any(":" in name for name in files):
        return None
    return [f"--file={name}:{name}" if "/" in name else f"--file={name}" for name in files]


def _software(software: Mapping[str, Any], files: Mapping[str, Any]) -> list[str] | None:
    if "requirements" in software:
        same = next((name for name, text in files.items() if text == software["requirements"]), None)
        return [f"--requirements={same}"] if same else None
    given = {kind: each for kind, each in software.items() if each is not None}
    return [f"{SOFTWARE[kind]}={each}" for kind, each in given.items()] if given.keys() <= SOFTWARE.keys() else None


def _code(code: Mapping[str, Any]) -> list[str] | None:
    given = {name: each for name, each in code.items() if each}
    if not given.keys() <= {*CODE, "submodules"}:
        return None
    found = [f"{CODE[name]}={each}" for name, each in given.items() if name in CODE]
    return found + (["--submodules"] if given.get("submodules") is True else [])


def _of_one(name: str, value: Any) -> list[str] | None:
    """Return the option of a field with one value; None: it has none, or none that takes this value."""
    flag = BY_NAME[name].flag if name in BY_NAME else None
    if flag is None:
        return None
    if isinstance(value, bool):
        return [flag.name] if value and not flag.metavar else None
    text = next(_text(name, value), None)
    return None if text is None else [f"{flag.name}={text}"]


def _text(name: str, value: Any) -> Iterator[str]:
    kind, whole = BY_NAME[name].kind, isinstance(value, int)
    if name == "gpus":
        yield from _gpus(value)
    elif name == "array":
        if isinstance(value, dict) and value.keys() <= {"size", "concurrency"} and all(value.values()):
            yield "%".join(str(value[key]) for key in ("size", "concurrency") if key in value)
    elif name.endswith("_mib") and whole:
        yield f"{value}M"
    elif name == "disk_gib" and whole:
        yield f"{value}G"
    elif (name in SECONDS or kind in {"whole", "number"} or name in {"learning_rate", "gpu_compute"}) and whole:
        yield str(value)
    elif kind == "number" and name not in {*SECONDS, "disk_gib"} and isinstance(value, float):
        yield repr(value)
    elif (kind in {"text", "choice"} or name == "working_directory") and isinstance(value, str):
        yield value


def _gpus(value: Any) -> Iterator[str]:
    if isinstance(value, int):
        yield str(value)
    elif isinstance(value, list) and len(value) > 1 and all(isinstance(each, int) for each in value):
        yield ",".join(map(str, value))
    elif isinstance(value, dict) and value.keys() == {"min", "max"}:
        yield f"{value['min']}-{value['max']}"
