"""When GPUs for jobs that share one keep a larger job from fitting, its reason says so; else it says nothing of them."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.explaining.sentences import sentence
from scheduler.model import PartedGpu
from tests.scheduler.builders import decisions_of, job, make_plan, node
from tests.scheduler.planning.test_sharing import holder


def parted(number, whole, *shared, **more):
    """A node with so many whole GPUs, and these for sharing."""
    return replace(node(number, whole, **more), shared=tuple(shared))


def free(index, **more):
    return PartedGpu(index, 1024, **more)


def why(nodes, *jobs):
    made = decisions_of(make_plan(nodes, [*jobs]))[1]
    return made.figures.get("set_aside"), sentence(made.reason, made.figures)


def test_on_one_node():
    aside, said = why([parted(1, 4, free(4), idle=3), node(2, 4, idle=1)], job(1, 4))
    assert aside == {"gpus": 1, "nodes": ["n1"]}
    assert said.endswith("It would fit on n1, but 1 GPU there is set aside for jobs that share a GPU.")


def test_on_one_of_several_nodes():
    nodes = [parted(number, 4, free(4), free(5), idle=2) for number in (1, 2)]
    aside, said = why(nodes, job(1, 4))
    assert aside == {"gpus": 4, "nodes": ["n1", "n2"]}
    assert said.endswith("It would fit on n1 or n2, but GPUs there are set aside for jobs that share a GPU.")


def test_over_several_nodes():
    nodes = [parted(number, 2, free(2)) for number in (1, 2)]
    aside, said = why([*nodes, node(3, 2, idle=0)], job(1, 6))
    assert aside == {"gpus": 2, "nodes": []}
    assert said.endswith("It would fit, but 2 GPUs are set aside for jobs that share a GPU.")


def test_where_all_of_a_type_are_for_sharing_no_node_is_said_to_have_none():
    aside, said = why([replace(node(1, 2), gpus_total=0, idle_gpus=(), shared=(free(0), free(1)))], job(1, 2))
    assert aside == {"gpus": 2, "nodes": ["n1"]}
    assert "no node hands out such GPUs whole" in said
    assert "It would fit on n1" in said


def test_those_with_jobs_closed_or_of_another_type_keep_it_from_nothing():
    assert why([parted(1, 4, free(4, holders=(holder(9),)), idle=3)], job(1, 4))[0] is None
    assert why([parted(1, 4, free(4, open=False), idle=3)], job(1, 4))[0] is None
    other = parted(2, 4, free(4), idle=3, gpu_type="h100")
    assert why([node(1, 4, idle=3), other], job(1, 4, gpu_types=frozenset({"a100"})))[0] is None
    assert why([parted(1, 4, free(4), idle=3, idle_cores=3)], job(1, 4))[0] is None, "its cores are too few as well"
    assert why([parted(1, 4, free(4), idle=2)], job(1, 4))[0] is None, "one more would not do"


@given(
    whole=st.integers(1, 6),
    idle=st.integers(0, 6),
    aside=st.lists(st.booleans(), max_size=3),
    asked=st.integers(1, 9),
)
def test_it_is_said_if_and_only_if_the_job_fits_with_them(whole, idle, aside, asked):
    """Asked by a planning in which none of them is set aside."""
    idle = min(idle, whole)
    shared = [free(whole + place, open=is_open) for place, is_open in enumerate(aside)]
    before = decisions_of(make_plan([parted(1, whole, *shared, idle=idle)], [job(1, asked)]))[1]
    opened = sum(aside)
    after = decisions_of(make_plan([node(1, whole + opened, idle=idle + opened)], [job(1, asked)]))[1]
    if before.placement is not None or "for_sharing" in before.figures:
        return
    if before.figures.get("ever", True):
        assert ("set_aside" in before.figures) == (after.placement is not None)
