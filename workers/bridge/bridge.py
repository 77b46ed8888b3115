"""The bridge's loop: look at the other scheduler, tell the portal, carry out its orders.

The bridge keeps nothing: the portal has the orders, the other scheduler has the jobs. So it may be killed at any step.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from typing import TYPE_CHECKING

from workers.bridge.pilot import pilot_script, token_path
from workers.portal_client import Backoff, PortalAwayError
from workers.protocol.engine import Away, RefusedError, UnknownError
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workers.bridge.command import Runner
    from workers.bridge.settings import BridgeSettings
    from workers.portal_client import BridgePortal
    from workers.protocol.engine import (
        AwayBody,
        ClusterEngine,
        EngineDescription,
        ExchangeAnswer,
        ExchangeBody,
        Follow,
        NodeSeen,
        Order,
        OrderSeen,
        Refused,
    )

INVENTORY_EVERY_S = 15.0
PREFIX = "berth-"


class Bridge:
    """Carries orders between a portal and an engine. Calls of the engine block, and run in a thread."""

    def __init__(
        self,
        *,
        settings: BridgeSettings,
        portal: BridgePortal,
        engine: ClusterEngine,
        runner: Runner,
        description: EngineDescription,
    ) -> None:
        self._settings, self._portal, self._engine, self._runner = settings, portal, engine, runner
        self._description = description
        self._away: AwayBody | None = None
        self._refused: list[Refused] = []
        self._nodes: list[NodeSeen] = []
        self._nodes_at = -INVENTORY_EVERY_S

    async def run(self) -> None:
        """Go on for ever. Raises PortalRefusedError when the portal knows this bridge no more."""
        backoff = Backoff(0.5, 10.0)
        while True:
            try:
                answer = await self.step()
                backoff.reset()
                pause_s = answer["period_s"]
            except PortalAwayError as error:
                log.warning("portal away", reason=str(error))
                pause_s = backoff.next_s()
            await asyncio.sleep(pause_s)

    async def step(self) -> ExchangeAnswer:
        """Look, tell, and carry out. Raises PortalAwayError or PortalRefusedError."""
        body = await asyncio.to_thread(self._look)
        answer = await self._portal.exchange(body)
        self._refused.clear()
        if self._away is None:
            await asyncio.to_thread(self._strays_end, body["orders"], answer["follow"])
            await asyncio.to_thread(self._carry_out, answer)
        return answer

    def _strays_end(self, orders: Sequence[OrderSeen], follow: Sequence[Follow]) -> None:
        """End jobs of orders that the portal does not know, or has given up: nobody would ever end them."""
        known = {each["name"] for each in follow}
        for order in orders:
            if order["state"] != "ended" and order["name"] not in known:
                log.warning(
                    "a job of an order that the portal does not follow", order=order["name"], job=order["ticket"]
                )
                self._engine.stop(order["ticket"], order["name"])

    def _look(self) -> ExchangeBody:
        nodes = None
        seen = self._engine.look()
        if not isinstance(seen, Away) and time.monotonic() - self._nodes_at >= INVENTORY_EVERY_S:
            found = self._engine.inventory()
            if isinstance(found, Away):
                seen = found
            else:
                nodes = found if found != self._nodes else None
                self._nodes, self._nodes_at = found, time.monotonic()
        self._note(seen if isinstance(seen, Away) else None)
        body: ExchangeBody = {
            "engine": self._description,
            "away": self._away,
            "nodes": nodes,
            "orders": [],
            "refused": list(self._refused),
        }
        if not isinstance(seen, Away):
            for double in seen.doubles:
                log.warning("a second job of one order", order=double["name"], job=double["ticket"])
                self._engine.stop(double["ticket"], double["name"])
            body["orders"] = list(seen.orders.values())
        return body

    def _note(self, away: Away | None) -> None:
        if away is not None and self._away is None:
            self._away = {"since": time.time(), "reason": away.reason}
            log.warning("the other scheduler does not answer", reason=away.reason)
        elif away is None and self._away is not None:
            log.info("the other scheduler answers again", after_s=round(time.time() - self._away["since"], 1))
            self._away = None

    def _carry_out(self, answer: ExchangeAnswer) -> None:
        for each in answer["stop"]:
            if each["ticket"]:
                self._engine.stop(each["ticket"], each["name"])
        for order in answer["submit"]:
            if not self._submit(order):
                return

    def _submit(self, order: Order) -> bool:
        """Submit an order that the last look did not show. Return False when the other scheduler does not answer."""
        name = order["name"]
        if order["again"]:
            found = self._engine.look([name])
            if isinstance(found, Away):
                return False
            if name in found.orders:
                return True
        whole = order["gpus"] == 0
        self._runner.put(str(token_path(self._settings.shared_dir, name)), order["join_token"])
        script = pilot_script(
            order=name,
            whole=whole,
            berth=self._settings.berth,
            url=self._settings.url,
            directory=self._settings.shared_dir,
            node_dir=self._settings.node_dir,
            flags=self._node_flags(),
        )
        try:
            ticket = self._engine.submit(self._with_share(order), script)
        except RefusedError as refusal:
            log.warning("order refused", order=name, reason=str(refusal))
            self._refused.append({"name": name, "reason": str(refusal)[:300]})
        except UnknownError as error:
            log.warning("order sent, and no answer", order=name, reason=str(error))
            return False
        else:
            log.info("order submitted", order=name, job=ticket)
        return True

    def _node_flags(self) -> list[str]:
        own = self._settings
        flags = ["--leave-s", f"{own.leave_s:g}", "--closed", str(own.shared_dir / "private")]
        flags += [
            "--storage-domain",
            f"{self._description['cluster']}/{own.partition}",
            "--storage-dir",
            str(own.storage_dir),
        ]
        if own.ca_sha256:
            flags += ["--ca-sha256", own.ca_sha256]
        return [*flags, *(["--insecure"] if own.insecure else []), *shlex.split(own.node_flags)]

    def _with_share(self, order: Order) -> Order:
        """Return the order with cores and memory: of a part of a node, its GPUs' share of the smallest node that has so many."""
        fitting = [
            (node["cores"] * order["gpus"] // total, node["memory_mib"] * order["gpus"] // total)
            for node in self._nodes
            if (total := sum(node["gpus"].values())) >= max(1, order["gpus"])
        ]
        if order["gpus"] == 0 or not fitting:
            return order
        cores, memory_mib = min(fitting)
        return {**order, "cores": order["cores"] or max(1, cores), "memory_mib": order["memory_mib"] or memory_mib}
