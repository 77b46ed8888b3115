"""Sia 3.5: part of a node on one node, whole nodes whole, evictions where that cannot be had."""

from collections import Counter

import numpy as np

from scheduler.policies.rivals.typelevel.placer import Want, place


def free(*gpus):
    return dict(enumerate(gpus, start=1))


class TestPlacer:
    def test_leaves_those_who_keep_their_configuration_where_they_are(self):
        wants = [Want(1, 2, {2: 2}), Want(2, 2)]
        assert place(wants, free(4, 4), 4) == {1: {2: 2}, 2: {2: 2}}

    def test_never_splits_less_than_a_node(self):
        assert place([Want(1, 2)], free(1, 1), 4) == {}

    def test_gives_whole_nodes_whole(self):
        assert place([Want(1, 2), Want(2, 8)], free(4, 4, 4), 4) == {2: {1: 4, 2: 4}, 1: {3: 2}}
        assert place([Want(1, 4)], free(3, 3), 4) == {}

    def test_takes_the_fullest_node_that_holds_it(self):
        assert place([Want(1, 2)], free(4, 3, 2), 4) == {1: {3: 2}}

    def test_evicts_the_smallest_that_make_room_and_places_them_again(self):
        """Two single GPUs on two nodes: one moves to the other's node, so that there is a whole one."""
        wants = [Want(1, 1, {1: 1}), Want(2, 2, {2: 2}), Want(3, 4)]
        assert place(wants, free(4, 4), 4) == {2: {2: 2}, 3: {1: 4}, 1: {2: 1}}

    def test_evicts_nobody_in_vain(self):
        """A node of which another's job holds a GPU is never whole."""
        assert place([Want(1, 1, {1: 1}), Want(2, 4)], free(3, 3), 4) == {1: {1: 1}}

    def test_puts_the_rest_of_a_size_between_whole_nodes_on_one_more(self):
        """Sizes that Sia does not have: 6 = a whole node and two GPUs of another; without both it goes without."""
        assert place([Want(1, 6)], free(2, 4, 3), 4) == {1: {1: 2, 2: 4}}
        assert place([Want(1, 6)], free(1, 4, 1), 4) == {}

    def test_goes_where_a_job_may_be(self):
        assert place([Want(1, 2, nodes={2})], free(2, 4), 4) == {1: {2: 2}}

    def test_places_everybody_when_sizes_are_powers_of_two(self):
        """3.5: with these sizes enough GPUs of the type are enough, whatever lies where."""
        rng = np.random.default_rng(3)
        for _ in range(60):
            nodes, size = int(rng.integers(1, 5)), 8
            left, wants = free(*[size] * nodes), []
            for number in range(int(rng.integers(0, 10))):
                gpus = int(2 ** rng.integers(0, 4))
                fits = [node for node, idle in left.items() if idle >= gpus]
                if fits:
                    node = int(rng.choice(fits))
                    left[node] -= gpus
                    wants.append(Want(number, gpus, {node: gpus} if rng.random() < 0.6 else None))
            idle = sum(left.values())
            wants.append(Want(99, (idle // size) * size or 1 << (idle.bit_length() - 1)) if idle else Want(99, 0, {}))
            placed = place(wants, free(*[size] * nodes), size)
            assert {job: sum(spots.values()) for job, spots in placed.items()} == {w.job: w.gpus for w in wants}
            used = Counter()
            for spots in placed.values():
                used.update(spots)
            assert max(used.values(), default=0) <= size
