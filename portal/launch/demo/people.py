"""The demo's tenants, users and settings: three tenants that trust each other, each with two users and a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction

from portal.cluster.services import joining
from portal.foundation.layout import SOURCE, Layout, write_json
from portal.launch.demo.nodes import DEMO_NODES
from portal.launch.operator import operator_account, password_generate
from portal.people.tenants import services as tenants
from portal.people.tenants.models import Tenant, User
from portal.planning.rounds import services as rounds
from portal.planning.templating.services import template_save
from portal.planning.templating.yaml_text import with_files, yaml_read

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.people.tenants.models import User


TEMPLATES = {
    "train": ("charlm/train.py",),
    "sweep": ("sweep/sweep.py", "charlm/train.py"),
    "python": (),
    "notebook": (),
    "tensorboard": (),
}


def templates_ensure(operator: User) -> None:
    """Make each of them; one that is there already, and is the same, stays as it is."""
    examples = SOURCE / "examples"
    for name, paths in TEMPLATES.items():
        files = {path.rpartition("/")[2]: (examples / path).read_text() for path in paths}
        document = yaml_read((examples / "templates" / f"{name}.yaml").read_text())
        template_save(actor=operator, tenant=None, document=with_files(document, files))


TICK_S, REPLAN_S = 5, 60
MEASURING = {"tune_step_s": 10, "relieve_period_s": 10, "noise_band": 0.05}
"""Short steps; and the demo's processes share few real cores, so their speed is noisy."""
RESTART_COST_S = 5
"""Used until a job's own restarts are measured. A training of the demo lasts two minutes: with the default, a minute for a
restart, resizing it would never be worth it."""
TOKEN_SCOPES = ("jobs:read", "jobs:write", "cluster:read", "simulations:read", "simulations:write")


@dataclass(frozen=True)
class Person:
    username: str
    tenant: str
    role: str


PEOPLE = (
    Person("vera", "vision-lab", "manager"),
    Person("viktor", "vision-lab", "member"),
    Person("nadia", "nlp-startup", "manager"),
    Person("nils", "nlp-startup", "member"),
    Person("sofia", "speech-co", "manager"),
    Person("sam", "speech-co", "member"),
)


@transaction.atomic
def demo_ensure(layout: Layout, *, step: Callable[[str], None]) -> list[str]:
    """Make the demo if it does not exist yet; return the lines with its users and passwords to print."""
    layout.storage.mkdir(mode=0o700, exist_ok=True)
    if Tenant.objects.filter(name=PEOPLE[0].tenant).exists():
        return []
    operator = operator_account()
    rounds.settings_update(
        actor=operator,
        tick_s=TICK_S,
        replan_s=REPLAN_S,
        restart_cost_s=RESTART_COST_S,
        **MEASURING,
    )
    for gpu_type, memory_mib in {node.gpu_type: node.gpu_memory_mib for node in DEMO_NODES}.items():
        joining.gpu_type_upsert(actor=operator, name=gpu_type, memory_mib=memory_mib)
    users: dict[str, dict[str, Any]] = {}
    tokens: dict[str, str] = {}
    for person in PEOPLE:
        password = password_generate()
        user = tenants.user_create(username=person.username, password=password, actor=operator)
        tenant = Tenant.objects.filter(name=person.tenant).first()
        if tenant is None:
            tenant = tenants.tenant_create(name=person.tenant, actor=operator)
        tenants.membership_add(user=user, tenant=tenant, role=person.role, actor=operator)
        users[person.username] = {"password": password, "tenant": person.tenant, "role": person.role}
        if person.tenant not in tokens:
            _, tokens[person.tenant] = tenants.token_create(
                user=user, tenant=tenant, name="demo", scopes=TOKEN_SCOPES, actor=operator
            )
    templates_ensure(operator)
    write_json(layout.demo_users, users)
    write_json(layout.demo_tokens, tokens)
    step(f"demo tenants made: {', '.join(tokens)}")
    return _sign_ins(layout, users)


def _sign_ins(layout: Layout, users: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        f"{about['tenant']:12} user {name:8} password {about['password']}   ({about['role']})"
        for name, about in users.items()
    ]
    return [*lines, f"Sign-ins are kept in {layout.demo_users}, API tokens in {layout.demo_tokens}."]
