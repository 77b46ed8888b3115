"""A state that many tests of a module or class begin with, made once for all of them."""

from contextlib import contextmanager

from django.db import transaction


@contextmanager
def lasting(django_db_blocker):
    """Keep the rows that are made inside until the block ends, in a transaction around those of the tests.

    A test that changes a row has the change taken back; an object in Python is its own to copy.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)
