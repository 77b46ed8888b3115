"""Python packages: the distribution of a module, and the modules that a job's files import. Bounded; nothing is executed."""

from __future__ import annotations

import base64
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "Crypto": "pycryptodome",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "PyMuPDF",
    "git": "GitPython",
    "jwt": "PyJWT",
    "Levenshtein": "python-Levenshtein",
    "lightning_fabric": "lightning",
    "magic": "python-magic",
    "mpl_toolkits": "matplotlib",
    "OpenSSL": "pyOpenSSL",
    "osgeo": "GDAL",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "pl_bolts": "lightning-bolts",
    "psycopg2": "psycopg2-binary",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
"""Modules whose distribution has another name."""
OWN_NAMES = frozenset(
    "app config configs common core data dataset helper helpers layers lib loader loaders loss losses main "
    "model models module modules net network networks options src test tests train trainer utils util".split()
)
"""Modules that people name their own files: a package of such a name is rarely the one that was meant."""
MOST_BYTES = 1024 * 1024
DISTRIBUTION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?", re.ASCII)
_IMPORT = re.compile(
    r"[ \t]{0,200}(?:from[ \t]{1,20}([A-Za-z_]\w{0,63})[\w.]{0,200}[ \t]{1,20}import|import[ \t]{1,20}(.{1,400}))",
    re.ASCII,
)
_MODULE = re.compile(r"[ \t]*([A-Za-z_]\w{0,63})", re.ASCII)


def is_standard(module: str) -> bool:
    """Say whether a module comes with Python: no package has it."""
    return module in sys.stdlib_module_names


def distribution_of(module: str) -> str | None:
    """Return the distribution to install for a module; None for a name that no distribution can have."""
    name = DISTRIBUTIONS.get(module, module)
    return name if DISTRIBUTION.fullmatch(name) else None


def imports_of(files: Mapping[str, str]) -> set[str]:
    """Return the modules that Python files import and that neither Python nor the files have. `files`: base64 by path."""
    own = {part for path in files for part in path.removesuffix(".py").split("/")}
    found: set[str] = set()
    for path, content in files.items():
        if path.endswith(".py") and len(content) < MOST_BYTES * 2:
            found |= _imported(base64.b64decode(content)[:MOST_BYTES].decode("utf-8", "replace").split("\n"))
    return {name for name in found if name not in own and not is_standard(name)}


def _imported(lines: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for line in lines:
        read = _IMPORT.match(line)
        if read is not None:
            named = [read[1]] if read[1] else [each[1] for part in read[2].split(",") if (each := _MODULE.match(part))]
            found.update(named)
    return found
