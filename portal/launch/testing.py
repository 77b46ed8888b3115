"""`./berth test [--fast] [pytest arguments]`: pytest, its summary as the last line.

--fast leaves out what needs a database, processes, servers, a browser or a GPU; the linters are tests
(tests/test_house.py) and always run.
"""

import os
import subprocess
import sys

from portal.launch.layout import SOURCE

FAST = ["-m", "not system and not browser and not postgres and not gpu and not impure"]


def arguments_for(arguments: list[str]) -> list[str]:
    """The arguments pytest gets; a GPU test runs only when -m asks for it."""
    rest = [argument for argument in arguments if argument != "--fast"]
    if "--fast" in arguments:
        return [*FAST, "-q", *rest]
    return rest if "-m" in rest else ["-m", "not gpu", *rest]


def main(arguments: list[str]) -> int:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "BERTH_DATA_DIR"}}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", *arguments_for(arguments)]
    return subprocess.run(command, cwd=SOURCE, env=environment, check=False).returncode  # noqa: S603 - our own argv


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
