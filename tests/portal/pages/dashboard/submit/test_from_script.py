"""The form is filled from a batch script or YAML; it shows every directive; sent, it gives the job that was meant."""

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from portal.cluster.models import GpuType
from portal.work.jobs.models import Job
from tests.portal.given import Cluster, node_make
from tests.portal.pages.dashboard.test_templates import Page

pytestmark = pytest.mark.django_db
SCRIPT = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH --gres=gpu:2 --cpus-per-gpu=2
#SBATCH --mem=1G --time=1:00:00
#SBATCH --export=A=<b>
#SBATCH --mail-type=END
#SBATCH --dependency=aftercorr:1
echo "$SLURM_JOB_ID"
"""


@pytest.fixture
def owner(client):
    client.force_login(Cluster.make().owner)
    return client


def brought(client, script="", status=200, **more):
    answer = client.post(reverse("job-from-script"), {"script": script, **more})
    assert answer.status_code == status
    Page(answer.content.decode())
    return answer


def test_a_script_fills_the_form_and_is_then_submitted(owner):
    answer = brought(owner, SCRIPT)
    text = answer.content.decode()
    assert re.findall(r'data-verdict="(\w+)"><td class="b-num">(\d)', text) == [
        ("mapped", "2"),
        ("mapped", "3"),
        ("looser", "3"),
        ("mapped", "4"),
        ("mapped", "4"),
        ("mapped", "5"),
        ("ignored", "6"),
        ("refused", "7"),
    ]
    assert "A=<b>" not in text
    assert "2 cores for each GPU. Asked 2; it begins with 4 and is tuned." in text
    fields = {name: field["value"] for name, field in answer.context["fields"].items()}
    wanted = {
        "name": "train",
        "cores_per_gpu": "2",
        "memory_mib": "1 GiB",
        "time_limit_s": "1 h",
        "environment": "A=<b>",
    }
    assert {name: fields[name] for name in wanted} == wanted
    plain = {
        name for name, field in answer.context["fields"].items() if field["kind"] != "check" and "choices" not in field
    }
    form = {name: value for name, value in fields.items() if value and name in plain}
    kept = {"files_kept": answer.context["files"]["kept"], "gpu_mode": "set", "gpus": ["2"]}
    assert owner.post(reverse("job-submit"), form | kept).status_code == 302
    made = Job.objects.get()
    assert (made.name, made.gpus, made.cores_per_gpu, made.memory_mib, made.time_limit_s) == (
        "train",
        [2],
        2,
        1024,
        3600,
    )
    assert list(made.payload.files) == ["job.sbatch"]


def test_arguments_of_a_script_stand_in_the_command(owner):
    answer = brought(owner, SCRIPT, script_arguments="config.yaml 'a b' $HOME")
    command = answer.context["fields"]["command"]["value"]
    assert command.endswith("""/bin/bash "$BERTH_JOB_DIR/job.sbatch" config.yaml 'a b' '$HOME'""")
    assert answer.context["imported"]["arguments"] == "config.yaml 'a b' $HOME"
    for script, words, problem in (
        (SCRIPT, "'a", "do not end"),
        ("command: echo x\ngpus: 0\n", "a", "takes no arguments"),
    ):
        answer = brought(owner, script, status=400, script_arguments=words)
        assert problem.replace("do not", "does not") in answer.context["imported"]["problems"][0]


def test_a_looser_type_is_told_on_the_form(owner):
    node_make("n9", gpu_type=GpuType.objects.create(name="H100"))
    text = brought(owner, "#!/bin/sh\n#SBATCH --gres=gpu:h100_80gb:1\ntrue\n").content.decode()
    assert "<strong>looser</strong>: 1 GPU of H100 in all. This match is a looser one" in text


def test_a_file_and_yaml_with_what_the_form_cannot_show(owner):
    text = "command: echo x\ngpus: 0\ncores: 3\nmax_requeues: 2\nepochs: 2\ndataset_size: 5\n"
    answer = brought(owner, script_file=SimpleUploadedFile("job.yaml", text.encode()))
    assert answer.context["imported"]["left_out"] == [
        f"The form has no field for {name}." for name in ("max_requeues", "epochs", "dataset_size")
    ]
    assert (answer.context["fields"]["command"]["value"], answer.context["fields"]["cores"]["value"]) == ("echo x", "3")
    assert [each["value"] for each in answer.context["gpus"]["counts"] if each["selected"]] == [0]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("", "is a mapping of the description"),
        ("command: [x", "line 2"),
        ("command: x\nmemory_mib: much", "memory_mib: "),
        ("command: x\ngpus: {min: a}\ntime_limit_s: [1]\narray: 3\nenvironment: 7\nfiles: x\nlabels: 3", "gpus"),
        ("command: x\ncolour: red", "has no"),
    ],
)
def test_what_is_no_job_is_told_and_the_form_stays(owner, script, words):
    answer = brought(owner, script, status=400)
    assert any(words in problem for problem in answer.context["imported"]["problems"])
    assert answer.context["fields"]["command"]["value"] == ""
    assert not Job.objects.exists()


def test_a_file_that_is_no_text_or_too_large(owner):
    for content, words in ((b"\xff\xfe", "not UTF-8"), (b"x" * (2**20 + 1), "larger than 1 MiB")):
        answer = brought(owner, status=400, script_file=SimpleUploadedFile("x.sh", content))
        assert words in answer.context["imported"]["problems"][0]
