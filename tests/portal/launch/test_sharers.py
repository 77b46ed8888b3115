"""The demo's jobs that share GPUs: a planning puts them beside each other, of several tenants, on GPUs set apart for it."""

from collections import defaultdict

from portal.cluster.models import Gpu, GpuType
from portal.cluster.services.sharing import gpu_modes_balance
from portal.foundation.layout import Layout
from portal.launch.demo.people import demo_ensure
from portal.launch.demo.workload import gpus_shared, sharers
from portal.launch.operator import operator_ensure
from portal.people.tenants.models import Tenant, User
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.models import GpuAllocation, Job
from portal.work.jobs.services.submission import job_submit
from tests.portal import given


def test_the_demos_servers_and_small_trainings_run_together(transactional_db, settings, tmp_path):
    settings.DEMO, settings.DATA_DIR = True, tmp_path
    layout = Layout.at(tmp_path)
    layout.prepare()
    operator_ensure(layout)
    demo_ensure(layout, step=lambda _: None)
    for name in ("a100-01", "a100-02"):
        gpu_type = GpuType.objects.get(name="A100 80 GB")
        given.node_make(name, gpus=8, cores=64, memory_mib=500_000, gpu_type=gpu_type)
    assert knobs_current()["shared_gpus"] == 0, "without the workload nothing would share them"
    gpus_shared()
    gpu_modes_balance(share=knobs_current()["shared_gpus"])
    assert Gpu.objects.filter(mode="shared").count() == 2
    for tenant, user, description in sharers():
        job_submit(
            user=User.objects.get(username=user), tenant=Tenant.objects.get(name=tenant), description=description
        )
    planning_run()
    on = defaultdict(set)
    for part in GpuAllocation.objects.filter(mode="shared").select_related("allocation__attempt__job"):
        on[part.gpu_id].add(part.allocation.attempt.job)
    assert sum(map(len, on.values())) >= 4
    assert any(len({job.tenant_id for job in jobs}) > 1 for jobs in on.values()), "tenants share a GPU"
    assert Job.objects.filter(name="asks-server", state="STARTING").count() == 2
