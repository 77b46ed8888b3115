"""The program `python -m workers.agent`: its settings, its signals, and its way out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workers.agent import alive
from workers.agent.agent import Agent
from workers.agent.alive import HeldError, agent_end, hold_agent
from workers.agent.allocation import OFF, closes_ask
from workers.agent.enrol import EnrolError, TrustError, enrol
from workers.agent.inventory import Software, software_find
from workers.agent.isolation import Means, isolation_find, walls_of
from workers.agent.measuring import Measuring
from workers.agent.settings import AgentSettings, SettingError, arguments_parser, settings_read
from workers.agent.sources import sources_for
from workers.controls.cgroups import groups_sweep
from workers.engines.process import ProcessEngine
from workers.environments.programs import programs_make
from workers.networks.finding import network_find
from workers.networks.networks import rules_remove
from workers.networks.site import MOST_ADDRESSES, own_addresses
from workers.parts.accounts import NOBODYS
from workers.parts.channel import Channel
from workers.parts.journal import Journal
from workers.portal_client import Portal
from workers.protocol.inventory import Inventory, Wall, wall
from workers.system import log
from workers.system.files import entries, fix_modes, write_json
from workers.system.filework import FileWork
from workers.system.gpus import mps_daemon
from workers.system.procs import boot_id, boottime, hide

if TYPE_CHECKING:
    import argparse

    from workers.parts.part import Part

NO_USE_TO_RETRY = 2
"""Exit code for an error that only a person can mend. A supervisor does not start the agent again after it."""
MPS, SLICES = "MPS", "time slicing"
# After the grace a shim needs up to this long to see that all processes are dead, and to write its result.
_PATIENCE_S = 15.0


async def _serve(settings: AgentSettings) -> None:
    pipe = alive.descriptor_take()
    signs = None if pipe is None else asyncio.create_task(alive.sign_for_ever(pipe))
    try:
        await _serve_alive(settings)
    finally:
        if signs is not None:
            signs.cancel()


async def _serve_alive(settings: AgentSettings) -> None:
    files = FileWork()
    sources, inventory = await sources_for(settings, files)
    programs_make(settings.dir)
    isolation, means = isolation_find(settings)
    inventory["links"] = {**inventory["links"], "addresses": list(own_addresses()[:MOST_ADDRESSES])}
    inventory["isolation"], inventory["single_account"] = isolation, not means.accounts
    if means.devices is not None:
        wholes = {gpu.uuid: gpu.whole_uuid for gpu in sources.sampler.gpus() if gpu.whole_uuid}
        means = replace(means, devices=means.devices.with_instances(wholes))
    told, pipes = gpu_sharing_find(settings, inventory, means)
    network, site, members = network_find(
        settings.dir / "parts",
        settings.url,
        settings.jobs_network,
        settings.jobs_open,
        NOBODYS if means.accounts else None,
    )
    means = replace(means, mps=pipes, site=site, members=members)
    isolation["walls"] = [*isolation.get("walls", ()), network, *told]
    if isolation["why"]:
        log.warning("isolation of jobs", files=isolation["files"], signals=isolation["signals"], why=isolation["why"])
    software = Software(software_find(settings), closed=walls_of(settings).closed)
    inventory["software"] = software.offer.to_wire()
    if (ends_at := await asyncio.to_thread(closes_ask, settings.allocation, settings.leave_s)) is not None:
        inventory["ends_at"] = ends_at
    token, verify = await enrol(settings, inventory)
    portal = Portal(settings.url, token=token, verify=verify)
    measuring = Measuring(sources=sources, files=files, mps=settings.mps_pipes)
    channel = Channel(settings.url, token=token, verify=verify)
    agent = Agent(
        settings=settings,
        portal=portal,
        inventory=inventory,
        measuring=measuring,
        files=files,
        means=means,
        software=software,
        channel=channel,
    )
    task = asyncio.current_task()
    assert task is not None
    agent.on_left = task.cancel
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, lambda: agent.end() or task.cancel())
    try:
        await agent.run()
    finally:
        await channel.close()
        await portal.close()


def _complain(sentence: str, code: int = 1) -> int:
    sys.stderr.write(f"workers.agent: {sentence}\n")
    return code


def _offline(given: argparse.Namespace) -> int:
    if given.dir is None or not Path(given.dir).is_dir():
        return _complain("--dir must name the directory of an agent")
    try:
        if given.keep_jobs is not None:
            return keep_jobs(Path(given.dir).resolve(), given.keep_jobs)
        return stop_all(Path(given.dir).resolve(), given.grace)
    except HeldError as error:
        return _complain(str(error))


def main(argv: list[str] | None = None) -> int:
    hide()
    given = arguments_parser().parse_args(argv)
    if given.keep_jobs is not None or given.stop_all:
        return _offline(given)
    try:
        settings = settings_read(given)
        if given.check_isolation:
            sys.stdout.write(json.dumps(isolation_find(settings)[0]) + "\n")
            return 0
        settings.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        fix_modes(entries(settings.dir, settings.dir / "parts"))
        fix_modes(entries(*(settings.dir / "parts").glob("*")))
        log.log_setup(node=settings.name)
        with hold_agent(settings.dir), contextlib.suppress(asyncio.CancelledError, KeyboardInterrupt):
            groups_sweep(settings.dir / "parts")
            asyncio.run(_serve(settings))
    except (SettingError, TrustError, EnrolError) as error:
        return _complain(str(error), NO_USE_TO_RETRY)
    except HeldError as error:
        return _complain(str(error))
    log.info("agent ends" if settings.allocation != OFF else "agent ends; jobs run on")
    return 0


def gpu_sharing_find(settings: AgentSettings, inventory: Inventory, means: Means) -> tuple[list[Wall], Path | None]:
    """Return what to tell of it (nothing without GPUs), and the MPS daemon's pipes where shared jobs are to use it."""
    if not inventory["gpus"]:
        return [], None
    if inventory["virtual"]:
        return [wall("gpus", SLICES, "virtual GPUs: each takes its turn")], None
    found = mps_daemon(settings.mps_pipes)
    why = (
        found
        if isinstance(found, str)
        else "MPS serves one account at a time, and this node gives each tenant's jobs their own"
        if means.accounts or means.view
        else ""
    )
    return ([wall("gpus", SLICES, why)], None) if why else ([wall("gpus", MPS)], settings.mps_pipes)


