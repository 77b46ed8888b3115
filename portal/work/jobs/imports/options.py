"""Every option that sbatch knows: how it is spelled, whether a value follows it, and why it is ignored or refused here."""

from __future__ import annotations

from typing import Literal, NamedTuple

from portal.work.jobs.imports.amounts import NotRead, shown

HAS = Literal["value", "perhaps", "none"]


class Option(NamedTuple):
    """`ignored` or `refused` is the whole answer; an option with neither is read by `portal.work.jobs.imports.mapping`."""

    name: str
    short: str = ""
    has: HAS = "value"
    ignored: str = ""
    refused: str = ""


_LAYOUT = "Berth itself chooses cores and binds the job to them"
_MAIL = "Which mails you get is chosen on your account page"
_LOGS = "Berth keeps both streams: the job's page and `berth logs` show them"
_OUTSIDE = "only sbatch's own command line needs it"
_MPI_NODES = "Berth places the processes where GPUs and cores are"

_MAPPED = """
    array:a job-name:J time:t nodes:N ntasks:n cpus-per-task:c gpus:G gpus-per-node gpus-per-socket sockets-per-node
    extra-node-info:B gpus-per-task cpus-per-gpu ntasks-per-node
    ntasks-per-gpu mem mem-per-cpu mem-per-gpu gres constraint:C dependency:d chdir:D export signal comment tmp wrap
    begin:b nice exclude:x input:i
""".split()

_IGNORED: dict[str, tuple[str, ...]] = {
    f"{_LOGS}.": ("output:o", "error:e", "open-mode"),
    f"{_MAIL}.": ("mail-type", "mail-user"),
    "Berth itself chooses where a job waits; there are no partitions to choose.": ("partition:p", "qos:q"),
    "Say for which tenant it is with --tenant, or on the form.": ("account:A", "wckey", "mcs-label"),
    f"{_LAYOUT}.": (
        "cores-per-socket threads-per-core ntasks-per-core ntasks-per-socket hint "
        "distribution:m mem-bind mincpus core-spec:S thread-spec cpu-freq gpu-freq gpu-bind gres-flags tres-bind "
    ).split(),  # type: ignore[dict-item]
    f"{_MPI_NODES}.": ("switches", "network", "segment", "prefer", "delay-boot", "power", "batch", "wait-all-nodes"),
    "Berth does not shorten time limits; `expected_duration_s` helps a short job to start sooner.": ("time-min",),
    "Berth measures each job by itself.": ("acctg-freq", "profile", "extra"),
    "A job whose dependency can no longer come true is cancelled here in any case.": ("kill-on-invalid-dep",),
    "The memory of a running job stays as it is here.": ("mem-update",),
    f"{_OUTSIDE}.": ("cluster-constraint", "clusters:M"),
    "Its own queue has an order of its own; `priority` orders one tenant's jobs.": ("priority",),
}
_IGNORED_FLAGS: dict[str, tuple[str, ...]] = {
    f"{_OUTSIDE}.": ("parsable", "quiet:Q", "verbose:v", "wait:W", "ignore-pbs", "help:h", "version:V", "usage"),
    f"{_LAYOUT}.": ("overcommit:O",),
    f"{_MPI_NODES}.": (
        "contiguous",
        "spread-job",
        "use-min-nodes",
        "stepmgr",
        "consolidate-segments",
        "spread-segments",
    ),
    "A GPU is one job's own unless it asks to share; cores and memory are its own.": ("oversubscribe:s",),
}
_REFUSED: dict[str, tuple[str, ...]] = {
    "Berth itself chooses the nodes. Ask for a GPU type by --constraint or --gres.": ("nodelist:w", "nodefile:F"),
    "Berth counts no licences; jobs would start without one.": ("licenses:L",),
    "Berth has no reservations by name.": ("reservation",),
    "Berth gives no job up at a time; --time limits how long it runs.": ("deadline",),
    "Variables are read from a file on the other cluster; write them as --export=NAME=value.": ("export-file",),
    "A job runs under its tenant's account.": ("uid", "gid"),
    "There are no burst buffers here; --tmp asks for disk on the node.": ("bb", "bbf"),
    "A job runs in no container here; ask for `software`, or call the container's program in the script.": (
        "container",
        "container-id",
        "container-type",
    ),
    "Ask for GPUs and cores by --gpus and --cpus-per-gpu.": ("tres-per-task", "ntasks-per-tres", "resources"),
}
_REFUSED_FLAGS: dict[str, tuple[str, ...]] = {
    "A submission cannot be held; submit it and run `berth hold`.": ("hold:H",),
    "Nothing would be submitted; ask `berth plan`, or the form.": ("test-only",),
    "No job may restart a node.": ("reboot",),
    "Jobs of several kinds of parts cannot be described here; submit each part, and join them by --dependency.": (
        "hetjob",
        "packjob",
    ),
}
_FLAGS = ("no-requeue",)
_PERHAPS: dict[str, str] = {
    "exclusive": "Other jobs may run beside it on its nodes; its GPUs, cores and memory are its own.",
    "get-user-env": "The submitting person's environment does not come along; set what is needed in the script.",
    "no-kill:k": "A job that lost a node is ended, and starts again only where it may.",
    "oom-kill-step": "A step that takes too much memory ends the job here.",
    "propagate": "Limits of the shell that submits do not come along.",
    "resv-ports": f"{_LAYOUT}.",
}


