"""A job's command in a container: the command line and the environment of Apptainer, by its manual (apptainer-exec(1)).

The engine gets none of the tenant's variables as its own, for many of them are options of it (`APPTAINER_BIND` and others):
each goes in by the prefix that says "inside". Of the machine's files the job sees what is bound here and nothing else.
Standard library only: the shim uses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

INSIDE = "APPTAINERENV_"
OUTSIDE_ONLY = ("PATH", "BERTH_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that name programs of the node, which are not in the image. The image has a PATH of its own."""
APPENDED = f"{INSIDE}APPEND_PATH"
"""The engine appends this to the image's PATH: the node's folder with `python`, for an image that has only `python3`."""


def container_start(launch: dict[str, Any], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return what to execute, and with which environment. `environment`: the job's own, by `job_environment`.

    Raises ValueError for a path that Apptainer would read as several.
    """
    container = launch["container"]
    argv = [container["engine"], "exec", "--userns", "--containall", "--no-eval"]
    argv += ["--home", launch["job_dir"], "--pwd", launch["cwd"], "--workdir", launch["tmp_dir"]]
    for path, mode in _bound(launch, environment):
        if "," in path or ":" in path:
            raise ValueError(f"{path} cannot be shown in an image: there is a comma or colon in it")
        argv += ["--bind", f"{path}:{path}:{mode}"]
    if launch["gpus"] and not launch["virtual"]:
        argv.append("--nv")
    inside = {f"{INSIDE}{name}": value for name, value in environment.items() if name not in OUTSIDE_ONLY}
    if programs := launch.get("programs"):
        inside[APPENDED] = ":".join(filter(None, [inside.get(APPENDED), programs]))
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = {"PATH": path, "HOME": launch["job_dir"], "TMPDIR": launch["tmp_dir"], "LANG": "C.UTF-8"}  # of the engine
    return [*argv, container["image"], "/bin/sh", "-c", launch["command"]], own | inside


def _bound(launch: dict[str, Any], environment: dict[str, str]) -> list[tuple[str, str]]:
    """Return the mounts beside the image: the part's directory, and in it the job's writable ones."""
    above = str(Path(launch["job_dir"]).parent)  # whole: a file in it, as that of its cores, is replaced now and then
    names = ("job_dir", "tmp_dir", "records_dir", "artefacts_dir", "checkpoint_dir")
    own = [launch[name] for name in names if name in launch]
    programs = filter(None, [environment["BERTH_INSTRUMENT_PATH"], launch.get("programs")])
    return [(above, "ro"), *((path, "rw") for path in own), *((path, "ro") for path in programs)]
