"""An operator at the console, a tenant with a member, a node and jobs."""

import pytest

from portal.cluster.services import joining
from portal.people.tenants import services as tenants
from portal.work.jobs.services.submission import job_submit

PASSWORD = "a-long-pass-word-1"


@pytest.fixture
def operator(db):
    return tenants.user_create(username="olga", password=PASSWORD, is_operator=True)


@pytest.fixture
def member(operator):
    user = tenants.user_create(username="mia", password=PASSWORD, actor=operator)
    tenant = tenants.tenant_create(name="vision-lab", actor=operator)
    tenants.membership_add(user=user, tenant=tenant, actor=operator)
    return user


@pytest.fixture
def tenant(member):
    return member.tenants.get()


@pytest.fixture
def node(operator):
    _, secret = joining.join_token_create(actor=operator, name="n1")
    inventory = {
        "name": "n1",
        "address": "127.0.0.1",
        "boot_id": "b1",
        "agent_version": "1",
        "virtual": True,
        "single_account": True,
        "trusts_tenants": True,
        "gpu_type": "V100",
        "cores": 8,
        "memory_mib": 65536,
        "gpus": [{"index": index, "uuid": f"GPU-{index}", "memory_mib": 16384} for index in range(4)],
    }
    return joining.node_register(join_secret=secret, inventory=inventory)[0]


@pytest.fixture
def job(member):
    return job_submit(user=member, description={"name": "<script>alert(1)</script>", "command": "true", "gpus": 1})


@pytest.fixture
def console(client, operator):
    client.force_login(operator)
    return client
