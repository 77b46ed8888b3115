"""`./berth bridge slurm ...`: attach a partition, and carry Berth's orders there."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sys
from typing import TYPE_CHECKING

import httpx2

from workers.agent.alive import descriptor_take, hold_agent, sign_for_ever
from workers.agent.enrol import TrustError, trust_for
from workers.agent.settings import SettingError
from workers.bridge import check
from workers.bridge.bridge import Bridge
from workers.bridge.command import Local, Ssh
from workers.bridge.history import HistoryError, history_read, history_words, nodes_grouped
from workers.bridge.settings import arguments_parser, settings_read
from workers.bridge.slurm import SlurmEngine
from workers.portal_client import Backoff, BridgePortal, PortalAwayError, PortalRefusedError
from workers.protocol.engine import Away
from workers.system import log
from workers.system.files import read_record, write_json

if TYPE_CHECKING:
    import ssl

    from workers.bridge.settings import BridgeSettings
    from workers.protocol.engine import ClusterEngine, EngineDescription, Order

NO_USE_TO_RETRY = 2


async def _describe(settings: BridgeSettings, engine: ClusterEngine) -> EngineDescription:
    backoff = Backoff(1.0, 15.0)
    while isinstance(found := await asyncio.to_thread(engine.describe), Away):
        log.warning("the other scheduler does not answer", reason=found.reason)
        await asyncio.sleep(backoff.next_s())
    cluster, version = found
    description: EngineDescription = {
        "kind": "slurm",
        "cluster": cluster,
        "partition": settings.partition,
        "form": "pilot",
        "version": version,
        "gpus_max": settings.gpus_max,
        "gpus_per_pilot": settings.gpus_per_pilot,
        "limit_s": int(settings.hours * 3600),
        "idle_s": int(settings.idle_s),
    }
    if settings.tenant:
        description["tenant"] = settings.tenant
    return description


async def _token(settings: BridgeSettings, description: EngineDescription, verify: ssl.SSLContext | bool) -> str:
    """Return the bridge's own token; attach the partition where it has none. Waits for the portal."""
    path = settings.dir / "private" / "bridge.json"
    known = read_record(path, token=str)
    if known is not None:
        return str(known["token"])
    if not settings.token:
        raise SettingError("this bridge has no token yet: give a join token with --token")
    portal, backoff = BridgePortal(settings.url, token=settings.token, verify=verify), Backoff(0.5, 10.0)
    try:
        while True:
            try:
                answer = await portal.attach(description)
                break
            except PortalAwayError as away:
                log.warning("portal away", reason=str(away))
                await asyncio.sleep(backoff.next_s())
    finally:
        await portal.close()
    write_json(path, {"url": settings.url, "engine": answer["engine"], "token": answer["token"]})
    log.info("attached", engine=answer["engine"])
    return answer["token"]


def _engine(settings: BridgeSettings) -> SlurmEngine:
    runner = Ssh(settings.ssh, settings.dir / "private") if settings.ssh else Local()
    extra = [*([f"--account={settings.account}"] if settings.account else []), *shlex.split(settings.sbatch)]
    return SlurmEngine(runner, partition=settings.partition, extra=extra)


def _verify(settings: BridgeSettings) -> ssl.SSLContext | bool:
    return trust_for(
        settings.url, ca_sha256=settings.ca_sha256, insecure=settings.insecure, directory=settings.dir / "private"
    )


def _check(settings: BridgeSettings, *, try_job: bool, as_json: bool) -> int:
    order: Order = {
        "name": "berth-check",
        "again": False,
        "gpus": settings.gpus_per_pilot,
        "gpu_type": "",
        "cores": 1,
        "memory_mib": 1024,
        "limit_s": int(settings.hours * 3600),
        "join_token": "",
    }
    asked = check.Asked(
        _engine(settings), order, str(settings.shared_dir), settings.leave_s, lambda: _portal_ask(settings), try_job
    )
    lines = check.check(asked)
    text = json.dumps(check.as_json(lines), indent=1) if as_json else check.table(lines, colours=sys.stdout.isatty())
    sys.stdout.write(f"{text}\n")
    return int(check.must_mend(lines))


def _portal_ask(settings: BridgeSettings) -> str:
    """Return why the portal does not answer; "" where it does."""
    try:
        httpx2.get(f"{settings.url}/livez", verify=_verify(settings), timeout=10, trust_env=False).raise_for_status()
    except (OSError, TrustError, SettingError, httpx2.HTTPError) as error:
        return str(error) or type(error).__name__
    return ""


async def _history(settings: BridgeSettings, days: int) -> None:
    """Send the partition's past to the laboratory. Without it nothing is attached, and no pilot is asked for in any case."""
    engine, verify = _engine(settings), _verify(settings)
    description = await _describe(settings, engine)
    past = await asyncio.to_thread(history_read, engine, days)
    nodes = await asyncio.to_thread(engine.inventory)
    if isinstance(nodes, Away):
        raise HistoryError(nodes.reason)
    sys.stdout.write(history_words(past, days))
    portal = BridgePortal(settings.url, token=await _token(settings, description, verify), verify=verify)
    try:
        answer = await portal.history({"days": days, "nodes": nodes_grouped(nodes)}, past.text)
    except PortalRefusedError as refusal:
        if refusal.status not in {400, 413}:
            raise
        raise HistoryError(f"{refusal.detail} Fewer days are shorter: --history {max(1, days // 4)}") from refusal
    except PortalAwayError as away:
        raise HistoryError(f"{away}: try again later") from away
    finally:
        await portal.close()
    sys.stdout.write(
        f"The laboratory simulates the {answer['jobs']} that ran, under Berth's rule and others. That takes minutes.\n"
        f"  {settings.url}{answer['page']}\n"
        f"Open it as {answer['owner']}.\n"
    )


async def _serve(settings: BridgeSettings) -> None:
    descriptor = descriptor_take()
    signs = asyncio.create_task(sign_for_ever(descriptor)) if descriptor is not None else None
    engine, verify = _engine(settings), _verify(settings)
    description = await _describe(settings, engine)
    token = await _token(settings, description, verify)
    portal = BridgePortal(settings.url, token=token, verify=verify)
    bridge = Bridge(
        settings=settings,
        portal=portal,
        engine=engine,
        runner=engine.runner,
        description=description,
    )
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await bridge.run()
    finally:
        await portal.close()
        if signs is not None:
            signs.cancel()


def main(argv: list[str] | None = None) -> int:
    try:
        given = arguments_parser().parse_args(argv)
        settings = settings_read(given)
        (settings.dir / "private").mkdir(parents=True, exist_ok=True, mode=0o700)
        if given.check:
            return _check(settings, try_job=given.try_job, as_json=given.json)
        log.log_setup(node=f"bridge-{settings.partition}")
        if given.history:
            asyncio.run(_history(settings, given.history))
            return 0
        with hold_agent(settings.dir / "private"):
            asyncio.run(_serve(settings))
    except (SettingError, TrustError, PortalRefusedError, HistoryError) as error:
        sys.stderr.write(f"./berth bridge: {error}\n")
        return NO_USE_TO_RETRY
    except (asyncio.CancelledError, KeyboardInterrupt):
        log.info("bridge ends; pilots run on")
    return 0
