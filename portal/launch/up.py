"""`./berth up`: checks, lock, broker, preparation, services, nodes, health; then it watches until it is stopped.

With `--detach` the supervisor runs in a session of its own, and the command returns when Berth is healthy.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType

from portal.foundation import redis_urls
from portal.foundation.environment import env
from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json, unwritable, write_json, write_private
from portal.launch import broker, health, nodes, preflight, preparation, programs
from portal.launch.backups import refuse_half_restored
from portal.launch.demo import slurm
from portal.launch.guarded import guarded_argv
from portal.launch.notices import Notices
from portal.launch.options import Options
from portal.launch.processes import identity
from portal.launch.processes.identity import lock_or_refuse
from portal.launch.processes.liveness import Liveness
from portal.launch.processes.supervisor import AGAIN, REFUSED_S, Supervisor
from portal.launch.serving.limits import files_most
from portal.launch.tls import Tls, certificate_ensure, certificate_given

HEALTH_LIMIT_S = 120.0
TICK_S = 0.2
TELL_AFTER_S = 10.0
READY_VARIABLE = "BERTH_READY_DESCRIPTOR"


class StopRequested(Exception):
    """SIGINT or SIGTERM came. A tick raises it, so that `up` ends in order wherever it is."""


class Launch:
    """One run of `up`, from its flags to its end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.layout = Layout.at(options.data)
        self.layout.prepare()
        self.demo = options.demo or bool((read_json(self.layout.mode) or {}).get("demo"))
        self.engine = options.engine or (read_json(self.layout.mode) or {}).get("engine")
        self.notices = Notices(self.layout.logs / "supervisor.log")
        liveness = Liveness(limit_s=env("BERTH_HANG_LIMIT_S"))
        self.supervisor = Supervisor(self.layout, notify=self.notices.step, liveness=liveness)
        self._stop = False
        self._ready_descriptor = os.environ.pop(READY_VARIABLE, None)  # children must not get it

    def run(self) -> int:
        """Serve until stopped; return 0 then. Raises LaunchError when Berth cannot start."""
        self._check_disk()
        with lock_or_refuse(self.layout):
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._on_signal)
            self.layout.stop_request.unlink(missing_ok=True)
            refuse_half_restored(self.layout)
            try:
                self._start()
                while True:
                    self.tick()
            except StopRequested:
                self.notices.step("stopping")
                self._stop_jobs()
                return 0
            finally:
                self._stop_processes()

    def _check_disk(self) -> None:
        """Refuse a first start on a disk that is almost full. A later start goes on with a warning."""
        if not self.layout.mode.exists():
            preflight.check_disk(self.layout.root)
        elif (free_mib := preflight.free_mib(self.layout.root)) < env("BERTH_DISK_LOW_MIB"):
            self.notices.step(f"only {free_mib} MiB are free on the disk of {self.layout.root}, so no job is started")

    def tick(self) -> None:
        """Let the supervisor do its work once. Raises StopRequested when a signal came."""
        if self._stop:
            raise StopRequested
        self.supervisor.tick()
        time.sleep(TICK_S)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop = True

    def _start(self) -> None:
        self._end_leftovers()
        preflight.check_port(self.options.host, self.options.port)
        preflight.check_store()
        preflight.check_demo_minutes(self.options.demo_minutes, demo=self.demo)
        preflight.check_engine(self.engine, demo=self.demo)
        nodes.settings_check(self.layout)
        tls = self._tls()
        site = programs.site_of(self.options, tls)
        preflight.check_jobs_names(site.base_url, site.allowed_hosts)
        for secret in (self.layout.secret_key, self.layout.metrics_token):
            if not secret.exists():
                write_private(secret, secrets.token_urlsafe(64))
        redis_url = self._broker()
        self._note_mode(site, redis_url)
        self._until_writable()
        environment = programs.portal_environment(self.layout, redis_url=redis_url, demo=self.demo, site=site)
        if self.options.demo_minutes is not None:
            environment["BERTH_DEMO_UNTIL"] = str(round(time.time() + 60 * self.options.demo_minutes))
        prepared = preparation.prepare(
            self.layout,
            demo=self.demo,
            environment=environment,
            notices=self.notices,
            meanwhile=lambda: self._await_broker(redis_url),
            between=self.tick,
        )
        services = programs.services(self.options, self.layout, environment=environment, site=site)
        self.supervisor.start_together(services, between=self.tick)
        self._until_port_answers()
        agents = programs.agents(self.layout, demo=self.demo, site=site, join_tokens=prepared.join_tokens)
        self.supervisor.start_together(agents, between=self.tick)
        if self.engine:
            token = prepared.join_tokens.get(slurm.BRIDGE)
            for program in slurm.programs(self.layout, url=site.local_url, join_token=token):
                self.supervisor.start(program)
        workload = self._workload_begin(environment)
        self._until_healthy(tls)
        self._workload_finish(workload)
        self._farewell(site.base_url, prepared.farewell)

    def _until_writable(self) -> None:
        """Wait until the database's files can be written. Say why it waits."""
        database = programs.database_file(self.layout)
        while database and (why := unwritable(database)):
            self.notices.step(f"not started yet: {why}; {AGAIN}")
            until = time.monotonic() + REFUSED_S
            while time.monotonic() < until:
                self.tick()

    def _note_mode(self, site: programs.Site, redis_url: str) -> None:
        """Write launch.json, and hand the supervisor what it writes into its own file."""
        tls = site.tls
        about = {
            "demo": self.demo,
            "engine": self.engine,
            "host": self.options.host,
            "port": self.options.port,
            "tls": tls is not None,
        }
        ca = {"ca_sha256": tls.authority_sha256 if tls else None}
        self.supervisor.about = {"url": site.base_url, **about, **ca}
        mode = {
            "base_url": site.base_url,
            "redis_url": redis_url,
            **about,
            **ca,
            **self._own_node(),
            "engine": self.engine,
        }
        write_json(self.layout.mode, mode)

    def _own_node(self) -> dict[str, bool]:
        """Decide whether this machine is a node, for launch.json. Tell the operator when it is not what most expect."""
        if self.demo:
            return {}
        decided = nodes.own_node(self.layout, with_node=self.options.with_node)
        if decided.words:
            self.notices.step(decided.words)
        asked = self.options.with_node or bool((read_json(self.layout.mode) or {}).get("with_node"))
        return {"node": decided.wanted, "with_node": asked}

    def _end_leftovers(self) -> None:
        """End the processes of a supervisor that was killed. Running jobs go on; the new agent takes them over."""
        found = identity.leftovers(self.layout)
        if found:
            identity.end(found)
            self.notices.step(f"ended {len(found)} processes that a killed supervisor had left; jobs run on")

    def _tls(self) -> Tls | None:
        options = self.options
        if options.tls_cert and options.tls_key:
            return certificate_given(options.tls_cert, options.tls_key)
        if preflight.is_loopback(options.host) or options.insecure:
            return None
        tls = certificate_ensure(self.layout, options.host)
        self.notices.step(f"the certificate for {tls.name} is in {self.layout.tls}")
        return tls

    def _broker(self) -> str:
        """Return the address of the server in REDIS_URL; without one, start an embedded server."""
        given = os.environ.get("REDIS_URL")
        if given:
            redis_urls.kombu_url(given)  # an unknown form of address is refused here, before anything runs
            self.supervisor.liveness.asker.begin(programs.BROKER, lambda: programs.broker_ask(given))
            return given
        server = broker.server_configure(self.layout, self.notices.step)
        self.supervisor.start(programs.broker_program(server, self.layout))
        return server.url

    def _await_broker(self, redis_url: str) -> None:
        broker.wait_until_up(redis_url)
        self.notices.step("broker answers")

    def _workload_begin(self, environment: dict[str, str]) -> preparation.Task | None:
        """Begin to submit the demo's first jobs, while nodes start. It is done once for each data directory."""
        if not self.demo or not env("BERTH_DEMO_WORKLOAD") or self.layout.workload.exists():
            return None
        return preparation.Task(
            "workload", guarded_argv(str(self.layout.root), "portal.launch.demo.workload")[1:], self.layout, environment
        )

    def _workload_finish(self, task: preparation.Task | None) -> None:
        if task is None:
            return
        try:
            preparation.await_tasks([task], self.notices, self.tick)
        finally:
            task.end()
        write_json(self.layout.workload, {"submitted": True})

    def _until_port_answers(self) -> None:
        self._wait_for(lambda: health.port_answers(self.options), "The portal did not open its port")
        self.notices.step(
            f"portal answers; it may open {files_most():,} files, half of them connections (RLIMIT_NOFILE)"
        )

    def _until_healthy(self, tls: Tls | None) -> None:
        nodes_wanted = sum(child.program.role == "agent" for child in self.supervisor.children.values())
        last = health.Health(None, {}, "not asked yet")

        tell_at = time.monotonic() + TELL_AFTER_S

        def good() -> bool:
            nonlocal last, tell_at
            last = health.ask_for(self.options, tls)
            missing = nodes_wanted - int(last.facts.get("nodes_in_contact") or 0)
            if last.serves and missing > 0:
                last = health.Health(None, {}, f"{missing} of {nodes_wanted} nodes are not in contact yet")
            if not last.serves and time.monotonic() > tell_at:
                tell_at += TELL_AFTER_S
                self.notices.step(f"not healthy yet: {last.words}")
            return last.serves

        try:
            self._wait_for(good, "Berth did not become healthy")
        except LaunchError as error:
            raise LaunchError(f"{error.problem} {last.words}.", error.remedy) from None
        self.supervisor.about["ready"] = True
        self.supervisor.write_state()
        self.notices.step("healthy")

    def _wait_for(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + HEALTH_LIMIT_S
        while not condition():
            self.tick()
            died = [name for name, child in self.supervisor.children.items() if child.restarts >= 4]
            if died or time.monotonic() > deadline:
                logs = ", ".join(str(self.layout.logs / f"{name}.log") for name in died or ["portal"])
                why = f"{' and '.join(died)} ended again and again" if died else f"waited {HEALTH_LIMIT_S:.0f} s"
                raise LaunchError(f"{problem}: {why}.", f"See {logs}.")

    def _farewell(self, url: str, lines: list[str]) -> None:
        self.notices.step(f"Berth is up: {url}")
        for line in lines:
            self.notices.say(f"  {line}")
        if self._ready_descriptor is None:
            self.notices.say("  Ctrl-C stops Berth and its running jobs. `./berth down --keep-jobs` stops Berth only.")
            return
        self.notices.detach()
        os.write(int(self._ready_descriptor), b"ready")
        os.close(int(self._ready_descriptor))

    def _stop_jobs(self) -> None:
        """Stop the agents; then stop their jobs, or extend their leases, in the database too, so that they run on."""
        keep = bool((read_json(self.layout.stop_request) or {}).get("keep_jobs"))
        if keep:
            nodes.leases_keep(self.layout)
        self.supervisor.stop(["agent", slurm.ASKING])
        if self.engine:
            slurm.jobs_end(self.layout)
        if keep:
            nodes.jobs_keep(self.layout)
            self.notices.step("running jobs run on; the next `./berth up` takes them over")
        else:
            nodes.jobs_stop(self.layout)
            self.notices.step("running jobs were stopped")

    def _stop_processes(self) -> None:
        for roles in (["agent", slurm.ASKING], [slurm.ROLE], ["beat", "worker"], ["portal"], ["broker"]):
            self.supervisor.stop(roles)
        self.layout.state.unlink(missing_ok=True)
        self.notices.step("stopped")


def up_detached(arguments: list[str]) -> int:
    """Start `up` with these arguments in the background. Return 0 when it is ready, else its exit code. Ctrl-C stops it."""
    read_end, write_end = os.pipe()
    child = subprocess.Popen(  # noqa: S603 - our own argv, no shell
        [sys.executable, "-P", "-m", "portal.launch", *arguments],
        cwd=os.getcwd(),  # noqa: PTH109 - paths in the arguments are relative to it
        env=os.environ | {READY_VARIABLE: str(write_end), "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.DEVNULL,
        pass_fds=[write_end],
        start_new_session=True,
    )
    os.close(write_end)

    def forward(_number: int, _frame: FrameType | None) -> None:
        child.send_signal(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    with os.fdopen(read_end, "rb") as ready:
        if ready.read() == b"ready":
            return 0
    return child.wait() or 1
