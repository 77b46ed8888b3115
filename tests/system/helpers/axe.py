"""axe-core on a page: what it finds serious or critical, in words that name the element."""

from importlib import resources
from pathlib import Path

GRAVE = {"serious", "critical"}
ALSO = {"landmark-one-main", "label-content-name-mismatch", "page-has-heading-one", "summary-name"}
"""Told too, though axe calls them moderate, or holds them back as experimental."""
BY_COLOUR = ["color-contrast", "link-in-text-block"]
"""What depends on the theme; all else a page has in each."""
RUN = """async ([only, known]) => {
  const looks = berthLooks(known);
  const rules = {"label-content-name-mismatch": {enabled: true}};
  const asked = only ? {runOnly: {type: "rule", values: only}} : {rules};
  const found = await axe.run(document, {resultTypes: ["violations"], ...asked});
  const words = (node) => [...node.any, ...node.all, ...node.none].map((check) => check.message)[0] || "";
  const faults = found.violations.map((each) => ({id: each.id, impact: each.impact,
    nodes: each.nodes.slice(0, 5).map((node) => `${node.target.join(" ")}: ${words(node)}: ${node.html.slice(0, 160)}`)}));
  return [faults, looks()];
}"""
LOOKS = (Path(__file__).parent / "looks.js").read_text(encoding="utf-8")


def violations(page, only=None, looks=None):
    """{rule: elements} of the page as it stands; `only` these rules.

    `looks`, a set that grows, holds those whose contrast was found to be well, on this page and others (looks.js). None
    judges each text.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text())
        page.evaluate(LOOKS)
    faults, found = page.evaluate(RUN, [only, None if looks is None else sorted(looks)])
    if looks is not None:
        looks.update(found)
    return {
        f"{each['id']} ({each['impact']})": each["nodes"]
        for each in faults
        if each["impact"] in GRAVE or each["id"] in ALSO
    }
