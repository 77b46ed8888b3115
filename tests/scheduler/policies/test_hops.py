"""Policy `hops`, and `berth` with one tenant and one array, against Hops 3.6 by the book: every plan is tried."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.builders import job, make_plan, node

SPEEDS = {"a100": 2.0, "v100": 1.0}


def ratio(each):
    return each.wait_s / each.age_s


def window(jobs, nodes):
    """From the head of the queue on, until the minimum requirements reach the cluster's GPUs; the last one is inside."""
    inside, asked = [], 0
    for each in sorted(jobs, key=lambda one: (-ratio(one), one.submitted_s, one.id)):
        if asked >= sum(host.gpus_total for host in nodes):
            break
        inside.append(each)
        asked += each.requirement[0]
    return inside


def configurations(asked, nodes):
    """[({node: GPUs}, throughput)]: on one node wherever R_k fits; over several, the nodes of a type in order, each as
    full as possible, when R_1 is above its largest node: those with the fewest nodes.
    """
    found = []
    for gpu_type in sorted({host.gpu_type for host in nodes}):
        own = [host for host in nodes if host.gpu_type == gpu_type]
        for size in asked.requirement:
            throughput = SPEEDS[gpu_type] * size**0.9
            found += [({host.id: size}, throughput) for host in own if size <= len(host.idle_gpus)]
            if asked.requirement[0] <= max(host.gpus_total for host in own):
                continue
            spread = []
            for start in range(len(own)):
                left, there = size, {}
                for host in own[start:]:
                    if part := min(left, len(host.idle_gpus)):
                        there[host.id] = part
                        left -= part
                if not left and len(there) > 1:
                    spread.append(there)
            fewest = min((len(there) for there in spread), default=0)
            found += [(there, throughput) for there in spread if len(there) == fewest]
    return found


def best(inside, nodes, lambda_):
    """The largest sum of (prior + bias)^lambda * G over all feasible choices, weights relative to the largest."""
    lowest = min((ratio(each) for each in inside), default=1.0)
    bias = 0.0 if lowest > 0 else abs(lowest) + 0.01
    largest = max((ratio(each) for each in inside), default=1.0) + bias
    rows = []
    for each in inside:
        offered = configurations(each, nodes)
        least = min((throughput for _, throughput in offered), default=1.0)
        w = max(1e-6, ((ratio(each) + bias) / largest) ** lambda_)
        rows.append([({}, 0.0), *((there, w * throughput / least) for there, throughput in offered)])

    def most(position, idle):
        if position == len(rows):
            return 0.0
        return max(
            value + most(position + 1, {host: gpus - there.get(host, 0) for host, gpus in idle.items()})
            for there, value in rows[position]
            if all(idle[host] >= gpus for host, gpus in there.items())
        )

    return most(0, {host.id: len(host.idle_gpus) for host in nodes})


@st.composite
def instances(draw):
    """Up to three nodes of two types, partly busy, plenty of cores, and up to five jobs of one tenant."""
    nodes = []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        gpus = draw(st.sampled_from([2, 4]))
        kind = draw(st.sampled_from(sorted(SPEEDS)))
        nodes.append(node(number, gpus, gpu_type=kind, cores=64, idle=draw(st.integers(0, gpus))))
    jobs = [
        job(
            number,
            *draw(st.sampled_from([(1,), (2,), (1, 2), (1, 2, 4), (2, 4), (6,)])),
            wait_s=draw(st.sampled_from([0.0, 60.0, 600.0, 5000.0])),
            age_s=draw(st.sampled_from([100.0, 600.0])),
        )
        for number in range(1, draw(st.integers(1, 5)) + 1)
    ]
    return nodes, jobs


@settings(max_examples=12, deadline=None)
@given(instances(), st.sampled_from([0.0, 1.0, 2.5]))
def test_one_tenant_and_one_array_is_hops_by_the_book(instance, lambda_):
    nodes, jobs = instance
    whole = [replace(host, idle_gpus=tuple(range(host.gpus_total))) for host in nodes]
    jobs = [each for each in jobs if configurations(each, whole)]  # those that could ever start
    inside = window(jobs, nodes)
    expected = best(inside, nodes, lambda_)
    for knobs in (
        {"policy": "hops"},
        {"policy": "berth", "gain": "linear", "arrays": "off", "reserve_lr": None, "sweep": "off"},
    ):
        made = make_plan(nodes, jobs, gpu_speeds=SPEEDS, lambda_=lambda_, **knobs)
        assert {each.job for each in made.decisions if each.inside_window} == {each.id for each in inside}
        value = sum(each.figures["value"] for each in made.decisions if each.placement)
        assert value == pytest.approx(expected, abs=1e-6)  # a solver need not see sums of the least weights
        assert (made.solver.objective or 0.0) == pytest.approx(expected, abs=1e-6)
