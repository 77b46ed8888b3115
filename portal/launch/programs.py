"""The processes of one Berth: their command lines and their environments."""

import ipaddress
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import dj_database_url

from portal.foundation.alive import MARK
from portal.foundation.environment import env
from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, read_json
from portal.foundation.redis_urls import ping
from portal.launch import health
from portal.launch.broker import Server, socket_place
from portal.launch.demo.nodes import DEMO_NODES
from portal.launch.guarded import guarded_argv
from portal.launch.options import Options
from portal.launch.preflight import is_loopback
from portal.launch.processes.children import Program
from portal.launch.tls import Tls, names_of_this_machine

# The variables that an agent gets, beside those of its own settings. No database, no broker, no secret, because tenants'
# processes run beside it.
AGENT_VARIABLES = frozenset(
    """
        PATH HOME USER LOGNAME LANG LC_ALL TMPDIR LD_LIBRARY_PATH XDG_RUNTIME_DIR BERTH_TRUST_TENANTS BERTH_LOG_LEVEL
        http_proxy https_proxy no_proxy
    """.split()
)
AGENT_PREFIX = "BERTH_AGENT_"
AGENT_TOKEN = f"{AGENT_PREFIX}TOKEN"


@dataclass(frozen=True)
class Site:
    """The addresses of this Berth: `base_url` for people and other machines, `local_url` for the nodes on this machine."""

    base_url: str
    local_url: str
    allowed_hosts: list[str]
    tls: Tls | None


