"""The software that a job wants beside its node's own: its check, the need for a node's offer, and its words.

Normal form: {} or one of {"environment": name}, {"path": directory}, {"requirements": text}, {"image": reference}.
"""

from __future__ import annotations

import base64
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from portal.foundation import checks
from portal.foundation.errors import BerthError
from workers.protocol.requirement_lines import LineError, is_option, requirement_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

KINDS = ("environment", "path", "requirements", "requirements_file", "image")
MAX_REQUIREMENTS_BYTES = 64 * 1024
MAX_REQUIREMENTS = 1000
MAX_PATH_CHARS = 1024
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
BUILD, IMAGE, GIT = "build", "image", "git"
IMAGE_PATTERN = (
    r"^[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9._-]+)+(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$"
)
MAX_IMAGE_CHARS = 400
INDEX_SECRET, REGISTRY_SECRET = "secrets` as `PIP_INDEX_URL", "secrets` as `APPTAINER_DOCKER_PASSWORD"
"""Where a secret of an index or a registry stands instead of in a URL."""
_NAME = re.compile(NAME_PATTERN.replace("$", r"\Z"))
_IMAGE = re.compile(IMAGE_PATTERN.replace("$", r"\Z"))


def software_check(value: object, files: Mapping[str, str], *, upload: bool = False) -> dict[str, str]:
    """Return the normal form. `files`: the job's, base64, in which `requirements_file` is looked up. Raises BerthError.

    With an `upload` a file that is not among them stays {"requirements_file": path}, until it is known whose upload it is.
    """
    found = {name: each for name, each in checks.mapping(value, "software", max_items=8).items() if each is not None}
    checks.known_keys(found, "software", required=set(), optional=set(KINDS))
    if not found:
        return {}
    if len(found) > 1:
        detail = f"`software` names {' and '.join(sorted(found))}; give one of {', '.join(KINDS)}."
        raise BerthError("conflict", detail, field="software")
    ((kind, given),) = found.items()
    field = f"software.{kind}"
    if kind == "environment":
        return {kind: _name(given, field)}
    if kind == "path":
        return {kind: _path(given, field)}
    if kind == "image":
        return {kind: _image(given, field)}
    if kind == "requirements":
        return {kind: _requirements(given, field)}
    name = checks.text(given, field, max_chars=MAX_PATH_CHARS)
    if upload and name not in files:
        return {kind: name}
    return file_requirements(_from_files(name, files, field), field)


def file_requirements(text: str, field: str = "software.requirements_file") -> dict[str, str]:
    """Return the normal form of a requirements file; one that names no package is the node's own software."""
    return {"requirements": _requirements(text, field)} if _lines(text, field) else {}


def _name(given: object, field: str) -> str:
    name = checks.text(given, field, max_chars=63)
    if not _NAME.match(name):
        detail = f"{checks.quoted(name)} is no name of an environment: 1 to 63 letters, digits and `._-`."
        raise BerthError("bad_name", detail, field=field)
    return name


def _path(given: object, field: str) -> str:
    path = checks.text(given, field, max_chars=MAX_PATH_CHARS)
    if not path.startswith("/") or ".." in path.split("/") or ":" in path:
        detail = "Give the absolute directory of a virtual or conda environment on the nodes, without `..` and `:`."
        raise BerthError("path_escape", detail, field=field)
    return path.rstrip("/") or "/"


def _image(given: object, field: str) -> str:
    """Return the reference, whole: without the registry's name it would mean another image on each node."""
    image = checks.text(given, field, max_chars=MAX_IMAGE_CHARS)
    checks.credentials_refuse(image if "://" in image else f"docker://{image}", field, named=REGISTRY_SECRET)
    registry = image.partition("/")[0]
    if not _IMAGE.match(image) or not ("." in registry or ":" in registry or registry == "localhost"):
        detail = f"{checks.quoted(image)} is no image with its registry; write it as docker.io/pytorch/pytorch:2.4.0."
        raise BerthError("bad_image", detail, field=field)
    return image


def image_check(software: Mapping[str, str], *, tenant: str, allowed: str) -> None:
    """Refuse an image that the tenant may not use. `allowed`: a pattern a line, `*` for any characters. Raises BerthError."""
    image = software.get("image")
    if image is None or image_allowed(image, allowed):
        return
    patterns = _patterns(allowed)
    known = f"It may use: {', '.join(patterns[:5])}." if patterns else "None is allowed yet."
    detail = f"Tenant {tenant} may not use the image {image}. {known} An operator can allow more."
    raise BerthError("image_not_allowed", detail, field="software")


def image_allowed(image: str, allowed: str) -> bool:
    """Say whether one of the patterns is the image's. `allowed`: as in `image_check`."""
    return any(fnmatchcase(image, re.sub(r"([\[?])", r"[\1]", pattern)) for pattern in _patterns(allowed))


