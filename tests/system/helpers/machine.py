"""A node by its real agent, as the line of `./berth join-token` starts it."""

import contextlib
import os
import re
import subprocess
import sys

from portal.foundation.layout import SOURCE


@contextlib.contextmanager
def machine(berth, name, *flags, **environment):
    """Start an agent of this machine and give its process; it is killed in the end, its jobs end with the Berth."""
    directory = berth.data / "nodes" / name
    token = re.search(r"berthjoin_\S+", berth.command("manage", "join_token").stdout)[0]
    argv = [sys.executable, "-m", "workers.agent", "--url", berth.url, "--dir", str(directory), "--name", name, *flags]
    own = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "BERTH_AGENT_TOKEN": token}
    argv += ["--trust-tenants"]
    with (berth.layout.logs / f"{name}.log").open("w") as log:
        agent = subprocess.Popen(argv, cwd=SOURCE, env=own | environment, stdout=log, stderr=log)
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()
