"""A benchmark on a database without its tables says so, with the remedy, instead of a traceback."""

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.recorder import MigrationRecorder

from research.bench.readiness import database_ready

pytestmark = pytest.mark.django_db

BENCHMARKS = (
    ("plannings",),
    ("round", "--here", "--gpus", "8", "--jobs", "1"),
    ("pages", "--here", "--nodes", "1", "--jobs", "1"),
)


def test_nothing_is_said_of_a_database_as_it_should_be():
    database_ready()


@pytest.mark.parametrize("arguments", BENCHMARKS)
def test_a_database_without_tables_is_refused(arguments):
    MigrationRecorder.Migration.objects.all().delete()
    with pytest.raises(CommandError, match=r"has no tables yet\. Make them with `\./berth up`"):
        call_command("bench", *arguments)


def test_older_tables_are_refused_and_what_is_missing_is_named():
    last = MigrationRecorder.Migration.objects.filter(app="rounds").order_by("-name").first()
    MigrationRecorder.Migration.objects.filter(app="rounds", name=last.name).delete()
    with pytest.raises(CommandError, match=f"missing, from rounds {last.name} on"):
        call_command("bench", "plannings")
