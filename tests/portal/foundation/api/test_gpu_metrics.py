"""`/metrics/gpus`: the metrics that people's Grafana boards for NVIDIA's DCGM exporter read."""

import pytest
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from portal.cluster.models import Gpu, Node
from portal.operate.health.gpus import FIGURES, lines
from tests.portal.scraping import scraper

pytestmark = pytest.mark.django_db
SAMPLE = {
    "utilisation": 41.0,
    "memory_mib": 1024.0,
    "power_w": 350.5,
    "energy_j": 7.2e6,
    "temperature_c": 61.0,
    "pcie_tx_mb_s": 12.5,
    "clock_mhz": 1980.0,
    "ecc_uncorrected": 0.0,
}


def samples(text):
    families = text_string_to_metric_families(text)
    rows = [row for family in families for row in family.samples]
    # The parser gives counters a suffix that dcgm-exporter's do not have.
    return {(row.name.removesuffix("_total"), row.labels["gpu"]): (row.value, row.labels) for row in rows}


@pytest.fixture
def measured(cluster):
    live = {"at": timezone.now().timestamp(), "gpus": {"0": SAMPLE}, "host": {}, "attempts": {}}
    finding = {"subject": "gpu:1", "check": "xid 79", "level": "fail", "detail": "", "remedy": ""}
    Node.objects.update(live=live, findings=[finding])
    Gpu.objects.filter(index=1).update(cordoned_at=timezone.now(), uuid='GPU-"odd\\')
    return cluster


def test_the_names_units_and_labels_are_dcgm_exporter_s(measured):
    text = scraper().get("/metrics/gpus").content.decode()
    assert '\nDCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0"' in text
    found = samples(text)
    values = {name: value for (name, gpu), (value, _) in found.items() if gpu == "0"}
    assert values == {
        "DCGM_FI_DEV_GPU_UTIL": 41.0,
        "DCGM_FI_DEV_FB_USED": 1024.0,
        "DCGM_FI_DEV_FB_FREE": 23552.0,
        "DCGM_FI_DEV_POWER_USAGE": 350.5,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 7.2e9,
        "DCGM_FI_DEV_GPU_TEMP": 61.0,
        "DCGM_FI_DEV_SM_CLOCK": 1980.0,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0.0,
        "DCGM_FI_PROF_PCIE_TX_BYTES": 12.5e6,
        "berth_gpu_takes_jobs": 1.0,
    }
    labels = found["DCGM_FI_DEV_GPU_UTIL", "0"][1]
    assert labels == {"gpu": "0", "UUID": "n1-0", "device": "nvidia0", "modelName": "A100", "Hostname": "n1"}


def test_what_was_not_measured_has_no_line_and_an_xid_has_one(measured):
    found = samples("".join(lines()))
    assert {name for name, gpu in found if gpu == "1"} == {"DCGM_FI_DEV_XID_ERRORS", "berth_gpu_takes_jobs"}
    assert found["DCGM_FI_DEV_XID_ERRORS", "1"][0] == 79.0
    assert found["berth_gpu_takes_jobs", "1"] == (0.0, found["berth_gpu_takes_jobs", "1"][1])
    assert found["berth_gpu_takes_jobs", "1"][1]["UUID"] == 'GPU-"odd\\'
    Node.objects.update(live={"at": 0, "gpus": {"0": SAMPLE}})
    assert {name for name, gpu in samples("".join(lines())) if gpu == "0"} == {"berth_gpu_takes_jobs"}


def test_it_costs_two_queries_whatever_the_size(measured, django_assert_num_queries):
    with django_assert_num_queries(2):
        assert len(list(lines())) > len(FIGURES)


def test_one_node_that_tells_an_xid_of_itself_does_not_take_the_page_from_all(measured):
    finding = {"subject": "node", "check": "xid 79", "level": "fail", "detail": "", "remedy": ""}
    Node.objects.update(findings=[finding])
    assert scraper().get("/metrics/gpus").status_code == 200
    assert ("DCGM_FI_DEV_XID_ERRORS", "1") not in samples("".join(lines()))
