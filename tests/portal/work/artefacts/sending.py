"""A node that tells of files and sends them, through the agents' own door."""

import hashlib
import json

from django.test import Client

from portal.cluster.models import Node
from portal.people.tenants.services import secret_digest

NS = 1_700_000_000_000_000_000


class Sender:
    def __init__(self, cluster, attempt, *, rank=0, secret="berthnode_test"):
        self.attempt, self.rank, self.secret = attempt, rank, secret
        node = attempt.allocations.get(rank=rank).node
        Node.objects.filter(pk=node.pk).update(token_digest=secret_digest(secret))

    @property
    def part(self):
        return {"attempt": self.attempt.key, "epoch": self.attempt.epoch, "rank": self.rank}

    def post(self, door, body, query=None):
        is_raw = isinstance(body, bytes)
        answer = Client().post(
            f"/api/agent/v1/{door}",
            body if is_raw else json.dumps(body),
            content_type="application/octet-stream" if is_raw else "application/json",
            query_params=query,
            headers={"Authorization": f"Bearer {self.secret}"},
        )
        return answer.status_code, answer.json()

    def tell(self, *files, gone=(), notes=None, notes_more=0):
        told = [{"path": path, "size": size, "modified_ns": ns} for path, size, ns in files]
        body = {"boot_id": "boot-1", "files": told, "gone": list(gone), "notes": notes, "notes_more": notes_more}
        return self.post("artefacts", {**self.part, **body})

    def piece(self, path, content, *, start=0, stop=None, ns=NS, **more):
        data = content[start:stop]
        query = {
            **self.part,
            "path": path,
            "size": len(content),
            "modified_ns": ns,
            "offset": start,
            "piece": hashlib.sha256(data).hexdigest(),
            "whole": hashlib.sha256(content).hexdigest(),
        }
        return self.post("artefacts/piece", data, query | more)

    def send(self, path, content, *, ns=NS):
        status, answer = self.tell((path, len(content), ns))
        assert status == 200, answer
        if answer["files"][0]["state"] == "send":
            assert self.piece(path, content, ns=ns) == (200, {"next_offset": len(content), "kept": True})
        return answer["files"][0]
