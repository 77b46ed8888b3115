"""Nodes, rounds and the user of the token, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.rest import Rest, operation

if TYPE_CHECKING:
    from berth_client.shapes import Engine, EngineDetail, Me, Node, NodeDetail, Page


class Cluster(Rest):
    @operation("GET", "/me")
    def me(self) -> Me: ...

    @operation("GET", "/nodes")
    def nodes_list(
        self,
        *,
        gpu_type: str | None = None,
        hours: int | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Node]: ...

    @operation("GET", "/nodes/{name}")
    def nodes_show(self, name: str, *, hours: int | None = None) -> NodeDetail: ...

    @operation("POST", "/nodes/{name}/drain")
    def nodes_drain(self, name: str, *, reason: str) -> NodeDetail: ...

    @operation("POST", "/nodes/{name}/resume")
    def nodes_resume(self, name: str) -> NodeDetail: ...

    @operation("POST", "/nodes/{name}/dead")
    def nodes_dead(self, name: str, *, reason: str) -> NodeDetail: ...

    @operation("POST", "/nodes/{name}/gpus/{index}/cordon")
    def gpus_cordon(self, name: str, index: int, *, reason: str) -> NodeDetail: ...

    @operation("POST", "/nodes/{name}/gpus/{index}/resume")
    def gpus_resume(self, name: str, index: int) -> NodeDetail: ...

    @operation("GET", "/engines")
    def engines_list(
        self,
        *,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Engine]: ...

    @operation("GET", "/engines/{name}")
    def engines_show(self, name: str) -> EngineDetail: ...

    @operation("GET", "/rounds")
    def rounds_list(
        self,
        *,
        since: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[dict[str, Any]]: ...

    @operation("GET", "/rounds/{number}")
    def rounds_show(self, number: int | str) -> dict[str, Any]: ...

    @operation("GET", "/plannings/{number}")
    def plannings_show(
        self, number: int | str, *, page: int | None = None, page_size: int | None = None
    ) -> dict[str, Any]: ...

    @operation("GET", "/neighbours")
    def neighbours_list(
        self,
        *,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[dict[str, Any]]: ...

    @operation("GET", "/sharing")
    def sharing_show(self, *, range: str | None = None) -> dict[str, Any]: ...  # noqa: A002 - as in REST

    @operation("GET", "/sharing/decisions")
    def sharing_decisions_list(
        self,
        *,
        range: str | None = None,  # noqa: A002 - as in REST
        only: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[dict[str, Any]]: ...

    @operation("GET", "/metrics")
    def metrics(self, *, range: str | None = None, since: str | None = None) -> dict[str, Any]: ...  # noqa: A002 - as in REST
