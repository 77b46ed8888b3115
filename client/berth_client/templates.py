"""Job templates over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.rest import Rest, operation, part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth_client.shapes import JobDetail, Page, Plan, Template, TemplateDetail


class Templates(Rest):
    @operation("GET", "/templates")
    def templates_list(
        self,
        *,
        q: str | None = None,
        tenant: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Template]: ...

    @operation("GET", "/templates/{name}")
    def templates_show(
        self, name: str, *, version: int | None = None, tenant: str | None = None, operators: bool = False
    ) -> TemplateDetail: ...

    @operation("GET", "/templates/{name}/versions")
    def templates_versions(
        self,
        name: str,
        *,
        tenant: str | None = None,
        operators: bool = False,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[dict[str, Any]]: ...

    @operation("POST", "/templates")
    def templates_save(
        self,
        *,
        text: str | None = None,
        document: Mapping[str, Any] | None = None,
        files: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        operators: bool = False,
    ) -> TemplateDetail:
        """Keep a template, as YAML or as a document: a new one, or the next version of the one with its name.

        `files` come along besides those that it names.
        """

    @operation("DELETE", "/templates/{name}")
    def templates_delete(self, name: str, *, tenant: str | None = None, operators: bool = False) -> None: ...

    def templates_submit(
        self,
        name: str,
        *,
        values: Mapping[str, Any] | None = None,
        version: int | None = None,
        job: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        operators: bool = False,
        idempotency_key: str | None = None,
    ) -> JobDetail:
        """Submit a job from a template, once only. `tenant`: of template and job; `job`: fields in place of its own."""
        path = _path(name, "submit", operators)
        found: JobDetail = self.ask_once(path, _order(values, version, job, tenant), idempotency_key)
        return found

    def templates_plan(
        self,
        name: str,
        *,
        values: Mapping[str, Any] | None = None,
        version: int | None = None,
        job: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        operators: bool = False,
    ) -> Plan:
        path = _path(name, "plan", operators)
        found: Plan = self.ask("POST", path, body=_order(values, version, job, tenant))
        return found


def _path(name: str, verb: str, operators: bool) -> str:
    return f"/templates/{part(name)}/{verb}" + ("?operators=true" if operators else "")


def _order(
    values: Mapping[str, Any] | None, version: int | None, job: Mapping[str, Any] | None, tenant: str | None
) -> dict[str, Any]:
    given = {"values": dict(values or {}), "version": version, "job": job, "tenant": tenant}
    return {name: value for name, value in given.items() if value is not None}
