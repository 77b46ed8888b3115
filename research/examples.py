"""What fills the paths of pages and of REST: examples that the tests of rights, the benchmark, axe and the camera share.

A page is asked for as it is, with its path's arguments from `ARGUMENTS`, unless `EXAMPLES` has more ways. Names in braces
are filled by whoever asks, from a cluster of its own: `running`, `waiting`, `ended`, `failed` and `array` are jobs of one
tenant, `simulation` is its owner's alone, and so on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.urls import URLResolver, get_resolver

from portal.pages.registry import PAGES, Page, Readers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONVERTER = re.compile(r"<\w+:(\w+)>")
ARGUMENTS: dict[str, tuple[str, Readers]] = {
    "jobs/<str:number>": ("{running}", "tenant"),
    "cluster/<str:name>": ("{node}", "signed in"),
    "cluster/engines/<int:number>": ("{engine_number}", "signed in"),
    "nodes/<str:name>": ("{node}", "signed in"),
    "engines/<path:name>": ("{engine}", "signed in"),
    "rounds/plannings/<int:number>": ("{planning}", "signed in"),
    "plannings/<str:number>": ("{planning}", "signed in"),
    "rounds/<str:number>": ("{round}", "signed in"),
    "templates/<int:number>": ("{template_number}", "tenant"),
    "templates/<str:name>": ("{template}", "tenant"),
    "tenants/<slug:name>": ("{tenant}", "tenant"),
    "tenants/<str:name>": ("{tenant}", "tenant"),
    "laboratory/<int:number>": ("{simulation}", "owner"),
    "simulations/<str:number>": ("{simulation}", "owner"),
    "simulations/traces/<str:number>": ("{trace}", "owner"),
    "uploads/<str:digest>": ("{upload}", "tenant"),
}
"""Where a path of pages or of REST begins -> the example of its argument, and its readers."""


@dataclass(frozen=True)
class Example:
    """`label` is added to the route's name. `readers`: of this way, where they are not all of the page's."""

    label: str = ""
    query: str = ""
    readers: Readers | None = None
    args: Mapping[str, str] = field(default_factory=dict)


def each(argument: str, values: str, *queries: str, readers: Readers | None = None, **more: str) -> list[Example]:
    """Return an example for each value of an argument and each query."""
    return [
        Example(f" {value} {query if len(queries) > 1 else ''}".rstrip(), query, readers, {argument: value, **more})
        for value in values.split()
        for query in queries or [""]
    ]


def of(*jobs: str) -> list[Example]:
    return [Example(f" {job}", args={"number": f"{{{job}}}"}) for job in jobs]


PLAIN = Example()
PAIR, RUNS = "job={running}&job={ended}", "run={simulation}&run={other}"
EXAMPLES: dict[str, list[Example]] = {
    "overview": [
        PLAIN,
        Example(" mine", "view=mine"),
        Example(" tenant", "view={tenant}"),
        Example(" cluster", "view=cluster"),
    ],
    "home-part": each("name", "needs jobs share cluster", "view=mine"),
    "overview-fragment": each("name", "problems tiles nodes waits unused"),
    "queue": [PLAIN, Example(" list", "fragment=list")],
    "cluster-board": [PLAIN, Example(" 24 h", "h=24")],
    "cluster-rows": [Example("", "by=type&group={gpu_type}")],
    "cluster-fragment": each("name", "free nodes engines starts"),
    "engine-fragment": each("fragment", "head now"),
    "node-fragment": each("fragment", "now gpus happened card"),
    "node-figure": each("figure", "gpu gpu-memory power temperature cores memory network disk"),
    "sharing-curve": [],  # of a proposal, and none was trained
    "rounds": [PLAIN, Example(" table", "fragment=table")],
    "rounds-metrics": [
        PLAIN,
        Example(" 7 days", "range=7d"),
        Example(" nodes", "fragment=nodes&range=7d"),
        Example(" blocks", "fragment=blocks", "operators"),
    ],
    "sharing": [PLAIN, Example(" parts", "fragment=1")],
    "rounds-figure": each("name", "gpu cpu wait fragments waiting ended", "range=1h", "range=7d"),
    "tenant-usage": [PLAIN, Example(" 30 days", "range=30d")],
    "invitation": [],  # its secret is shown once
    "help": [PLAIN, Example(" found", "q=window")],
    "help-guide": each("name", "words users-guide operators-guide"),
    "help-image": each("name", "overview-light.png"),
    "job-list": [PLAIN, Example(" table", "fragment=table"), Example(" chips", "fragment=chips")],
    "job-compare": [
        PLAIN,
        Example(" one", "job={ended}", "tenant"),
        Example(" table", f"{PAIR}&fragment=table", "tenant"),
        Example(" three", f"{PAIR}&job={{waiting}}", "tenant"),
    ],
    "job-compare-figure": each("name", "speed gpu memory", PAIR),
    "job-submit": [PLAIN, Example(" again", "from={ended}", "tenant")],
    "job-detail": of("running", "waiting", "ended", "failed", "array"),
    "job-tasks": of("array"),
    "array-figure": [
        Example(label, f"metric=loss{query}", args={"number": "{array}"})
        for label, query in (("", ""), (" against", "&against=rate"))
    ],
    "array-csv": of("array"),
    "job-explain": of("waiting", "running"),
    "job-figure": each("name", "gpu cores memory"),
    "job-fragment": [
        *each("name", "header body over timeline log artefacts chain"),
        *each("name", "body", number="{waiting}"),
        *each("name", "body strip curves", number="{ended}"),
        *each("name", "header array tasks chain", number="{array}"),
    ],
    "job-sent": [],  # it names a file that came with a job
    "job-waiting": of("waiting"),
    "job-port": [],  # it leads to another origin
    "job-artefacts-fragment": each("name", "tree shown"),
    "job-artefacts-figure": [],  # these name a file that a job wrote
    "job-artefacts-picture": [],
    "job-artefacts-download": [],
    "template-new": [PLAIN, Example(" from", "from={ended}", "tenant")],
    "laboratory": [PLAIN, Example(" table", "fragment=table")],
    "laboratory-new": [PLAIN, Example(" again", "from={simulation}", "owner")],
    "laboratory-detail": [PLAIN, Example(" state", "fragment=state"), Example(" progress", "fragment=progress")],
    "laboratory-figure": each("name", "held"),
    "laboratory-compare": [Example("", RUNS)],
    "laboratory-compare-figure": each("name", "held", RUNS),
    "api-job": of("waiting", "running"),
    "api-job-explain": of("waiting", "running"),
    "api-job-artefact": [],  # these name a file that a job wrote
    "api-job-artefacts-tar": [],
    "api-simulation-report": [PLAIN, Example(" csv", "format=csv")],
    "api-usage": [PLAIN, Example(" csv", "format=csv")],
}


@dataclass(frozen=True)
class Route:
    """A pattern of the resolver. `page`: its entry in the registry; a route of REST, of the console and the like has none."""

    name: str
    pattern: str
    view: Any

    @property
    def page(self) -> Page | None:
        return PAGES.get(self.name)

    @property
    def is_rest(self) -> bool:
        return self.pattern.startswith("api/v1/")

    @property
    def is_read(self) -> bool:
        """Whether a page, a part or a file is read here, or an answer of REST."""
        return "GET" in self.page.methods if self.page else self.is_rest and hasattr(self.view.cls, "get")

    @property
    def readers(self) -> Readers:
        if self.page:
            return self.page.readers
        if getattr(self.view.cls, "read_scope", None) == "operator":
            return "operators"
        return self._argument[1]

    @property
    def _argument(self) -> tuple[str, Readers]:
        """The longest beginning of `ARGUMENTS` says what the first argument is."""
        path = self.pattern.removeprefix("api/v1/")
        known = max((begin for begin in ARGUMENTS if f"{path}/".startswith(f"{begin}/")), key=len, default=None)
        return ARGUMENTS[known] if known else ("", "signed in")

    def examples(self) -> list[Example]:
        """Return the ways to ask for it, with all arguments and readers."""
        value, _ = self._argument
        first = self.pattern.partition("<")[2].partition(">")[0].partition(":")[2]
        own = {first: value} if value else {}
        return [
            replace(example, args=own | dict(example.args), readers=example.readers or self.readers)
            for example in EXAMPLES.get(self.name, [PLAIN])
        ]

    def path(self, example: Example) -> str:
        """Return the path of an example, with names in braces, to be filled by `format_map`."""
        path = CONVERTER.sub(lambda found: example.args[found[1]], f"/{self.pattern}")
        return f"{path}?{example.query}" if example.query else path


def routes() -> list[Route]:
    """Return every route of the resolver, by its name with its namespace."""
    return list(_walk(get_resolver().url_patterns, "", ""))


def _walk(patterns: Any, prefix: str, namespace: str) -> Iterator[Route]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _walk(pattern.url_patterns, path, inner)
        else:
            yield Route(f"{namespace}{pattern.name or ''}", path, pattern.callback)