def site_of(options: Options, tls: Tls | None) -> Site:
    """Return the addresses. BERTH_BASE_URL and BERTH_ALLOWED_HOSTS win, because a proxy may stand in front."""
    scheme = "https" if tls else "http"
    everywhere = options.host in {"0.0.0.0", "::", "[::]"}  # noqa: S104 - compared, not bound
    named = socket.gethostname() if everywhere else options.host
    shown = tls.name if tls else named
    local = "127.0.0.1" if everywhere or options.host == "localhost" else options.host
    if tls and tls.authority is None:
        local = tls.name  # the operator's certificate holds only this machine's public name
    base_url = os.environ.get("BERTH_BASE_URL") or f"{scheme}://{_bracketed(shown)}:{options.port}"
    hosts = ["localhost", "127.0.0.1", "[::1]", base_url.split("//", 1)[1].rsplit(":", 1)[0].rstrip("/")]
    if not is_loopback(options.host):
        hosts += [_bracketed(name) for name in names_of_this_machine(options.host)]
    given = os.environ.get("BERTH_ALLOWED_HOSTS")
    allowed = given.split(",") if given else list(dict.fromkeys(hosts))
    return Site(base_url, f"{scheme}://{_bracketed(local)}:{options.port}", allowed, tls)


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def portal_environment(layout: Layout, *, redis_url: str, demo: bool, site: Site | None = None) -> dict[str, str]:
    """Return the environment of portal, worker, beat and `manage`: the caller's, with ours on top."""
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    environment |= {
        "BERTH_DATA_DIR": str(layout.root),
        "BERTH_DEMO": "1" if demo else "0",
        "REDIS_URL": redis_url,
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if site is not None:
        environment["BERTH_BASE_URL"] = site.base_url
        environment["BERTH_ALLOWED_HOSTS"] = ",".join(site.allowed_hosts)
    return environment


def database_file(layout: Layout) -> Path | None:
    """Return SQLite's file; None where DATABASE_URL names a server."""
    if not env("DATABASE_URL"):
        return layout.database
    given = dj_database_url.parse(env("DATABASE_URL"))
    return Path(given["NAME"]) if str(given["ENGINE"]).endswith("sqlite3") else None


BROKER = "redis"
"""The broker's name among the children, and in `liveness`; there also that of a server of one's own (REDIS_URL)."""
ASK_LIMIT_S = 5.0


def broker_ask(url: str) -> None:
    """Return when the broker answers PING. Raises redis.RedisError or OSError when it does not."""
    ping(url, ASK_LIMIT_S)


def broker_program(server: Server, layout: Layout) -> Program:
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", MARK: str(layout.root)}
    return Program(BROKER, "broker", server.argv, environment, ask=lambda: broker_ask(server.url))


def proxies() -> str:
    """Return the addresses and networks of BERTH_TRUSTED_PROXIES, for the server's command line. Nobody else is trusted."""
    named = [part.strip() for part in env("BERTH_TRUSTED_PROXIES").split(",") if part.strip()]
    for each in named:
        try:
            ipaddress.ip_network(each)
        except ValueError as error:
            remedy = "Give addresses or networks, separated by commas, for example 127.0.0.1,10.2.0.0/16."
            raise LaunchError(f"BERTH_TRUSTED_PROXIES names {each!r}: {error}.", remedy) from None
    return ",".join(named)


SERVER = "portal.launch.serving portal.asgi:application".split()
PLANNING, LABORATORY_S = "celery -q -A portal".split(), "celery -q -A portal.foundation.celery:laboratory".split()
WORKER = "worker --pool prefork --loglevel WARNING --without-gossip --without-mingle".split()
LABORATORY = "--queues laboratory --hostname laboratory@%h --max-memory-per-child 400000".split()
LOW_PRIORITY = "nice -n 5".split()
BEAT = "celery -q -A portal.foundation.celery:clock beat --max-interval 1 --loglevel WARNING".split()
BEAT += "--scheduler portal.foundation.beat:LivingScheduler".split()


def services(options: Options, layout: Layout, *, environment: dict[str, str], site: Site) -> list[Program]:
    """Return portal, workers and beat.

    Two worker processes are enough, because plannings are short; a third may wait for mail servers.

    The laboratory has a worker of its own with a higher niceness. When its memory has grown, it is replaced after the task.
    Celery runs with -q: on a full disk, printing its banner into the log would end it.
    """
    marked, database = environment | {MARK: str(layout.root)}, database_file(layout)
    python = guarded_argv(str(layout.root))
    portal = [*python, *SERVER, "--host", options.host.strip("[]"), "--port", str(options.port), "--proxies", proxies()]
    if site.tls:
        portal += ["--certificate", str(site.tls.certificate), "--key", str(site.tls.key)]
    private = socket_place(layout, "portal")
    if private is not None:
        portal += ["--private", str(private)]
    worker = [*python, *PLANNING, *WORKER, "--concurrency", "3"]
    laboratory = [*LOW_PRIORITY, *python, *LABORATORY_S, *WORKER, "--concurrency", "1", *LABORATORY]
    beat = [*python, *BEAT]
    return [
        Program(
            "portal",
            "portal",
            portal,
            marked,
            ask=lambda: health.life_ask(options, site.tls, private, ASK_LIMIT_S),
            database=database,
        ),
        Program("worker", "worker", worker, marked, signs=True, needs=BROKER, database=database),
        Program("laboratory", "worker", laboratory, marked, signs=True, needs=BROKER, database=database),
        Program("beat", "beat", beat, marked, patience_s=3.0, signs=True, database=database),
    ]


REGISTERED_FILE = "node.json"
"""The agent keeps its node token there once it has registered."""


def node_names(layout: Layout, *, demo: bool) -> list[str]:
    """Return the names of the nodes that `up` starts: the demo's, or this machine, if it shall be a node."""
    if demo:
        return [node.name for node in DEMO_NODES]
    return [socket.gethostname()] if (read_json(layout.mode) or {}).get("node", True) else []


def agent_environment(join_token: str | None = None) -> dict[str, str]:
    """Return an agent's environment. It holds the join token, because every user of the machine can read command lines."""
    kept = {
        name: value for name, value in os.environ.items() if name in AGENT_VARIABLES or name.startswith(AGENT_PREFIX)
    }
    kept.pop(AGENT_TOKEN, None)  # of another Berth
    own = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    return kept | own | ({AGENT_TOKEN: join_token} if join_token else {})


def agents(layout: Layout, *, demo: bool, site: Site, join_tokens: dict[str, str]) -> list[Program]:
    """Return the agents: one for each virtual node of the demo, else one for this machine."""
    common = [sys.executable, "-m", "workers.agent", "--url", site.local_url]
    if site.tls and site.tls.authority_sha256:
        common += ["--ca-sha256", site.tls.authority_sha256]
    if site.local_url.startswith("http://") and not is_loopback(site.local_url.split("//")[1].rsplit(":", 1)[0]):
        common += ["--insecure"]
    virtual = {node.name: node.specification for node in DEMO_NODES} if demo else {}
    programs = []
    for name in node_names(layout, demo=demo):
        argv = [*common, "--dir", str(layout.nodes / name), "--name", name, "--closed", str(layout.root)]
        if name in virtual:
            argv += ["--virtual", virtual[name], "--trust-tenants"]
            argv += ["--storage-domain", "demo", "--storage-dir", str(layout.storage)]
        environment = agent_environment(join_tokens.get(name))
        programs.append(Program(name, "agent", argv, environment, spares_group=True, signs=True))
    return programs
