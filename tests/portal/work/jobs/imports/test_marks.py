"""Every line that looks like a directive gets a verdict, and no option of sbatch is unknown."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from portal.work.jobs.description import description_parse
from portal.work.jobs.imports import text_import
from portal.work.jobs.imports.options import ALIASES, OPTIONS
from portal.work.jobs.imports.sbatch import sbatch_import

TYPES = ("A100 40 GB", "A100 80 GB", "H100", "RTX 3090", "RTX 3090 Ti")
KNOWN = [line.split() for line in Path(__file__).with_name("sbatch-options.txt").read_text().splitlines() if line]


def read(line, body="true\n", types=TYPES):
    return sbatch_import(f"#!/bin/bash\n{line}\n#SBATCH --time=10\n{body}", gpu_types=types)


def test_each_option_of_sbatch_is_known_with_or_without_a_value(subtests):
    for name, has, short in KNOWN:
        with subtests.test(name):
            option = OPTIONS[ALIASES.get(name, name)]
            assert (option.has, option.short or "-") == (has, short if name not in ALIASES else option.short or "-")


def test_no_other_option_is_known():
    assert set(OPTIONS) - {"hetjob", "packjob"} == {ALIASES.get(name, name) for name, *_ in KNOWN}


def test_a_directive_may_stand_close_to_its_mark():
    found = read("#SBATCH--gres=gpu:2")
    assert (found.description["gpus"], found.description["time_limit_s"]) == (2, 600)


LOOKALIKES = [
    ("#SBATCH\u00a0--gres=gpu:2", "refused"),
    ("#SBATCH --gres=gpu:2\u00a0--mem=1G", "refused"),
    ("\ufeff#SBATCH --gres=gpu:2", "refused"),
    ("#\u200bSBATCH --gres=gpu:2", "refused"),
    ("#comment\r#SBATCH --gres=gpu:2", "refused"),
    ("#comment\u2028#SBATCH --gres=gpu:2", "refused"),
    ("#SBATCHgpu", "refused"),
    ("# SBATCH --gres=gpu:2", "ignored"),
    ("##SBATCH --gres=gpu:2", "ignored"),
    (" #SBATCH --gres=gpu:2", "ignored"),
    ("#sbatch --gres=gpu:2", "ignored"),
    ("#SBACTH --gres=gpu:2", "ignored"),
    ("#SBATH --gres=gpu:2", "ignored"),
    ("#SВATCH --gres=gpu:2", "ignored"),
    ("＃SBATCH --gres=gpu:2", "ignored"),
    ("#SLURM --gres=gpu:2", "ignored"),
    (" # sbatc: -N 2", "ignored"),
    ("#SBATCH -N1 #SBATCH --gres=gpu:2", "ignored"),
    ("#PBS -l ngpus=2", "refused"),
    ("#BSUB -n 4", "refused"),
    ("#DW jobdw capacity=1G", "refused"),
    ("#$ -l gpu=2", "ignored"),
    ("#MSUB -l gpus=2", "ignored"),
    ("#FLUX: -N 2", "ignored"),
    ("#SBATCH", "ignored"),
    ("#SBATCH # a note", "ignored"),
    ("#SBATCH --job-name= --comment=", "ignored"),
    ("#SBATCH --ignore-pbs\n#PBS -l ngpus=2", "ignored"),
]


def test_what_only_looks_like_a_directive_is_told(subtests):
    for line, verdict in LOOKALIKES:
        with subtests.test(line=line):
            told = [each for each in read(line).lines if each.field is None]
            assert told
            assert {each.verdict for each in told} == {verdict}


@pytest.mark.parametrize("line", ["# batch size --x", "# Batch -1 is odd", "# scratch --dir", "# slurm is --gone", "#"])
def test_a_comment_is_a_comment(line):
    assert [each.line for each in read(line).lines if each.line == 2] == []


@pytest.mark.parametrize(
    ("options", "may"), [("--requeue --no-requeue --requeue", True), ("--no-requeue --requeue --no-requeue", False)]
)
def test_the_last_of_two_opposites_counts(options, may):
    found = read(f"#SBATCH {options}")
    assert found.description["restartable"] is may
    assert [line.verdict for line in found.lines[:3]] == ["ignored", "ignored", "mapped"]


def test_begin_is_start_after(subtests):
    for value, verdict, start in [
        ("now", "ignored", None),
        ("2010-01-20T12:34:00", "ignored", None),
        ("today", "ignored", None),
        ("now+60", "mapped", "2026-11-29T15:31:00+00:00"),
        ("'now + 2 hours'", "mapped", "2026-11-29T17:30:00+00:00"),
        ("now+1week", "mapped", "2026-12-06T15:30:00+00:00"),
        ("2026-12-01T08:00:00+01:00", "mapped", "2026-12-01T08:00:00+01:00"),
        ("16:00", "looser", "2026-11-29T16:00:00+00:00"),
        ("15:30", "looser", "2026-11-30T15:30:00+00:00"),
        ("8:05:09", "looser", "2026-11-30T08:05:09+00:00"),
        ("12:00AM", "looser", "2026-11-30T00:00:00+00:00"),
        ("'4:00 PM'", "looser", "2026-11-29T16:00:00+00:00"),
        ("teatime", "looser", "2026-11-29T16:00:00+00:00"),
        ("tomorrow", "looser", "2026-11-30T00:00:00+00:00"),
        ("2026-12-01", "looser", "2026-12-01T00:00:00+00:00"),
        ("2026-12-01T08:00", "looser", "2026-12-01T08:00:00+00:00"),
        ("12/01/26", "looser", "2026-12-01T00:00:00+00:00"),
        ("120126", "looser", "2026-12-01T00:00:00+00:00"),
        ("25:00", "refused", None),
        ("soon", "refused", None),
        ("now+99999999weeks", "refused", None),
        ("13/01/26", "refused", None),
    ]:
        with subtests.test(value=value, verdict=verdict):
            found = sbatch_import(f"#SBATCH --begin={value}\ntrue\n", now=datetime(2026, 11, 29, 15, 30, tzinfo=UTC))
            (line,) = found.lines
            assert (line.verdict, found.description.get("start_after")) == (verdict, start)
            assert verdict != "refused" or ("--begin" in line.detail and "write 2026-12-01T08:00" in line.detail)
            if start:
                description_parse({"command": "true", "gpus": 0, "start_after": found.description["start_after"]})


def test_a_backslash_at_the_end_joins_nothing():
    found = read("#SBATCH --gres=gpu:1 \\")
    assert (found.description["gpus"], found.description["time_limit_s"]) == (1, 600)
    assert "joins no lines" in found.lines[0].detail
    assert "refused" in {line.verdict for line in read("#SBATCH --gres=gpu:1 \\\n  --mem=2G").lines}


NAMED_TYPES = [
    ("a100_80gb", ["A100 80 GB"], "mapped"),
    ("nvidia_a100-40gb", ["A100 40 GB"], "mapped"),
    ("a100", ["A100 40 GB", "A100 80 GB"], "mapped"),
    ("a100_80", ["A100 80 GB"], "mapped"),
    ("a100-sxm4-80gb", ["A100 80 GB"], "looser"),
    ("h100_80gb", ["H100"], "looser"),
    ("rtx3090", ["RTX 3090"], "mapped"),
    ("3090ti", ["RTX 3090 Ti"], "mapped"),
    ("a100_96gb", None, "refused"),
    ("a100_1g.10gb", None, "refused"),
    ("h100_1g.10gb", None, "refused"),
    ("a10", None, "refused"),
    ("h100nvl", None, "refused"),
]


def test_a_gpu_type_is_told_as_exact_or_looser_or_refused(subtests):
    for name, types, verdict in NAMED_TYPES:
        with subtests.test(name=name):
            for line in (f"#SBATCH --gres=gpu:{name}:1", f"#SBATCH -G1 -C {name}"):
                found = read(line)
                assert found.description.get("gpu_types") == types
                assert verdict in {each.verdict for each in found.lines if name in each.text}
                assert verdict == "mapped" or not [
                    each for each in found.lines if each.verdict == "mapped" and name in each.text
                ]


def test_two_options_cannot_ask_for_two_types():
    assert "refused" in {line.verdict for line in read("#SBATCH --gres=gpu:a100:1 -C h100").lines}


def test_gpus_of_each_socket():
    assert read("#SBATCH --gpus-per-socket=2 --sockets-per-node=2 -N 2").description["gpus"] == 8
    assert "refused" in {line.verdict for line in read("#SBATCH --gpus-per-socket=2").lines}


def test_a_comma_in_quotation_marks_is_of_the_value():
    found = read("""#SBATCH --export=ALL,"HYDRA='lr=0.1,bs=32'",B=2""")
    assert found.description["environment"] == {"HYDRA": "lr=0.1,bs=32", "B": "2"}


