"""The ledger: what is taken and given up again within one planning is there again."""

from scheduler.model import Configuration, Share
from scheduler.placement.ledger import Ledger
from tests.scheduler.builders import node


def test_reserved_cores_given_up_may_be_taken_again():
    """A re-plan takes a place back and gives it out anew: a limited job's cores were gone, and it raised."""
    ledger = Ledger([node(1, 4)], (), ())
    ledger.limit([7], {1: 4})
    wanted = Configuration(7, (Share(1, 4, 4, 0),), 1.0, "assumed")
    for _ in range(2):
        placement = ledger.take(wanted, 1)
        assert ledger.cores_for(1, limited=True) == 0
        ledger.release(placement.pieces, 1, 7)
    assert ledger.cores_for(1, limited=True) == 4


def test_what_others_give_up_lifts_no_limit():
    ledger = Ledger([node(1, 4)], (), ())
    ledger.limit([7], {1: 4})
    placement = ledger.take(Configuration(8, (Share(1, 2, 2, 0),), 1.0, "assumed"), 1)
    ledger.release(placement.pieces, 1, 8)
    assert ledger.cores_for(1, limited=True) == 4
