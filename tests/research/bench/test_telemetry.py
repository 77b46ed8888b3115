"""`./berth bench telemetry`: values out of range are refused before anything is measured, and so are those of a process of its own."""

import pytest
from django.core.management import CommandError, call_command

from research.bench import databases
from research.bench.databases import measure_apart
from research.bench.errors import BenchError
from research.bench.heartbeat_cost import measured


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("heartbeat", "0"),
        ("heartbeat", "11"),
        ("heartbeat", "nan"),
        ("seconds", "0"),
        ("seconds", "inf"),
        ("gpus", "0"),
        ("jobs", "-1"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_name(option, value):
    with pytest.raises(CommandError, match=f"--{option} ") as refused:
        call_command("bench", "telemetry", f"--{option}={value}")
    assert refused.value.returncode == 2


@pytest.mark.impure
def test_what_a_process_of_its_own_refuses_is_told_once(monkeypatch):
    """It refuses before it looks at its database, which therefore stays empty here."""
    manage = databases._manage
    monkeypatch.setattr(databases, "_manage", lambda argv, *more: argv[0] == "migrate" or manage(argv, *more))
    with pytest.raises(BenchError) as refused:
        measure_apart(arguments=["round", "--repeat=0"], kind="sqlite")
    assert str(refused.value) == "--repeat must be at least 1."


@pytest.mark.impure
def test_what_measuring_costs_is_measured_with_real_processes():
    figures = measured(seconds=2.5, heartbeat_s=0.05, gpus=2, jobs=2)
    assert (figures["gpus"], figures["gpus_by"], figures["jobs"]) == (2, "virtual", 2)
    assert figures["readings_s"] > 1
    assert figures["bytes_s"] > figures["stored_bytes_s"] > 0
    assert figures["core_percent"] > 0