def _table() -> dict[str, Option]:
    found = [Option(*_named(each)) for each in _MAPPED if each != "nice"]
    found += [
        Option("nice", "", "perhaps"),
        Option("requeue", "", "perhaps"),
        *(Option(name, "", "none") for name in _FLAGS),
    ]
    found += [Option(*_named(name), "perhaps", words) for name, words in _PERHAPS.items()]
    for has, ignored, table in (
        ("value", True, _IGNORED),
        ("none", True, _IGNORED_FLAGS),
        ("value", False, _REFUSED),
        ("none", False, _REFUSED_FLAGS),
    ):
        for words, names in table.items():
            for each in names:
                name, short = _named(each)
                found.append(Option(name, short, has, words if ignored else "", "" if ignored else words))  # type: ignore[arg-type]
    return {option.name: option for option in found}


def _named(text: str) -> tuple[str, str]:
    name, _, short = text.partition(":")
    return name, short


OPTIONS = _table()
ALIASES = {"workdir": "chdir", "cluster": "clusters", "share": "oversubscribe", "tasks-per-node": "ntasks-per-node"}
_SHORT = {option.short: option for option in OPTIONS.values() if option.short}
_BARE = {"hetjob", "packjob"}


def split(parts: list[str]) -> list[tuple[str, str | None, str]]:
    """Return name, value and spelling of each option in a line's words. Raises NotRead for a word that is none."""
    if parts and parts[0] in _BARE:
        return [(parts[0], None, f"#SBATCH {parts[0]}")]
    found: list[tuple[str, str | None, str]] = []
    rest = iter(parts)
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            option = _long(name)
            given: str | None = value if equals else None
        elif word.startswith("-") and len(word) > 1:
            *flags, (option, given) = _letters(word)
            found += [(flag.name, None, f"#SBATCH {word}") for flag, _ in flags]
        else:
            raise NotRead(f"{shown(word)} is no option; each begins with - or --")
        if option.has == "value" and given is None:
            given = next(rest, None)
            word = f"{word} {given}" if given is not None else word  # noqa: PLW2901 - as it is spelled
            if given is None:
                raise NotRead(f"a value is missing after {shown(word)}")
        if option.has == "none" and given is not None:
            raise NotRead(f"sbatch takes no value after --{option.name}")
        found.append((option.name, given, f"#SBATCH {word}"))
    return found


def _letters(word: str) -> list[tuple[Option, str | None]]:
    """Return the options of `-n4`, or of several letters without values such as `-HQ`."""
    found: list[tuple[Option, str | None]] = []
    for place, letter in enumerate(word[1:], start=2):
        if letter not in _SHORT:
            raise NotRead(f"sbatch has no option -{shown(letter)[1:-1]}")
        if _SHORT[letter].has != "none":
            return [*found, (_SHORT[letter], word[place:].removeprefix("=") or None)]
        found.append((_SHORT[letter], None))
    return found


def _long(name: str) -> Option:
    """Return the option of a name, or of the beginning of one name only, as sbatch reads it."""
    whole = ALIASES.get(name, name)
    if whole in OPTIONS:
        return OPTIONS[whole]
    begun = {ALIASES.get(each, each) for each in (*OPTIONS, *ALIASES) if each.startswith(name)} if name else set()
    if len(begun) != 1:
        several = f"; it may be {' or '.join('--' + each for each in sorted(begun)[:4])}" if begun else ""
        raise NotRead(f"sbatch has no option {shown('--' + name)}{several}")
    return OPTIONS[begun.pop()]
