"""Who is throttled for a node's memory traffic, and for how long (CODA V-D; algorithms.md section 9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contention import LEAST_SHARE, Cause, Order, Reading, Rules, Training, Watch, observe
from scheduler.parameters import Parameters

TRAINING, HOG, OTHER = 1, 2, 3
RULES = Rules(Parameters().relieve_threshold, Parameters().noise_band)


class Node:
    """Training jobs that lose up to `sensitivity` of their utilisation above three quarters of the bandwidth."""

    def __init__(self, *, wants=None, sensitivity=0.5, trainings=(TRAINING,)):
        self.wants = {HOG: 0.9} if wants is None else dict(wants)
        self.trainings = dict.fromkeys(trainings, sensitivity)
        self.shares, self.cores, self.watch, self.said = {}, 4, Watch(), []

    def drawn(self):
        return {job: wants * self.shares.get(job, 1.0) for job, wants in self.wants.items()}

    def utilisation(self, training):
        beyond = min(1.0, max(0.0, sum(self.drawn().values()) / 0.75 - 1.0))
        return 0.9 * (1 - self.trainings[training] * beyond)

    def period(self, times=1):
        for _ in range(times):
            drawn = self.drawn()
            seen = {each: Training(self.utilisation(each), self.cores) for each in self.trainings}
            self.watch, order = observe(self.watch, Reading(sum(drawn.values()), seen, drawn), RULES)
            self.said.append(order)
            if order is not None:
                self.shares[order.job] = order.share
        return self.said[-1]


def calm_then(wants, **node):
    """A node whose training job was seen alone for a period before the CPU jobs came."""
    made = Node(wants={}, **node)
    assert made.period() is None
    made.wants = dict(wants)
    return made


def test_the_largest_drawer_is_throttled_when_a_training_job_lost_by_a_pressed_memory():
    node = calm_then({OTHER: 0.2, HOG: 0.8})
    order = node.period()
    assert (order.job, order.share, order.cause, order.training) == (HOG, 0.5, Cause.HURT, TRAINING)
    assert order.fell == pytest.approx(0.15)
    assert node.utilisation(TRAINING) == pytest.approx(0.9)


def test_traffic_that_hurts_nobody_is_left_alone():
    assert calm_then({HOG: 3.0}, sensitivity=0.0).period(5) is None


def test_a_loss_on_a_node_that_is_not_pressed_is_not_the_traffics():
    node = calm_then({HOG: 0.5})
    node.utilisation = lambda _: 0.3
    assert node.period(5) is None


def test_a_loss_with_other_cores_is_not_the_traffics():
    """The search for the job's cores took one away meanwhile."""
    node = calm_then({HOG: 0.9})
    node.cores = 3
    assert node.period() is None


def test_one_job_at_a_time_and_the_largest_again_while_it_is_the_largest():
    node = calm_then({HOG: 4.0, OTHER: 1.2}, sensitivity=1.0)
    orders = [node.period() for _ in range(4)]
    assert [(order.job, order.share) for order in orders] == [(HOG, 0.5), (HOG, 0.25), (OTHER, 0.5), (HOG, 0.125)]


def test_no_job_is_throttled_to_nothing():
    node = calm_then({HOG: 1000.0})
    node.period(20)
    assert node.shares[HOG] == LEAST_SHARE


def test_a_throttle_does_not_swing_while_both_are_there():
    """Below 60 % only because of the throttle is not room for the traffic."""
    node = calm_then({HOG: 0.9})
    node.period(30)
    assert [order for order in node.said if order] == [Order(HOG, 0.5, Cause.HURT, TRAINING, pytest.approx(0.09))]


def test_a_throttle_is_lifted_when_there_was_room_for_three_periods():
    node = calm_then({HOG: 0.8, OTHER: 0.3})
    node.period()
    node.wants[HOG] = 0.2  # with half of its cores it draws half of it
    assert node.period(2) is None
    assert node.period() == Order(HOG, 1.0, Cause.CALM, TRAINING)


def test_room_that_comes_and_goes_is_counted_anew():
    node = calm_then({HOG: 0.9})
    node.period()
    for drawn in (0.1, 0.1, 0.45, 0.1, 0.1):
        node.drawn = lambda drawn=drawn: {HOG: drawn}
        assert node.period() is None
    assert node.period().cause is Cause.CALM


