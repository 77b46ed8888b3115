"""`python -m portal.launch VERB`: the program that `./berth` runs in its virtual environment."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json
from portal.launch import backups, control, preflight
from portal.launch.options import DEFAULT_HOST, DEFAULT_PORT, Options

ENDS = "the exit code is 0 when all is well, 1 when there are problems, 3 when Berth does not run"


def default_data() -> str:
    return os.environ.get("BERTH_DATA_DIR") or str(SOURCE / "var")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./berth", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = _up_parser(verbs)
    down = _verb(verbs, "down", "stop Berth and its running jobs; all state stays in the data directory")
    down.add_argument("--keep-jobs", action="store_true", help="do not stop the running jobs")
    status = _verb(verbs, "status", f"show whether Berth runs, its processes and its problems; {ENDS}")
    status.add_argument("--json", action="store_true", help="print one JSON object")
    backup = _verb(verbs, "backup", "write all of Berth into one file and check that file; Berth may run")
    backup.add_argument("--to", type=Path, metavar="FILE|DIR", help="where to write it (default: DIR/backups/)")
    restore = _verb(verbs, "restore", "restore a backup; Berth must be stopped")
    restore.add_argument("file", type=Path, metavar="FILE", help="a file that ./berth backup made")
    for verb in (up, down, status, backup, restore):
        verb.add_argument(
            "--data", type=Path, default=default_data(), metavar="DIR", help="data directory (default %(default)s)"
        )
    return parser


def _verb(verbs: Any, name: str, words: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=words, description=f"{words[0].upper()}{words[1:]}.", allow_abbrev=False
    )
    return parser


def _up_parser(verbs: Any) -> argparse.ArgumentParser:
    up = _verb(
        verbs, "up", "start Berth, and stay until Ctrl-C or `./berth down`; a second start keeps all that there is"
    )
    up.add_argument("--demo", action="store_true", help="three tenants, four virtual nodes, and jobs that keep coming")
    up.add_argument(
        "--demo-minutes",
        type=float,
        metavar="N",
        help="submit the demo's jobs for N minutes (default: until ./berth down)",
    )
    up.add_argument(
        "--engine",
        choices=("slurm",),
        help="with --demo: start a small Slurm cluster too, which Berth uses by a bridge",
    )
    up.add_argument("--host", default=DEFAULT_HOST, help="address to listen on (default %(default)s)")
    up.add_argument("--port", type=int, default=DEFAULT_PORT, help="port (default %(default)s)")
    up.add_argument("--detach", action="store_true", help="run in the background; return when Berth is healthy")
    up.add_argument(
        "--tls-cert", type=Path, metavar="F", help="PEM certificate to use; without it Berth makes one itself"
    )
    up.add_argument("--tls-key", type=Path, metavar="F", help="PEM key of that certificate")
    up.add_argument("--insecure", action="store_true", help="use plain HTTP even when other machines can connect")
    up.add_argument(
        "--with-node",
        action="store_true",
        help="make this machine a node, even when the kernel cannot keep jobs out of the data directory",
    )
    return up


def _up(arguments: argparse.Namespace) -> int:
    from portal.launch.guarded import hide
    from portal.launch.up import Launch, up_detached

    hide()
    options = Options(**{name: value for name, value in vars(arguments).items() if name != "verb"})
    preflight.check_variables()
    preflight.check_transport(
        host=options.host, insecure=options.insecure, tls_cert=options.tls_cert, tls_key=options.tls_key
    )
    if options.detach:
        return up_detached([argument for argument in sys.argv[1:] if argument != "--detach"])
    return Launch(options).run()


def manage(arguments: list[str]) -> NoReturn:
    """Become manage.py in the environment of the Berth of this data directory (BERTH_DATA_DIR names another one).

    The current directory stays the same, so that relative paths in the arguments keep their meaning.
    """
    from portal.launch.programs import portal_environment

    preflight.check_variables()
    layout = Layout.at(default_data())
    mode = read_json(layout.mode) or {}
    environment = portal_environment(
        layout, redis_url=os.environ.get("REDIS_URL") or mode.get("redis_url", ""), demo=bool(mode.get("demo"))
    )
    environment.setdefault("BERTH_BASE_URL", mode.get("base_url", ""))
    program = str(SOURCE / "manage.py")
    os.execve(sys.executable, [sys.executable, program, *arguments], environment)  # noqa: S606 - no shell is wanted


def _status(layout: Layout, *, as_json: bool) -> int:
    """Its reader may leave early (`| head`): the rest of the buffer is lost then, and that is no error."""
    try:
        code = control.status(layout, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def main(argv: list[str]) -> int:
    try:
        preflight.check_python()
        if argv[:1] == ["manage"]:
            manage(argv[1:])
        arguments = _parser().parse_args(argv)
        if arguments.verb == "up":
            return _up(arguments)
        layout = Layout.at(arguments.data)
        if arguments.verb == "down":
            return control.down(layout, keep_jobs=arguments.keep_jobs)
        if arguments.verb == "backup":
            return backups.backup(layout, arguments.to)
        if arguments.verb == "restore":
            return backups.restore(layout, arguments.file)
        return _status(layout, as_json=arguments.json)
    except LaunchError as error:
        print(f"berth: {error}", file=sys.stderr)  # noqa: T201 - the one line a person gets
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
