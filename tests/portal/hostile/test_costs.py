"""A tenant's input costs the portal no more memory than a few times its own length, however it was made.

Each input is read in a process of its own, which the kernel measures (`VmHWM`) and would end after MOST_CPU_S: a time that grows
with the square of its input is above it. One process loads all that reads, and each of these is its child.
"""

import json
import os
import subprocess
import sys

import pytest

from portal.foundation.layout import SOURCE

MOST_MIB, MOST_CPU_S = 64, 30
MIB = 1024 * 1024
READS = """
import json, os, resource, sys
import django
django.setup()
from portal.foundation.api.parsers import json_strict
from portal.foundation.errors import BerthError
from portal.pages.laboratory.checking import cluster_checked, trace_measure
from portal.planning.templating.document import document_read
from portal.planning.templating.yaml_text import yaml_read
readers = {
    "json": json_strict,
    "template": lambda data: document_read(yaml_read(data.decode())),
    "cluster": lambda data: cluster_checked(data.decode()),
}
def told(what, data):
    try:
        if what in readers:
            readers[what](data)
        else:
            trace_measure(form=what, content=data, most=20_000)
    except BerthError as error:
        return error.code
    return "read"
for what in ("json", "template", "cluster", "berth-csv", "sacct"):
    told(what, b"{}")
def mib(name):
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(name))
def measured(what, path):
    data = open(path, "rb").read()
    open("/proc/self/clear_refs", "w").write("5")
    before = mib("VmRSS")
    resource.setrlimit(resource.RLIMIT_CPU, (int(os.environ["MOST_CPU_S"]),) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
    code = told(what, data)
    return [code, mib("VmHWM") - before, resource.getrusage(resource.RUSAGE_SELF).ru_utime]
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        print(json.dumps(measured(*json.loads(line))), flush=True)
        os._exit(0)
    if status := os.waitpid(child, 0)[1]:
        print(json.dumps([f"ended by {status}", None, None]), flush=True)
"""
KINDS = "gpus: {a: 64, b: 64, c: 64, d: 64, e: 64, f: 64, g: 64, h: 64}"
NAME, JOB = "name: x\njob:\n  command: echo\n", {"submitted_s": 0, "tenant": "t", "gpus": [1], "duration_s": 5}
SACCT = "JobID|Account|Submit|Elapsed|State|AllocTRES|JobName|Partition"
ROW = "1|a|2026-01-01T00:00:00|00:00:05|COMPLETED|cpu=1|"


def lines(n, **more):
    return "\n".join(json.dumps(JOB | {name: make(k) for name, make in more.items()}) for k in range(n))[: 8 * MIB]


INPUTS = {
    "lists in JSON": ("json", lambda: "[" + ",".join(["[" * 62 + "]" * 62] * 12_000) + "]"),
    "objects in JSON": ("json", lambda: "[" + "{}," * 500_000 + "{}]"),
    "aliases of a long text": (
        "template",
        lambda: f"{NAME}  x: &a '{'y' * 200_000}'\n  z: [{'*a,' * 75_000}*a]\n",
    ),
    "aliases of aliases": (
        "template",
        lambda: f"{NAME}  a: &a ['{'y' * 9_000}']\n  b: &b [{'*a,' * 500}]\n  c: [{'*b,' * 700}]\n",
    ),
    "names that stand for a long text": (
        "template",
        lambda: f"{NAME}  labels: {{a: &a '{'y' * 200_000}', {','.join(f'k{n}: *a' for n in range(20_000))}}}\n",
    ),
    "merged texts": (
        "template",
        lambda: f"{NAME}  a: &a {{k: '{'y' * 200_000}'}}\n  b: [{'{<<: *a},' * 20_000}]\n",
    ),
    "the same large group of nodes": (
        "cluster",
        lambda: "nodes:\n- &a {cores: 4096, memory_gib: 1, gpus: 64, gpu_type: A}\n" + "- *a\n" * 19_000,
    ),
    "many types on many nodes": ("cluster", lambda: f"nodes: [{{cores: 4096, memory_gib: 1, count: 20000, {KINDS}}}]"),
    "many groups of many types": (
        "cluster",
        lambda: f"nodes:\n- &a {{cores: 4096, memory_gib: 1, {KINDS}}}\n" + "- *a\n" * 19_000,
    ),
    "a name for many tenants": (
        "cluster",
        lambda: (
            "nodes: [{cores: 1, memory_gib: 1}]\ntenants:\n" + "".join(f"- {{name: t{n}}}\n" for n in range(15_000))
        ),
    ),
    "one line of lists": ("berth-jsonl", lambda: "[" + "[]," * 2_790_000 + "[]]"),
    "one line of names": ("berth-jsonl", lambda: json.dumps({f"{n:x}": 0 for n in range(650_000)})),
    "one line of a wide text": ("berth-jsonl", lambda: '{"name":"\U0001f600' + "a" * (8 * MIB - 100) + '"}'),
    "many names in each job": (
        "berth-jsonl",
        lambda: lines(20_000, gpu_types=lambda k: [f"{k:x}{n:x}" for n in range(40)]).rpartition("\n")[0],
    ),
    "many counts in each job": ("berth-jsonl", lambda: lines(16_000, gpus=lambda _: [*range(1, 65)])),
    "a header of commas": ("berth-csv", lambda: "," * 8 * MIB),
    "a row of commas": ("berth-csv", lambda: "submitted_s,tenant,gpus,duration_s\n" + "," * 8_000_000),
    "a Philly header of commas": ("philly", lambda: "," * 8 * MIB),
    "lines alone": ("sacct", lambda: "\n" * 8 * MIB),
    "bars alone": ("sacct", lambda: "|" * 8 * MIB),
    "a name of many lines": ("sacct", lambda: f"{SACCT}\n{ROW}" + "a\n" * 4_000_000),
    "a name that is all the file, before other columns": (
        "sacct",
        lambda: "JobID|JobName|Account|Submit|Elapsed|State|AllocTRES\n1|" + "a\n" * 4_000_000,
    ),
}


@pytest.fixture
def reader():
    environment = {"DJANGO_SETTINGS_MODULE": "tests.settings", "MOST_CPU_S": str(MOST_CPU_S)}
    argv = [sys.executable, "-c", READS]
    with subprocess.Popen(
        argv, cwd=SOURCE, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.stdin.close()


@pytest.mark.impure
def test_an_input_costs_the_portal_little_memory(reader, tmp_path, subtests):
    for name, (what, make) in INPUTS.items():
        with subtests.test(name):
            (tmp_path / "input").write_text(make())
            print(json.dumps([what, str(tmp_path / "input")]), file=reader.stdin, flush=True)
            code, mib, cpu_s = json.loads(reader.stdout.readline())
            assert mib is not None, code
            print(f"{name}: {code}, {mib:.0f} MiB, {cpu_s:.1f} s of processor in all")
            assert mib <= MOST_MIB
