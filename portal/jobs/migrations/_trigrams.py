"""A trigram index for searching jobs on Postgres. Who may not create the extension goes without: slower, the same answers."""

import logging

from django.db import DatabaseError, transaction

log = logging.getLogger(__name__)

EXTENSION = "CREATE EXTENSION IF NOT EXISTS pg_trgm"
INDEX = "CREATE INDEX IF NOT EXISTS job_text_trigrams ON jobs_jobtext USING gin (text gin_trgm_ops)"


def index_make(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            schema_editor.execute(EXTENSION)
            schema_editor.execute(INDEX)
    except DatabaseError as error:
        why = str(error).splitlines()[0]
        log.warning("The search goes without a trigram index (%s): its answers are the same, but take longer.", why)


def index_drop(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP INDEX IF EXISTS job_text_trigrams")  # the extension may serve others: it stays
