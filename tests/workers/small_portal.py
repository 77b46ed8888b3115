"""A portal of one file that speaks docs/agent-protocol.md, strictly: what the agent is tested against."""

from __future__ import annotations

import base64
import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.messages import unlike
from tests.real_messages import HELLO, WANTED
from tests.workers.specs import spec_make
from workers.protocol import inventory, wire

JOIN_TOKEN = "join-1"
NODE_TOKEN = "node-1"
TOGETHER_BYTES, MOST_PIECES = HELLO["logs_together_bytes"], 64
SAID = {
    "register": inventory.Inventory,
    "hello": inventory.Inventory,
    "report": wire.ReportBody,
    "records": wire.RecordsBody,
    "telemetry": wire.Telemetry,
    "logs/together": wire.LogsBody,
    "artefacts": wire.ArtefactsRequest,
}
"""What an agent says at each door."""
ANSWERED = {
    "register": wire.Registered,
    "hello": wire.Hello,
    "sync": wire.Sync,
    "report": wire.ReportAnswer,
    "records": wire.RecordsAnswer,
    "logs/together": wire.LogsAnswer,
    "artefacts": wire.ArtefactsAnswer,
}
"""What a portal answers there."""


class RefusalError(Exception):
    def __init__(self, status: int, code: str, **more: Any) -> None:
        self.status, self.body = status, {"error": {"code": code, "field": None, "detail": code}, **more}


