"""A job without a name is named after what it is about."""

from hypothesis import given
from hypothesis import strategies as st

from portal.work.jobs.description import description_parse
from portal.work.jobs.naming import name_of

CASES = [
    ("python train.py", "train.py"),
    ("for x in 1 2 3; do echo $x; ./solve --n $x; done", "solve"),
    ("for i in $(seq 5)\ndo\n  python3 -u src/eval.py --fold $i\ndone", "eval.py"),
    ("while true; do date; sleep 1; done", "date"),
    ("i=0; while :; do i=$((i+1)); echo line $i; sleep 0.5; done", "echo"),
    ("if [ -f data ]; then make; else ./fetch; fi", "make"),
    ("cd /data && export A=1 && OMP_NUM_THREADS=4 python -m pkg.train --x", "pkg.train"),
    ("cd work; ./run.sh", "run.sh"),
    ("bash train.sh 3", "train.sh"),
    ("bash -c 'cd x && python y.py'", "y.py"),
    ('sh -lc "source env.sh; exec ./serve"', "serve"),
    ("bash -c 'exit 3'", "bash"),
    ("sudo -u me nice -n 10 time ./sim", "sim"),
    ("srun -n 4 --gpus=2 python train.py", "train.py"),
    ("mpirun -np 8 ./lmp -in x", "lmp"),
    ("timeout 10m ./x", "x"),
    ("torchrun --nproc_per_node=2 train.py", "train.py"),
    ("torchrun --nproc_per_node 2 --nnodes 1 a/train.py --lr 3", "train.py"),
    ("torchrun --nproc_per_node 2 -m pkg.run", "pkg.run"),
    ("python -m torch.distributed.run --nproc_per_node=4 fit.py", "fit.py"),
    ("accelerate launch --num_processes 4 t5.py", "t5.py"),
    ("uv run train.py", "train.py"),
    ("pip install -r requirements.txt && python main.py", "main.py"),
    ("git clone u && cd u && make -j", "make"),
    (
        "#!/bin/bash\n# train it\nset -e\nmodule load cuda\nconda activate x\npython \\\n  train.py > out 2>&1",
        "train.py",
    ),
    ("$PYTHON train.py", "train.py"),
    ("python -c 'print(1)'", "python"),
    ("python", "python"),
    ("/opt/bin/lammps -in x | tee log", "lammps"),
    ("(./a; ./b)", "a"),
    ("{ ./a; }", "a"),
    ("echo hello", "echo"),
    ("sleep 60", "sleep"),
    ("true", "job"),
    ("env A=1 ./x", "x"),
    ("./x 'not closed", "x"),
    (">out ./x", "x"),
]


def test_named_after_its_program(subtests):
    for command, name in CASES:
        with subtests.test(command=command):
            assert name_of(command=command) == name
            assert description_parse({"command": command}).name == name


def test_the_model_comes_first_and_a_given_name_before_all():
    assert description_parse({"command": "python train.py", "model": "resnet50"}).name == "resnet50"
    assert description_parse({"command": "python train.py", "model": "resnet50", "name": "mine"}).name == "mine"


WORDS = st.sampled_from(
    "for in do done if then while ; && | ( ) { } ' \" \\ \n python -m -c bash sudo -u timeout $X A=1 > 2>&1 x.py # é \t".split(
        " "
    )
)


@given(st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=200))
def test_any_text_has_a_name(command):
    name = name_of(command=command)
    assert name == name.strip()
    assert 0 < len(name) <= 128
    assert name.isprintable()