def _patterns(allowed: str) -> list[str]:
    return [line.strip() for line in checks.lines_of(allowed) if line.strip()]


def file_missing(name: str, field: str = "software.requirements_file") -> BerthError:
    detail = f"There is no file {checks.quoted(name)} among the job's files; add it, or give `requirements` as text."
    return BerthError("unknown_file", detail, field=field)


def _from_files(name: str, files: Mapping[str, str], field: str) -> str:
    if name not in files:
        raise file_missing(name, field)
    try:
        return base64.b64decode(files[name]).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BerthError(
            "not_text", f"The file {checks.quoted(name)} is not UTF-8 text; save it as that.", field=field
        ) from None


def _lines(text: str, field: str) -> list[str]:
    """Return the lines that say something. Raises BerthError."""
    checks.text_safe(text, field)
    if len(text.encode()) > MAX_REQUIREMENTS_BYTES:
        raise BerthError("too_long", "Requirements are at most 64 KiB of text.", field=field)
    checks.credentials_refuse(text, field, named=INDEX_SECRET)
    try:
        return requirement_lines(text)
    except LineError as error:
        raise BerthError(error.code, f"`{field}`: {error}", field=field) from None


def _requirements(given: object, field: str) -> str:
    """Return the text. A line that points to another file is refused: the hash that names the environment would miss it."""
    if not isinstance(given, str):
        raise checks.wrong_type(given, field, "text, a line for each package")
    lines = _lines(given, field)
    packages = sum(not is_option(line) for line in lines)
    if not packages:
        raise BerthError(
            "blank", "The requirements name no package; leave `software` out for the node's own.", field=field
        )
    if packages > MAX_REQUIREMENTS or len(lines) > MAX_REQUIREMENTS * 2:
        detail = f"These are {packages} requirements; at most {MAX_REQUIREMENTS} are installed for a job."
        raise BerthError("too_long", detail, field=field)
    return given.removeprefix("\ufeff").replace("\r\n", "\n")


def software_need(software: Mapping[str, str], *, git: bool = False) -> str:
    """Return the need, as `node_offers` names it; "" = nothing that a node reports. `git`: it fetches a repository."""
    return "+".join(filter(None, (_software_need(software), GIT if git else "")))


def _software_need(software: Mapping[str, str]) -> str:
    if "requirements" in software or "requirements_file" in software:
        return BUILD
    if "image" in software:
        return IMAGE
    return f"environment:{software['environment']}" if "environment" in software else ""


def node_offers(told: Mapping[str, Any]) -> frozenset[str]:
    """Return a node's offers, from its agent's report of its software."""
    found = {f"environment:{name}" for name in told.get("environments") or ()}
    found |= {word for word, key in ((BUILD, "installer"), (IMAGE, "images")) if told.get(key)}
    if told.get(GIT):
        found |= {f"{word}+{GIT}" for word in found} | {GIT}
    return frozenset(found)


def need_check(need: str, told: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
    """Refuse a need that no node offers, by the reports of each in `told`; without nodes refuse nothing. Raises BerthError."""
    nodes = told() if need else []
    offered = frozenset[str]().union(*map(node_offers, nodes))
    if not nodes or need in offered:
        return
    need, _, git = need.partition("+") if need != GIT else ("", "", GIT)
    if git and (not need or need in offered):
        detail = f"No node{' for its software' if need else ''} has git. Ask an operator to install it on the nodes."
        raise BerthError("no_git", detail, field="code")
    if need == BUILD:
        detail = "No node builds environments: neither uv nor pip was found on any. Ask an operator to install one."
    elif need == IMAGE:
        detail = (
            "No node runs container images. Each node's page says why; ask an operator to install Apptainer on some."
        )
    else:
        name = need.partition(":")[2]
        known = ", ".join(sorted(each.partition(":")[2] for each in offered if each.startswith("environment:")))
        detail = (
            f"No node has an environment named {name}. {f'There are: {known}.' if known else 'None is registered.'}"
        )
    raise BerthError("unknown_software", detail, field="software")


def software_words(software: Mapping[str, str]) -> str:
    """Return it in a few words, for pages and tables."""
    if "requirements" in software:
        lines = [line for each in software["requirements"].split("\n") if (line := each.partition("#")[0].strip())]
        packages = sum(not line.startswith("-") for line in lines)
        return f"{packages} requirement{'' if packages == 1 else 's'}, built on the node"
    if "environment" in software:
        return f"environment {software['environment']}"
    if "image" in software:
        return f"image {software['image']}"
    return f"environment at {software['path']}" if "path" in software else "the node's own"