class SmallPortal:
    """State and rules; `away` closes every door, `revoked` answers 401."""

    def __init__(
        self,
        *,
        lease_s: float = 900,
        grace_s: float = 2,
        lease_grace_s: float = 6,
        report_period_s: float = 5,
        host: str = "127.0.0.1",
    ) -> None:
        self.lock = threading.Condition()
        self.hello = HELLO | {
            "lease_s": lease_s,
            "report_period_s": report_period_s,
            "grace_s": grace_s,
            "lease_grace_s": lease_grace_s,
        }
        self.revision = 0
        self.wanted: dict[tuple, dict] = {}
        self.specs: dict[tuple, dict] = {}
        self.closed: set[tuple] = set()
        self.sequences: dict[tuple, int] = {}
        self.reports: list[dict] = []
        self.report_lengths: list[int] = []
        self.holding: list[dict] = []
        self.refused: list[dict] = []
        self.spec_calls: list[str] = []
        self.secrets: dict[str, str] | None = None  # of every part; None: the portal knows none of that name
        self.logs: dict[tuple, bytes] = {}
        self.together: list[list[dict]] = []
        self.poison: set[tuple] = set()  # parts whose output and records this portal cannot take
        self.log_offsets: list[tuple[int, bool]] = []
        self.telemetry: list[dict] = []
        self.records: dict[tuple, list[dict]] = {}
        self.record_offsets: dict[tuple, int] = {}
        self.records_dropped = 0
        self.inventories: list[dict] = []
        self.problems: list[dict] = []
        self.disk: dict | None = None
        self.health: dict | None = None
        self.heartbeat_s: float | None = None
        self.environments: dict[str, str] | None = None
        self.calls: list[tuple[float, str]] = []
        self.artefacts: dict[tuple, list[str]] = {}
        self.said: dict[str, list[dict]] = {}
        self.strange: list[str] = []
        """In what messages and answers were not what they are declared to be."""
        self.revoked = False
        self.away = False
        self.swallow_reports = False
        self.server = ThreadingHTTPServer((host, 0), _handler(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.server.server_address[:2])

    def close(self) -> None:
        self.away = True
        with self.lock:
            self.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()

    # What a test does

    def want(
        self,
        *,
        attempt: int = 1,
        epoch: int = 1,
        rank: int = 0,
        job: int = 1,
        go: bool = True,
        lease: bool = False,
        **spec: Any,
    ) -> tuple:
        name, job_key = str(attempt), str(job)  # what keys are made of does not matter to a node
        key = (name, epoch, rank)
        with self.lock:
            of = {"attempt": name, "job": job, "job_key": job_key, "epoch": epoch, "rank": rank}
            self.specs[key] = spec_make(**of | {"grace_s": self.hello["grace_s"]} | spec)
            self.wanted[key] = {
                **WANTED,
                **of,
                "go": go,
                "grace_s": self.hello["grace_s"],
                "lease_s": self.hello["lease_s"] if lease else None,
                "cores": self.specs[key]["cores"],
                "time_limit_s": self.specs[key]["time_limit_s"],
                "gpu_memory_mib": self.specs[key]["gpu_memory_mib"],
            }
            self._changed()
        return key

    def change(self, key: tuple, **fields: Any) -> None:
        with self.lock:
            self.wanted[key].update(fields)
            self._changed()

    def stop(self, key: tuple, *, reason: str = "cancel", grace_s: float = 1) -> None:
        self.change(key, action="stop", stop_reason=reason, grace_s=grace_s)

    def restore(self, key: tuple, *, state: str = "wanted", log: bytes = b"", **changes: Any) -> None:
        """Know of a part what a backup from its beginning knew: it is wanted, and was told no more than `state`."""
        with self.lock:
            name, epoch, rank = key
            if key not in self.wanted:
                self.want(attempt=int(name), epoch=epoch, rank=rank, job=int(self.specs[key]["job"]))
            self.wanted[key].update(state=state, started=state != "wanted", **changes)
            self.closed.discard(key)
            self.sequences.pop(key, None)
            self.reports = [r for r in self.reports if (r["attempt"], r["epoch"], r["rank"]) != key]
            self.logs = {k: v for k, v in self.logs.items() if k[:3] != key} | {(*key, "stdout"): log}
            self._changed()

    def name_environments(self, **environments: str) -> None:
        with self.lock:
            self.environments = environments
            self._changed()

    def forget(self, key: tuple) -> None:
        with self.lock:
            del self.wanted[key]
            self.closed.add(key)
            self._changed()

    def wait_for(self, condition: Any, *, within_s: float = 60.0) -> Any:
        """The condition's first truthy value."""
        end = time.monotonic() + within_s
        with self.lock:
            while not (value := condition()):
                if time.monotonic() > end:
                    raise AssertionError(f"not within {within_s} s; reports {self.reports}, refused {self.refused}")
                self.lock.wait(0.05)
        return value

    def report_of(self, key: tuple, state: str) -> dict | None:
        return next(
            (r for r in self.reports if (r["attempt"], r["epoch"], r["rank"], r["state"]) == (*key, state)), None
        )

    def wait_report(self, key: tuple, state: str, *, within_s: float = 60.0) -> dict:
        return self.wait_for(lambda: self.report_of(key, state), within_s=within_s)

    def longest_silence(self, path: str, *, since: float) -> float:
        """The longest time (s) between two calls of this kind from `since` (monotonic) until now."""
        times = [since, *(at for at, called in self.calls if called == path and at > since), time.monotonic()]
        return max(after - before for before, after in itertools.pairwise(times))

    # What the agent asks

    def _changed(self) -> None:
        self.revision += 1
        self.lock.notify_all()

    def register(self, body: dict) -> dict:
        self.inventories.append(body)
        return {"node": 1, "name": body["name"], "token": NODE_TOKEN}

    def say_hello(self, body: dict) -> dict:
        self.inventories.append(body)
        return {**self.hello, "name": body["name"]}

    def sync(self, revision: int, wait_s: float) -> dict:
        end = time.monotonic() + wait_s
        while revision == self.revision and time.monotonic() < end and not self.away:
            self.lock.wait(0.1)
        told = {} if self.heartbeat_s is None else {"heartbeat_s": self.heartbeat_s}
        told |= {} if self.environments is None else {"environments": self.environments}
        return {"revision": self.revision, "attempts": list(self.wanted.values()), **told}

    def spec(self, attempt: str) -> dict:
        self.spec_calls.append(attempt)
        live = [k for k in self.wanted if k[0] == attempt]
        if not live:
            raise RefusalError(404, "not_found")
        return self.specs[max(live)]

    def report(self, body: dict) -> dict:
        self.problems = body.get("problems", [])
        self.disk = body.get("disk")
        self.holding = body["holding"]
        self.health = body.get("health")
        if self.swallow_reports:
            raise RefusalError(503, "away")
        self.report_lengths += [len(body["reports"]), len(body["holding"])]
        if max(self.report_lengths) > 500:
            raise RefusalError(400, "max_length")
        answer: dict = {"accepted": [], "refused": [], "leases": [], "stop": []}
        for report in body["reports"]:
            key = (report["attempt"], report["epoch"], report["rank"])
            name = {k: report[k] for k in ("attempt", "epoch", "rank", "sequence")}
            code = "stale_epoch" if key not in self.wanted else None
            if code is None and report["sequence"] <= self.sequences.get(key, 0):
                code = "stale_sequence"
            if code:
                self.refused.append({**report, "code": code})
                answer["refused"].append({**name, "code": code})
                continue
            self.sequences[key] = report["sequence"]
            self.reports.append(report)
            answer["accepted"].append(name)
            self.wanted[key] |= {"state": report["state"], "started": True}
            if report["state"] == "ended":
                del self.wanted[key]
                self.closed.add(key)
                self._changed()
        for part in body["holding"]:
            name = {k: part[k] for k in ("attempt", "epoch", "rank")}
            wanted = self.wanted.get(tuple(name.values()))
            if wanted is None:
                answer["stop"].append(name)
            elif wanted["lease_s"] is not None:
                answer["leases"].append({**name, "lease_s": wanted["lease_s"]})
        return answer

    def take_logs(self, query: dict, data: bytes) -> dict:
        key = (query["attempt"], int(query["epoch"]), int(query["rank"]), query["stream"])
        if key[:3] in self.poison:
            raise RefusalError(500, "internal")
        stored = self.logs.get(key, b"")
        taken = int(query["offset"]) == len(stored)
        self.log_offsets.append((int(query["offset"]), taken))
        if not taken:
            raise RefusalError(409, "offset_mismatch", next_offset=len(stored))
        limit = self.specs[key[:3]]["log_limit_bytes"]
        self.logs[key] = (stored + data)[:limit]
        return {"next_offset": len(self.logs[key]), "full": len(self.logs[key]) >= limit}

    def take_logs_together(self, body: dict) -> dict:
        if "logs_together_bytes" not in self.hello:
            raise RefusalError(404, "not_found")
        sent = [base64.b64decode(piece["data"], validate=True) for piece in body["pieces"]]
        if len(sent) > MOST_PIECES or sum(map(len, sent)) > TOGETHER_BYTES:
            raise RefusalError(400, "too_long")
        self.together.append(body["pieces"])
        answers = []
        for piece, data in zip(body["pieces"], sent, strict=True):
            name = {field: piece[field] for field in ("attempt", "epoch", "rank", "stream")}
            if (piece["attempt"], piece["epoch"], piece["rank"]) not in self.specs:
                answers.append({**name, "next_offset": 0, "full": False, "code": "unknown_part"})
                continue
            try:
                answers.append({**name, "code": None, **self.take_logs(piece, data)})
            except RefusalError as refusal:
                if refusal.status != 409:
                    raise
                next_offset = refusal.body["next_offset"]
                answers.append({**name, "next_offset": next_offset, "full": False, "code": "offset_mismatch"})
        return {"pieces": answers}

    def take_records(self, body: dict) -> dict:
        answer = []
        for part in body["parts"]:
            key = (part["attempt"], part["epoch"], part["rank"])
            if key in self.poison:
                raise RefusalError(500, "internal")
            stored = self.record_offsets.get(key, 0)
            taken = part["offset"] == stored
            if taken:
                self.records.setdefault(key, []).extend(part["records"])
                self.record_offsets[key] = stored = part["next_offset"]
                self.records_dropped += part["dropped"]
            name = {k: part[k] for k in ("attempt", "epoch", "rank")}
            answer.append({**name, "next_offset": stored, "code": None if taken else "offset_mismatch"})
        return {"parts": answer}

    def take_artefacts(self, body: dict) -> dict:
        """Have all of them already: bytes are for other tests."""
        paths = [each["path"] for each in body["files"]]
        self.artefacts.setdefault((body["attempt"], body["epoch"], body["rank"]), []).extend(paths)
        return {"files": [{"path": path, "state": "kept", "offset": 0, "detail": ""} for path in paths]}

    def answer(self, method: str, path: str, query: dict, body: bytes, token: str) -> Any:
        if self.revoked or token != (JOIN_TOKEN if path == "register" else NODE_TOKEN):
            raise RefusalError(401, "bad_token")
        value = json.loads(body) if body and path != "logs" else None
        self.calls.append((time.monotonic(), path))
        if path in SAID:
            self.strange += unlike(value, SAID[path], path)
            self.said.setdefault(path, []).append(value)
        with self.lock:
            self.lock.notify_all()
            if (method, path) == ("GET", "sync"):
                return self.sync(int(query["revision"]), float(query["wait"]))
            if method == "GET" and path.endswith("/secrets"):
                if self.secrets is None:
                    raise RefusalError(400, "unknown_secret")
                return {"environment": self.secrets, "code": ""}
            if method == "GET" and path.startswith("attempts/"):
                return self.spec(path.split("/")[1])
            if path == "logs":
                return self.take_logs(query, body)
            if path == "telemetry":
                self.telemetry.append(value)
                return None
            return {
                "register": self.register,
                "hello": self.say_hello,
                "report": self.report,
                "records": self.take_records,
                "artefacts": self.take_artefacts,
                "logs/together": self.take_logs_together,
            }[path](value)


def _handler(portal: SmallPortal) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            parts = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(parts.query).items()}
            body = self.rfile.read(length := int(self.headers.get("Content-Length", 0)))
            if len(body) < length:  # the agent was killed while it sent
                self.close_connection = True
                return
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if portal.away:
                self.close_connection = True
                self.connection.close()
                return
            try:
                path = parts.path.removeprefix("/api/agent/v1/")
                status, value = 200, portal.answer(self.command, path, query, body, token)
                portal.strange += unlike(value, ANSWERED[path], path) if path in ANSWERED else []
            except RefusalError as refusal:
                status, value = refusal.status, refusal.body
            data = b"" if value is None else json.dumps(value).encode()
            if portal.away:  # went away while this one waited
                self.close_connection = True
                return
            self.send_response(status if data else 204)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _do  # noqa: N815 - names that http.server looks for

        def log_message(self, *_: Any) -> None:
            return

    return Handler
