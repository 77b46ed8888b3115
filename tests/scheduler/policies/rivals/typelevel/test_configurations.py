"""Sia 3.2, 3.3: configurations by GPU type, and how far a job may grow."""

from scheduler.policies.rivals.typelevel.program import Bucket, Kind, buckets_of, kinds_of, within_growth
from tests.scheduler.builders import job, node

A, B = Bucket("a", 4), Bucket("b", 2)
NODES = [node(1, 4, gpu_type="a"), node(2, 4, gpu_type="a"), node(3, 2, gpu_type="b"), node(4, 0)]
EVERY = tuple(range(1, 9))


def kinds(asked, *, every_size=False, nodes=NODES):
    return [
        (kind.bucket.gpu_type, kind.nodes, kind.gpus)
        for kind in kinds_of(asked, buckets_of(nodes), every_size=every_size)
    ]


class TestConfigurations:
    def test_are_powers_of_two_within_a_node_and_whole_nodes_beyond(self):
        """3.3: two nodes of four of one type, one of two of the other."""
        expected = [("a", 1, 1), ("a", 1, 2), ("a", 1, 4), ("a", 2, 8), ("b", 1, 1), ("b", 1, 2)]
        assert kinds(job(1, *EVERY)) == expected

    def test_are_those_that_the_job_accepts(self):
        assert kinds(job(1, 2, 3, 8, gpu_types=frozenset("a"))) == [("a", 1, 2), ("a", 2, 8)]

    def test_of_a_rigid_job_are_its_one_size_on_each_type_that_has_it(self):
        assert kinds(job(1, 6)) == [("a", 2, 6)]
        assert kinds(job(1, 2)) == [("a", 1, 2), ("b", 1, 2)]

    def test_are_all_of_a_jobs_own_where_none_is_sias(self):
        assert kinds(job(1, 3, 5)) == [("a", 1, 3), ("a", 2, 5)]

    def test_are_one_for_each_requirement_as_hops_ran_sia(self):
        """Hops 4.2, baseline settings."""
        expected = [("a", 1, 1), ("a", 1, 3), ("a", 1, 4), ("a", 2, 5), ("b", 1, 1)]
        assert kinds(job(1, 1, 3, 4, 5), every_size=True) == expected

    def test_count_nodes_of_other_sizes_as_another_type(self):
        found = buckets_of([node(1, 4), node(2, 8), node(3, 4)])
        assert {bucket.node_gpus: [each.id for each in own] for bucket, own in found.items()} == {4: [1, 3], 8: [2]}


class TestGrowth:
    """3.2: a job starts with its fewest GPUs and at most doubles."""

    def sizes(self, most_gpus, *sizes):
        return [kind.gpus for kind in within_growth([Kind(A, size) for size in sizes], most_gpus)]

    def test_starts_with_the_fewest(self):
        assert self.sizes(0, 1, 2, 4) == [1]

    def test_is_to_twice_the_most_gpus_it_has_run_on(self):
        assert self.sizes(2, 1, 2, 4, 8) == [1, 2, 4]

    def test_passes_over_a_hole_in_the_requirement_set(self):
        assert self.sizes(1, 1, 6, 12) == [1, 6]
        assert self.sizes(12, 1, 6, 12) == [1, 6, 12]
