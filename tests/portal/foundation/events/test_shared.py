"""Values computed once for all readers: no stampede, none older than it says, and pages without Redis."""

import threading
import time

import pytest
import redis

from portal.foundation.events.relay import number_key
from portal.foundation.events.shared import Sharing, client

pytestmark = pytest.mark.usefixtures("broker_settings")


@pytest.fixture
def broker(settings, broker_settings):
    client.cache_clear()
    return redis.Redis.from_url(settings.REDIS_URL)


class Made:
    """A value that counts how often it is made; `gate` lets the first one go on."""

    def __init__(self, *, slow=False):
        self.count, self.gate, self.lock = 0, threading.Event(), threading.Lock()
        if not slow:
            self.gate.set()

    def __call__(self, _):
        with self.lock:
            self.count += 1
            value = self.count
        assert self.gate.wait(30)
        return value


def ask(made, **more):
    sharing = Sharing()
    return sharing.get("figure", made, **more), sharing


def test_many_readers_at_once_are_one_computation(broker):
    made, answers = Made(slow=True), []
    readers = [threading.Thread(target=lambda: answers.append(ask(made)[0])) for _ in range(12)]
    for reader in readers:
        reader.start()
    while made.count == 0:
        time.sleep(0.01)
    made.gate.set()
    for reader in readers:
        reader.join(30)
    assert answers == [1] * 12


def test_while_one_computes_the_others_are_given_the_value_before(broker):
    ask(Made(), every_s=0)
    broker.incr(number_key("cluster"))
    slow = Made(slow=True)
    busy = threading.Thread(target=ask, args=(slow,), kwargs={"every_s": 0})
    busy.start()
    while slow.count == 0:
        time.sleep(0.01)
    value, sharing = ask(Made(), every_s=0)
    slow.gate.set()
    busy.join(30)
    assert (value, sharing.late) == (1, True), "the old one, which says that it is old"


def test_an_event_makes_it_late_and_then_new_once_a_second(broker):
    broker.set(number_key("cluster"), 41)
    made = Made()
    value, first = ask(made, every_s=60)
    assert (value, first.number, first.late) == (1, 41, False)
    broker.incr(number_key("cluster"))
    value, again = ask(made, every_s=60)
    assert (value, again.number, again.late) == (1, 41, True), "within the second: the page gets the order to ask again"
    value, new = ask(made, every_s=0)
    assert (value, new.number, new.late) == (2, 42, False)
    assert ask(made, every_s=0)[0] == 2, "no event since: it stands, as long as its times may"
    assert ask(made, every_s=0, longest_s=0)[0] == 3


def test_what_is_made_of_older_values_is_as_old_as_they(broker):
    broker.set(number_key("cluster"), 7)
    Sharing().get("part", lambda _: "part", every_s=60)
    broker.incr(number_key("cluster"))
    whole = Sharing()
    assert whole.get("whole", lambda inner: inner.get("part", lambda _: "new", every_s=60)) == "part"
    assert (whole.number, whole.late) == (7, True)


def test_one_that_takes_long_is_made_seldom(broker):
    def slow(_):
        time.sleep(0.3)
        return time.monotonic()

    first = ask(slow, every_s=0)[0]
    broker.incr(number_key("cluster"))
    assert ask(slow, every_s=0)[0] == first, "for ten times what it took"


def test_without_redis_each_answer_makes_its_own(settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    made = Made()
    sharing = Sharing()
    assert [sharing.get("figure", made), sharing.get("figure", made)] == [1, 1], "once an answer: its parts agree"
    assert ask(made)[0] == 2
    assert (sharing.number, sharing.late) == (None, False)
