"""axe-core on a page: what it finds serious or critical, in words that name the element."""

from importlib import resources

GRAVE = {"serious", "critical"}
ALSO = {"landmark-one-main", "label-content-name-mismatch", "page-has-heading-one", "summary-name"}
"""Told too, though axe calls them moderate, or holds them back as experimental."""
BY_COLOUR = ["color-contrast", "link-in-text-block"]
"""What depends on the theme; all else a page has in each."""
RUN = """async (only) => {
  const rules = {"label-content-name-mismatch": {enabled: true}};
  const asked = only ? {runOnly: {type: "rule", values: only}} : {rules};
  const found = await axe.run(document, {resultTypes: ["violations"], ...asked});
  const words = (node) => [...node.any, ...node.all, ...node.none].map((check) => check.message)[0] || "";
  return found.violations.map((each) => ({id: each.id, impact: each.impact,
    nodes: each.nodes.slice(0, 5).map((node) => `${node.target.join(" ")}: ${words(node)}: ${node.html.slice(0, 160)}`)}));
}"""


def violations(page, only=None):
    """{rule: elements} of the page as it stands; `only` these rules."""
    page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text())
    return {
        f"{each['id']} ({each['impact']})": each["nodes"]
        for each in page.evaluate(RUN, only)
        if each["impact"] in GRAVE or each["id"] in ALSO
    }
