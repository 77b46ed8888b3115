"""The verbs of `berth`, one line each: parser, completion, `./berth`, documents and tests read them here.

`./berth` runs this file by its path, so it imports nothing of Berth.
"""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """`act` is MODULE:FUNCTION of `berth_client.cli`. FUNCTION_options beside it adds the arguments to the verb's parser.

    The function gets the arguments and the portal, or without `asks_portal` the arguments, and returns the exit code.
    """

    name: str
    act: str
    help: str
    asks_portal: bool = True
    reads: bool = False
    """It only prints: a reader that closes the pipe early (`| head`) is no failure."""


_ALL = (
    Verb("login", "login:login", "write down a portal's address and your token", asks_portal=False),
    Verb("submit", "submit:submit", "submit a job"),
    Verb("plan", "submit:plan", "say what would happen to a job now, without submitting it"),
    Verb("templates", "templates:templates", "list job templates; show, import, export, delete one"),
    Verb("secrets", "secrets:secrets", "list the names of secrets; set or remove one"),
    Verb("ps", "jobs:ps", "list jobs that have not ended, of all that you may see; arrays are one line", reads=True),
    Verb("show", "jobs:show", "show a job, its request and its attempts", reads=True),
    Verb("cancel", "jobs:act", "end jobs: at once while they wait, within their grace while they run"),
    Verb("hold", "jobs:act", "keep waiting jobs from starting"),
    Verb("release", "jobs:act", "let held jobs wait again"),
    Verb("keep", "jobs:act", "let the idle time of running jobs begin anew: they are not ended as unused"),
    Verb("requeue", "jobs:act", "stop running jobs and let them wait again"),
    Verb("retry", "jobs:retry", "let jobs that failed wait again; of an array its failed tasks"),
    Verb("explain", "jobs:explain", "say why a job waits, or where it was placed and why", reads=True),
    Verb("edit", "jobs:edit", "change a waiting job, or give a running one more time"),
    Verb("logs", "logs:logs", "print a job's output: both streams, as the lines came", reads=True),
    Verb("shell", "shell:shell", "open a terminal inside a running job, or run one command there"),
    Verb("forward", "forward:forward", "reach a port that a running job listens on from here"),
    Verb("ssh", "ssh:ssh", "let ssh, scp, rsync, VS Code and PyCharm into a running job"),
    Verb("artefacts", "artefacts:artefacts", "list, fetch or remove what a job wrote"),
    Verb("cp", "artefacts:cp", "fetch one file that a job wrote: cp 41:model/best.pt ."),
    Verb("nodes", "cluster:nodes", "list the nodes, or show one: its resources and their holders", reads=True),
    Verb("drain", "cluster:drain", "place nothing new on a node, or on one of its GPUs (operators)"),
    Verb("resume", "cluster:resume", "place jobs again on a node, or on one of its GPUs (operators)"),
    Verb("members", "tenants:members", "list a tenant's members; change, remove, invite them"),
    Verb(
        "usage",
        "tenants:usage",
        "show my account, and quota and use of my tenants; of one, GPU hours by member",
        reads=True,
    ),
    Verb("lab", "lab:listed", "use the laboratory: simulate jobs under other policies, knobs or clusters"),
    Verb(
        "completion",
        "completion:completion",
        "print what makes the shell complete verbs, job numbers and nodes",
        asks_portal=False,
        reads=True,
    ),
)
VERBS = {verb.name: verb for verb in _ALL}
