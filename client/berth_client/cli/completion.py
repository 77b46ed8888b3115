"""Completion by the shell, with live values: `argcomplete` reads the very parser, and job numbers come from the portal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from berth_client.errors import ClientError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from berth_client import Berth

MOST = 200
LIMIT_S = 2.0
ABOUT = """\
Print what makes the shell complete verbs, options, job numbers and nodes. For bash, in ~/.bashrc:
    eval "$(berth completion bash)"
It needs argcomplete: install the package as `berth-client[completion]`, or `pip install argcomplete`."""


def completion_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])


def completion(asked: Any) -> int:
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise ClientError("completion needs argcomplete; run `pip install argcomplete`.") from None
    sys.stdout.write(shellcode(["berth"], shell=asked.shell))
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and end the process. Without argcomplete there is nothing to complete."""
    try:
        from argcomplete import autocomplete
    except ImportError:
        sys.exit(1)
    completers_set(parser)
    autocomplete(parser, always_complete_options=False)


def completers_set(parser: argparse.ArgumentParser) -> None:
    """Give each argument that names a thing of the portal the function that lists such things."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its own arguments
        if of := getattr(action, "completes", None):
            action.completer = _completer(LISTS[of])  # type: ignore[attr-defined] # argcomplete's own protocol
        for below in set((action.choices or {}).values()) if isinstance(action.choices, dict) else ():
            completers_set(below)


def _completer(values: Callable[[Berth], dict[str, str]]) -> Callable[..., dict[str, str]]:
    def found(prefix: str, parsed_args: Any, **_: Any) -> dict[str, str]:
        from berth_client import Berth

        try:
            berth = Berth.from_environment(portal=getattr(parsed_args, "portal", None))
            berth.timeout_s = LIMIT_S
            return {name: says for name, says in values(berth).items() if name.startswith(prefix)}
        except ClientError:  # Tab then offers nothing
            return {}

    return found


LISTS: dict[str, Callable[[Berth], dict[str, str]]] = {
    "jobs": lambda berth: {
        job["number"]: f"{job['state']} {job['name']}" for job in berth.jobs_list(page_size=MOST)["results"]
    },
    "running": lambda berth: {
        job["number"]: job["name"] for job in berth.jobs_list(state="RUNNING", page_size=MOST)["results"]
    },
    "nodes": lambda berth: {node["name"]: node["health"] for node in berth.nodes_list(page_size=MOST)["results"]},
    "tenants": lambda berth: {tenant["name"]: tenant["role"] for tenant in berth.me()["tenants"]},
    "templates": lambda berth: {
        each["name"]: each["title"] for each in berth.templates_list(page_size=MOST)["results"]
    },
    "secrets": lambda berth: {each["name"]: each["tenant"] for each in berth.secrets_list(page_size=MOST)["results"]},
}
