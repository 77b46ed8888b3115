"""From GPUs of a type to nodes, as Gavel does it (OSDI '20, section 5)."""

from __future__ import annotations

from scheduler.policies.rivals.timeshare.play import Want, place


def test_leases_are_renewed():
    assert place([Want(1, 1, held={2: 1}), Want(2, 1)], {1: 1, 2: 1}) == {1: {2: 1}, 2: {1: 1}}


def test_the_fullest_node_that_holds_it():
    assert place([Want(1, 2)], {1: 4, 2: 2, 3: 1}) == {1: {2: 2}}


def test_a_larger_job_displaces_smaller_ones_rather_than_being_spread():
    wants = [Want(1, 1, held={1: 1}), Want(2, 1, held={2: 1}), Want(3, 4)]
    assert place(wants, {1: 4, 2: 4}) == {3: {1: 4}, 2: {2: 1}, 1: {2: 1}}


def test_it_displaces_as_few_as_it_can():
    wants = [Want(1, 2, held={1: 2}), Want(2, 1, held={2: 1}), Want(3, 4)]
    assert place(wants, {1: 4, 2: 4})[3] == {2: 4}


def test_spread_over_the_fewest_nodes_when_none_holds_it():
    assert place([Want(1, 5)], {1: 1, 2: 4, 3: 3}) == {1: {2: 4, 3: 1}}


def test_only_where_it_may_be():
    assert place([Want(1, 2, nodes={1, 3})], {1: 1, 2: 4, 3: 1}) == {1: {1: 1, 3: 1}}
    assert place([Want(1, 3, nodes={1, 3})], {1: 1, 2: 4, 3: 1}) == {}
