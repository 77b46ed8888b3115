"""The fields of a job that shares a GPU: description, form, REST, arrays."""

import pytest
from django.http import QueryDict

from portal.pages.dashboard.submit.form import initial_of
from portal.pages.dashboard.submit.reading import description_read
from portal.work.jobs.description import description_parse
from portal.work.jobs.models import Job
from portal.work.jobs.serializers.jobs import JobSerializer
from tests.portal import given

FORM = "command=true&gpu_mode=set&gpus=1&shareable=on&gpu_compute={}&gpu_memory_mib=1.5 GiB&latency_class=on"


def test_the_form_takes_and_gives_it_back():
    for written in ("25 %", "0.25"):
        told = description_read(QueryDict(FORM.format(written))).description
        assert (told["shareable"], told["gpu_compute"], told["gpu_memory_mib"]) == (True, 0.25, 1536)
        assert told["latency_class"] == "latency"
    values = initial_of(told)
    assert (values["gpu_compute"], values["gpu_memory_mib"], values["latency_class"]) == ("25 %", "1536 MiB", True)
    (problem,) = description_read(QueryDict(FORM.format("a quarter"))).problems
    assert problem.field == "gpu_compute"


def test_a_share_is_kept_in_thousandths():
    told = description_parse({"command": "true", **given.shareable(0.333)})
    assert (told.gpu_compute, told.latency_class) == (333, "batch")


@pytest.mark.django_db
def test_rest_shows_what_was_asked_and_tasks_of_an_array_ask_for_it_too(cluster):
    array = cluster.submit(array={"size": 2}, **given.shareable(0.25, 4096, latency_class="latency"))
    for job in Job.objects.filter(array=array):
        told = JobSerializer(job).data
        assert (told["shareable"], told["gpu_compute"], told["gpu_memory_mib"]) == (True, 0.25, 4096)
        assert told["latency_class"] == "latency"
    assert JobSerializer(cluster.submit()).data["gpu_compute"] is None
