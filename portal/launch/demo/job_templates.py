"""The demo's job templates, the operators' for all tenants: those of `examples/templates` with their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.layout import SOURCE
from portal.planning.templating.services import template_save
from portal.planning.templating.yaml_text import with_files, yaml_read

if TYPE_CHECKING:
    from portal.people.tenants.models import User

TEMPLATES = {"train": ("charlm/train.py",), "sweep": ("sweep/sweep.py", "charlm/train.py"), "python": ()}


def templates_ensure(operator: User) -> None:
    """Make each of them; one that is there already, and is the same, stays as it is."""
    examples = SOURCE / "examples"
    for name, paths in TEMPLATES.items():
        files = {path.rpartition("/")[2]: (examples / path).read_text() for path in paths}
        document = yaml_read((examples / "templates" / f"{name}.yaml").read_text())
        template_save(actor=operator, tenant=None, document=with_files(document, files))
