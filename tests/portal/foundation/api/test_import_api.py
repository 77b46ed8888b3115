"""POST /jobs/import: a script or YAML comes back as what POST /jobs takes, and nothing is stored."""

import pytest

from portal.cluster.models import GpuType
from tests.portal.foundation.api.conftest import refusal
from tests.portal.given import node_make

pytestmark = pytest.mark.django_db
SCRIPT = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH --gres=gpu:a100:2
#SBATCH --mail-type=END
#SBATCH --dependency=aftercorr:1
python3 train.py
"""


def ask(caller, **body):
    return caller("POST", "/jobs/import", body)


@pytest.mark.usefixtures("unchanged")
def test_a_script_comes_back_with_what_became_of_each_line(world):
    found = ask(world.owner, text=SCRIPT).json()
    assert [(line["line"], line["verdict"], line["field"]) for line in found["lines"]] == [
        (2, "mapped", "name"),
        (3, "mapped", "gpus"),
        (4, "ignored", None),
        (5, "refused", None),
    ]
    assert (found["format"], found["description"]["gpus"], found["description"]["gpu_types"]) == ("sbatch", 2, ["A100"])
    assert world.owner("POST", "/jobs/plan", found["description"]).status_code == 200


def test_arguments_of_a_script_and_a_looser_type_are_told(world):
    node_make("n9", gpu_type=GpuType.objects.create(name="H100"))
    text = "#!/bin/sh\n#SBATCH --gres=gpu:h100_80gb:1\n"
    found = ask(world.owner, text=text, arguments=["a b", "c"]).json()
    assert found["description"]["command"].endswith("""/bin/sh "$BERTH_JOB_DIR/job.sbatch" 'a b' c""")
    assert (found["lines"][0]["verdict"], found["description"]["gpu_types"]) == ("looser", ["H100"])


@pytest.mark.parametrize(
    ("gpus", "cores", "verdict", "says"),
    [
        (2, 24, "looser", "24 cores for 2 GPUs: 12 for each. Asked 12; it begins with 4 and is tuned."),
        (2, 8, "mapped", "8 cores for 2 GPUs: 4 for each."),
        (64, 64 * 12, "mapped", "768 cores for 64 GPUs: 12 for each."),  # no node has these: nobody would correct it
        (0, 12, "mapped", "12 cores in all."),
    ],
)
def test_cores_that_the_job_will_not_begin_with_are_told_and_memory_by_core_stays(world, gpus, cores, verdict, says):
    text = f"#!/bin/sh\n#SBATCH --gpus={gpus}\n#SBATCH --cpus-per-task={cores}\n#SBATCH --mem-per-cpu=2G\n"
    found = ask(world.owner, text=text).json()
    line = found["lines"][1]
    assert (line["verdict"], line["detail"]) == (verdict, says)
    assert found["description"]["memory_mib"] == cores * 2048
    if gpus:
        assert found["description"]["cores_per_gpu"] == cores // gpus


def test_what_comes_back_is_taken_as_a_job(world):
    made = world.owner.submit(**ask(world.owner, text=SCRIPT).json()["description"])
    assert (made["name"], made["gpus"], made["files"][0]["name"]) == ("train", [2], "job.sbatch")
    made = world.owner.submit(**ask(world.owner, text="command: echo x\ngpus: [1, 2]").json()["description"])
    assert (made["command"], made["gpus"]) == ("echo x", [1, 2])


UNREADABLE = [
    ({}, "required", "text"),
    ({"text": 3}, "wrong_type", "text"),
    ({"text": " "}, "not_an_object", "text"),
    ({"text": "#!/bin/sh", "format": "pbs"}, None, "format"),
    ({"text": "a: b: c"}, "parse_error", "text"),
    ({"text": "x", "colour": 1}, "unknown_field", "colour"),
    ({"text": "#!/bin/sh", "arguments": "a"}, "wrong_type", "arguments"),
    ({"text": "#!/bin/sh", "arguments": [1]}, "wrong_type", "arguments"),
    ({"text": "#!/bin/sh", "arguments": ["x"] * 1001}, "too_many", "arguments"),
    ({"text": "#!/bin/sh", "arguments": ["a\0"]}, "null_character", "arguments"),
    ({"text": "command: x\ngpus: 0", "arguments": ["a"]}, "not_a_script", "arguments"),
    ({"text": "#!/bin/sh\n\0"}, "null_character", "text"),
]


@pytest.mark.usefixtures("unchanged")
def test_what_cannot_be_read_is_refused_by_its_name(world, subtests):
    for body, code, field in UNREADABLE:
        with subtests.test(body=body):
            refusal(ask(world.owner, **body), 400, code, field)


def test_it_needs_the_right_to_submit(world):
    refusal(ask(world.nobody, text=SCRIPT), 401)
    refusal(ask(world.caller("lena", scopes=["jobs:read"]), text=SCRIPT), 403, "missing_scope")
