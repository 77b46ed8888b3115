"""One dialect: Berth's texts are British English (docs/words.md), in sources, documents and templates."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READ = {".py", ".md", ".html", ".toml", ".yaml", ".yml", ".txt", ""}
AMERICAN = re.compile(
    r"""(?<![\w.-])(?:
        (?:behavi|fav|hon|lab|neighb|harb|flav|rum|hum|vig|endeav|rig)or(?:s|ed|ing|able|ite|ites|al)?
        | (?:cancel|label|model|travel|signal|level|channel|fuel|total)(?:ed|ing|er|ers)
        | (?:util|organ|recogn|real|minim|maxim|summar|priorit|emphas|apolog|initial|normal|synchron|visual|general|special
            | stabil|categor|custom|memor|standard|critic|final|random|penal|modern)iz(?:e|es|ed|er|ing|ation|ations)
        | (?:ana|cata)lyz(?:e|es|ed|ing) | catalog(?:s|ed|ing)? | artifacts? | gr[a]ys? | defense | offense | judgment
        | acknowledgment | fulfill?(?:s|ment)? | skillful | installment | gotten | (?:theater|fiber|liter)s?
    )(?![\w(=-])(?!\.\w)""",
    re.VERBOSE,
)
OTHERS = (
    "Analyzing Xid Errors",  # a title of NVIDIA's
    "Xid Catalog",
    "initialize",  # of Hypothesis
)
"""Names that others gave."""


def american(text):
    """The words of the other dialect, as they stand; those in capitals are SQL or names, and those of `OTHERS` are given."""
    for name in OTHERS:
        text = text.replace(name, "")
    return [found for found in AMERICAN.findall(text) if not found.isupper()]


def test_there_is_one_dialect():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    own = Path(__file__).relative_to(ROOT).as_posix()
    found = {}
    for name in listed:
        path = ROOT / name
        if path.suffix in READ and name not in {own, "LICENSE"} and not name.startswith("static/") and path.is_file():
            words = american(path.read_text(errors="replace"))
            if words:
                found[name] = sorted(set(words))
    assert found == {}


def test_a_word_of_the_other_dialect_is_found():
    assert american("The behavior of canceled jobs is summarized in the artifact, normalized and labeled.") == [
        "behavior",
        "canceled",
        "summarized",
        "artifact",
        "normalized",
        "labeled",
    ]


def test_british_words_and_names_of_code_are_none():
    text = """behaviour cancelled summarised modelling catalogue; color: red; text-align: center; np.linalg.norm; serializer
    optimizer.step() normalize(x) BatchNormalization authorize size prize seized resize. VACUUM ANALYZE. initializer="x" """
    assert american(text) == []