def test_a_throttle_ends_with_the_job_it_helped():
    node = calm_then({HOG: 0.9})
    node.period()
    node.trainings = {}
    assert node.period() == Order(HOG, 1.0, Cause.GONE, TRAINING)
    assert node.watch == Watch()


def test_a_training_job_that_begins_beside_the_traffic_is_helped_by_trial():
    node = Node(wants={HOG: 1.4}, sensitivity=0.6)
    assert (first := node.period()).cause is Cause.TRIAL
    assert (first.job, first.share) == (HOG, 0.5)
    node.period(10)
    assert [order for order in node.said if order] == [first]
    assert node.utilisation(TRAINING) == pytest.approx(0.9)


def test_a_trial_goes_on_while_it_gains_and_takes_back_the_step_that_gained_nothing():
    node = Node(wants={HOG: 5.0})
    node.utilisation = lambda _: 0.5 if node.shares.get(HOG, 1.0) == 1.0 else 0.8
    node.period(10)
    told = [(order.share, order.cause) for order in node.said if order]
    assert told == [(0.5, Cause.TRIAL), (0.25, Cause.TRIAL), (0.5, Cause.HARMLESS)]
    assert node.watch.throttles[HOG].share == 0.5


def test_a_trial_that_gains_nothing_is_over_after_a_period_and_not_repeated():
    node = Node(wants={HOG: 2.0}, sensitivity=0.0)
    node.period(10)
    told = [(order.share, order.cause) for order in node.said if order]
    assert told == [(0.5, Cause.TRIAL), (1.0, Cause.HARMLESS)]


def test_the_rules_are_the_operators():
    node = calm_then({HOG: 0.7})
    seen = {TRAINING: Training(0.5, 4)}
    assert observe(node.watch, Reading(0.7, seen, {HOG: 0.7}), RULES)[1] is None
    assert observe(node.watch, Reading(0.7, seen, {HOG: 0.7}), Rules(0.65, RULES.band))[1] is not None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_a_reading_that_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="finite"):
        Reading(value, {}, {})
    with pytest.raises(ValueError, match="finite"):
        Reading(0.5, {TRAINING: Training(value, 1)}, {})


PERIODS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(1, 3), st.tuples(st.floats(0, 1), st.integers(1, 2)), max_size=3),
        st.dictionaries(st.integers(4, 7), st.floats(0, 2), max_size=4),
        st.floats(0, 1),
    ),
    max_size=25,
)


@given(PERIODS)
def test_whatever_the_meters_say_shares_are_bounded_and_training_jobs_are_left_alone(periods):
    watch, shares = Watch(), {}
    for trainings, drawn, others in periods:
        reading = Reading(
            others + sum(drawn.values()), {job: Training(*each) for job, each in trainings.items()}, drawn
        )
        watch, order = observe(watch, reading, RULES)
        shares = {job: share for job, share in shares.items() if job in drawn}
        if order is not None:
            assert order.job in drawn
            assert LEAST_SHARE <= order.share <= 1
            assert order.share != shares.get(order.job, 1.0)
            shares[order.job] = order.share
        held = {job: throttle.share for job, throttle in watch.throttles.items()}
        assert held == {job: share for job, share in shares.items() if share < 1}
        assert watch.before.keys() <= trainings.keys()
        assert all(training in trainings and job in drawn for training, job in watch.harmless)


@given(st.floats(0.01, 5.0), st.floats(0.0, 1.0), st.booleans())
def test_a_node_that_does_not_change_comes_to_rest(wants, sensitivity, seen_alone):
    node = (calm_then if seen_alone else lambda wants, **own: Node(wants=wants, **own))(
        {HOG: wants}, sensitivity=sensitivity
    )
    node.period(12)
    said = len([order for order in node.said if order])
    node.period(12)
    assert len([order for order in node.said if order]) == said


@pytest.mark.parametrize("draws", [0.01, 0.049])
def test_who_draws_next_to_nothing_is_not_held_back_for_traffic_that_others_make(draws):
    """A training job may fill the memory by itself, and idle: a small job beside it is not to pay for that."""
    before = Watch(before={TRAINING: Training(0.9, 4)})
    reading = Reading(0.95, {TRAINING: Training(0.1, 4)}, {OTHER: draws})
    assert observe(before, reading, RULES)[1] is None
    assert observe(Watch(), reading, RULES)[1] is None, "not for a trial either"
    assert observe(before, Reading(0.95, reading.trainings, {OTHER: 0.051}), RULES)[1].job == OTHER
