"""Nodes, rounds and the user of the token, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.rest import Rest, part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from berth_client.shapes import Me, Node, NodeDetail, Page


class Cluster(Rest):
    def me(self) -> Me:
        found: Me = self.ask("GET", "/me")
        return found

    def nodes_list(
        self,
        *,
        gpu_type: str | None = None,
        hours: int | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Node]:
        query = {
            "gpu_type": gpu_type,
            "hours": hours,
            "ordering": ordering,
            "after": after,
            "page": page,
            "page_size": page_size,
        }
        found: Page[Node] = self.ask("GET", "/nodes", query=query)
        return found

    def nodes_each(self, *, most: int | None = None, **filters: Any) -> Iterator[Node]:
        """Yield the nodes of `nodes_list(**filters)`, page by page, at most `most`."""
        yield from self.each("/nodes", query=filters, most=most)  # type: ignore[misc] # rows are what REST says they are

    def nodes_show(self, name: str, *, hours: int | None = None) -> NodeDetail:
        return self._node("GET", name, query={"hours": hours})

    def nodes_drain(self, name: str, *, reason: str) -> NodeDetail:
        return self._node("POST", name, "/drain", body={"reason": reason})

    def nodes_resume(self, name: str) -> NodeDetail:
        return self._node("POST", name, "/resume")

    def nodes_dead(self, name: str, *, reason: str) -> NodeDetail:
        return self._node("POST", name, "/dead", body={"reason": reason})

    def gpus_cordon(self, name: str, index: int, *, reason: str) -> NodeDetail:
        return self._node("POST", name, f"/gpus/{part(index)}/cordon", body={"reason": reason})

    def gpus_resume(self, name: str, index: int) -> NodeDetail:
        return self._node("POST", name, f"/gpus/{part(index)}/resume")

    def rounds_list(
        self,
        *,
        since: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[dict[str, Any]]:
        query = {"since": since, "ordering": ordering, "after": after, "page": page, "page_size": page_size}
        found: Page[dict[str, Any]] = self.ask("GET", "/rounds", query=query)
        return found

    def rounds_show(self, number: int | str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/rounds/{part(number)}")
        return found

    def plannings_show(
        self, number: int | str, *, page: int | None = None, page_size: int | None = None
    ) -> dict[str, Any]:
        query = {"page": page, "page_size": page_size}
        found: dict[str, Any] = self.ask("GET", f"/plannings/{part(number)}", query=query)
        return found

    def neighbours_list(
        self,
        *,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[dict[str, Any]]:
        query = {"ordering": ordering, "after": after, "page": page, "page_size": page_size}
        found: Page[dict[str, Any]] = self.ask("GET", "/neighbours", query=query)
        return found

    def sharing_show(self, *, range: str | None = None) -> dict[str, Any]:  # noqa: A002 - as in REST
        found: dict[str, Any] = self.ask("GET", "/sharing", query={"range": range})
        return found

    def sharing_decisions_list(
        self,
        *,
        range: str | None = None,  # noqa: A002 - as in REST
        only: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[dict[str, Any]]:
        query = {"range": range, "only": only, "after": after, "page": page, "page_size": page_size}
        found: Page[dict[str, Any]] = self.ask("GET", "/sharing/decisions", query=query)
        return found

    def metrics(self, *, range: str | None = None, since: str | None = None) -> dict[str, Any]:  # noqa: A002 - as in REST
        found: dict[str, Any] = self.ask("GET", "/metrics", query={"range": range, "since": since})
        return found

    def _node(self, method: str, name: str, verb: str = "", **more: Any) -> NodeDetail:
        found: NodeDetail = self.ask(method, f"/nodes/{part(name)}{verb}", **more)
        return found