def _answer(**values: float) -> int:
    sys.stdout.write(json.dumps(values) + "\n")
    return 0


def keep_jobs(directory: Path, hours: float) -> int:
    """End the agent. Every running job may run on for this long without a word from the portal."""
    agent_end(directory)
    with hold_agent(directory):
        journal, engine = Journal(directory), ProcessEngine()
        alive = [p for p in journal.parts.values() if p.live and engine.life(journal.directory(p)) == "alive"]
        for part in alive:
            path = journal.directory(part) / "maintenance.json"
            write_json(path, {"until": boottime() + hours * 3600, "boot_id": boot_id()})
    return _answer(kept=len(alive), hours=hours)


def stop_all(directory: Path, grace_s: float) -> int:
    """End the agent and all its jobs; return when none of their processes lives. The next agent reports the ends."""
    agent_end(directory)
    with hold_agent(directory):
        journal, engine = Journal(directory), ProcessEngine()
        live = [p for p in journal.parts.values() if p.live]
        stopped = sum(_stop(journal, engine, part, grace_s) for part in live)
        end = time.monotonic() + grace_s + _PATIENCE_S
        while any(engine.life(journal.directory(p)) == "alive" for p in live):
            if time.monotonic() > end:
                sys.stderr.write("workers.agent: some processes of jobs do not end, even after SIGKILL\n")
                return 1
            time.sleep(0.05)
        for part in live:
            if engine.life(journal.directory(part)) == "lost":
                engine.purge(journal.directory(part), mark=part.mark)
        rules_remove(directory / "parts")
    return _answer(stopped=stopped)


def _stop(journal: Journal, engine: ProcessEngine, part: Part, grace_s: float) -> bool:
    """Stop the part; return whether it ran. A part that has not started can no longer start."""
    path = journal.directory(part)
    if engine.life(path) == "absent" and engine.void(path):
        return False
    engine.stop(path, grace_s=grace_s, detail="the node was shut down")
    return engine.life(path) == "alive"