@pytest.mark.parametrize("text", ["\n\n#SBATCH--gres=gpu:1\ntrue", "#PBS -l x\ntrue", "\r# SBATCH --time=1\ntrue"])
def test_what_looks_like_a_script_is_read_as_one(text):
    assert text_import(text).format == "sbatch"


def test_the_beginning_of_an_older_name_is_enough():
    assert read("#SBATCH --workd=/data").description["working_directory"] == "/data"


def test_options_behind_hetjob_are_of_another_part():
    found = read("#SBATCH --gres=gpu:1\n#SBATCH hetjob\n#SBATCH --gres=gpu:8")
    assert found.description["gpus"] == 1
    assert [line.verdict for line in found.lines] == ["mapped", "refused", "ignored", "ignored"]


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        ("--gpus-per-socket=2 -B 2:8:1", 4),
        ("--gpus-per-socket=2 -B 2", 4),
        ("--gpus-per-socket=2 -B 4 --sockets-per-node=2 -N 2", 8),
        ("--gpus-per-node=2 --nodes=1,2,4", [2, 4, 8]),
        ("--gpus-per-node=2 --nodes=1-5:2", [2, 6, 10]),
    ],
)
def test_sockets_and_lists_of_nodes_are_counted(options, gpus):
    assert read(f"#SBATCH {options}").description["gpus"] == gpus


@pytest.mark.parametrize("options", ["--gpus-per-socket=2 -B *:8", "-B 2:8:1:1", "-B two", "--nodes=4-2", "--nodes=2,"])
def test_what_counts_by_nothing_is_refused(options):
    assert "refused" in {line.verdict for line in read(f"#SBATCH {options}").lines}
