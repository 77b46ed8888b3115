"""Checks of the fields `code` and `secrets` of a job description: the place of its code, which may show no secret.

Normal form of `code`: {"git": URL, "ref": name, "secret": name or "", "submodules": bool}, or {"path": directory on the nodes}.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from portal.foundation import checks
from portal.foundation.environment import env
from portal.foundation.errors import BerthError
from portal.work.jobs.description_parts import variable_name
from portal.work.secrets.services import secret_name_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GIT = "git"
MAX_SECRETS, MAX_URL_CHARS, MAX_REF_CHARS, MAX_PATH_CHARS = 32, 500, 200, 1000
HEAD = "HEAD"
"""The ref of a repository that names none: its default branch."""
SCHEMES = ("https", "ssh", "http", "file")
_HOST = r"(?P<host>[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_PATH = r"(?P<path>[A-Za-z0-9._~/%+@=-]+)"
_URL = re.compile(rf"(?P<scheme>[a-z]+)://(?P<user>[^/@]*@)?({_HOST}(?P<port>:[0-9]{{1,5}})?)?/{_PATH}\Z")
_SHORT = re.compile(rf"(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*@){_HOST}:{_PATH}\Z")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*@\Z")
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+@-]*\Z")


def secret_variables(value: object) -> dict[str, str]:
    """Return {variable: name of the secret whose value it gets}."""
    found = checks.mapping(value, "secrets", max_items=MAX_SECRETS)
    for variable in found:
        variable_name(variable, "secrets")
    return {variable: secret_name_check(name, f"secrets.{variable}") for variable, name in found.items()}


def code_source(value: object) -> dict[str, Any]:
    """Return the normal form. No error repeats a URL, which may hold a password."""
    found = {name: each for name, each in checks.mapping(value, "code", max_items=8).items() if each is not None}
    kinds = {"git", "path"} & set(found)
    if len(kinds) != 1:
        detail = "`code` names a repository as `git`, or a directory on the nodes as `path`: give one of them."
        raise BerthError("conflict" if kinds else "required", detail, field="code")
    if "path" in found:
        checks.known_keys(found, "code", required={"path"})
        return {"path": _directory(found["path"])}
    checks.known_keys(found, "code", required={"git"}, optional={"ref", "secret", "submodules"})
    return {
        "git": git_url(found["git"]),
        "ref": _ref(found.get("ref", HEAD)),
        "secret": secret_name_check(found["secret"], "code.secret") if found.get("secret") else "",
        "submodules": checks.flag(found.get("submodules", False), "code.submodules"),
    }


def git_url(value: object, field: str = "code.git") -> str:
    """Return the URL; `git@host:path` as ssh://git@host/path. Nothing in it can become an option or a helper of git."""
    url = checks.text(value, field, max_chars=MAX_URL_CHARS)
    if short := _SHORT.match(url):
        url = f"ssh://{short['user']}{short['host']}/{short['path'].lstrip('/')}"
    match = _URL.match(url)
    allowed = git_schemes()
    if match is None or match["scheme"] not in SCHEMES or (match["host"] is None) != (match["scheme"] == "file"):
        detail = (
            f"`{field}` is no URL of a repository; write it as https://host/group/name.git or git@host:group/name.git."
        )
        raise BerthError("bad_url", detail, field=field)
    if match["user"] and (match["scheme"] != "ssh" or not _USER.match(match["user"])):
        detail = (
            f"`{field}` holds a name or a password, which everybody would read who sees the job. Take it out, keep it as a "
            "secret of the tenant (`berth secrets set NAME`), and name that in `code.secret`."
        )
        raise BerthError("credentials_in_url", detail, field=field)
    if match["scheme"] not in allowed:
        ways = " or ".join(allowed) or "nothing"
        detail = f"Repositories are fetched by {ways} here; the operator sets it (BERTH_GIT_SCHEMES)."
        raise BerthError("scheme_not_allowed", detail, field=field)
    if ".." in match["path"].split("/"):
        raise BerthError("path_escape", f"`{field}` must not have `..` in its path.", field=field)
    return url


def git_schemes() -> list[str]:
    return [name for name in SCHEMES if name in {each.strip() for each in str(env("BERTH_GIT_SCHEMES")).split(",")}]


def code_roots() -> list[str]:
    """Return the directories on the nodes below which the operator lets code lie."""
    return [
        root.rstrip("/") for each in str(env("BERTH_CODE_ROOTS")).split(",") if (root := each.strip()).startswith("/")
    ]


def _ref(value: object) -> str:
    ref = checks.text(value, "code.ref", max_chars=MAX_REF_CHARS)
    if not _REF.match(ref) or ".." in ref or "//" in ref or "@{" in ref or ref.endswith(("/", ".", ".lock")):
        detail = f"{checks.quoted(ref)} is no branch, tag or commit; give its name, or the whole number of a commit."
        raise BerthError("bad_ref", detail, field="code.ref")
    return ref


def _directory(value: object) -> str:
    path = checks.text(value, "code.path", max_chars=MAX_PATH_CHARS)
    if not path.startswith("/") or {"..", "."} & set(path.split("/")):
        detail = "`code.path` must be an absolute directory on the nodes, without `.` and `..`."
        raise BerthError("path_escape", detail, field="code.path")
    path = "/" + "/".join(filter(None, path.split("/")))
    roots = code_roots()
    if any(path == root or path.startswith(f"{root}/") for root in roots):
        return path
    if not roots:
        detail = "No directory on the nodes is opened for code yet; the operator names some (BERTH_CODE_ROOTS)."
    else:
        detail = f"Code may lie below {', '.join(roots)}; the operator sets it (BERTH_CODE_ROOTS)."
    raise BerthError("path_not_allowed", detail, field="code.path")


def code_directory(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the working directory of a job whose code lies on the nodes; {} where it stays as it is."""
    path, below = (values.get("code") or {}).get("path"), values.get("working_directory") or ""
    if path is None:
        return {}
    if below.startswith("/"):
        detail = "`code.path` is where the command starts; leave `working_directory` out, or give a folder below it."
        raise BerthError("conflict", detail, field="working_directory")
    return {"working_directory": f"{path}/{below}".rstrip("/")}


def code_mismatches(values: Mapping[str, Any]) -> Iterator[BerthError]:
    code = values.get("code") or {}
    if GIT in code and (values.get("working_directory") or "").startswith("/"):
        detail = "The command starts in the repository; give a `working_directory` below it, or none."
        yield BerthError("conflict", detail, field="working_directory")
    if "path" in code and "image" in (values.get("software") or {}):
        detail = "A job in an image does not see `code.path`; take the code from `git` or `files`."
        yield BerthError("conflict", detail, field="code")
    for variable in values.get("secrets") or ():
        if variable in (values.get("environment") or {}):
            detail = f"`{variable}` stands in `environment` and in `secrets`; give it once."
            yield BerthError("duplicate", detail, field="secrets")


def code_words(code: Mapping[str, Any]) -> str:
    """Return where code comes from in a few words, for pages and tables."""
    if "git" in code:
        return f"{code['git']}, {'its default branch' if code['ref'] == HEAD else code['ref']}"
    return f"{code['path']} on the nodes" if "path" in code else ""
