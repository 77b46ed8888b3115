"""Orders to the laboratory, small ones."""

from portal.pages.laboratory.checking import SimulationOrder
from portal.pages.laboratory.models import Simulation
from portal.pages.laboratory.run.worker import simulation_next
from portal.pages.laboratory.services import simulation_order, trace_add

CLUSTER = "nodes: [{count: 2, gpu_type: A100, gpus: 4, cores: 16, memory_gib: 64}]"
HEADER = "submitted_s,tenant,gpus,duration_s"


def trace_csv(*rows):
    return "\n".join([HEADER, *rows, ""]).encode()


TRACE = trace_csv("0,vision,4,600", "10,speech,1 2,300", "20,vision,8,600", "30,speech,1,60")


def trace(tenant, user, content=TRACE, *, form="berth-csv", name="last week"):
    return trace_add(user=user, tenant=tenant, name=name, form=form, content=content)


def order(tenant, user, **fields):
    values = {"name": "what if", "policies": ["fifo", "drf"], "cluster": CLUSTER, "cluster_name": "as described"}
    if "trace" not in fields and "generator" not in fields:
        fields["trace"] = trace(tenant, user)
    return simulation_order(user=user, tenant=tenant, order=SimulationOrder(**(values | fields)))


def simulated(tenant, user, **fields):
    made = order(tenant, user, **fields)
    assert simulation_next() == made.pk
    return Simulation.objects.get(pk=made.pk)
