from celery import shared_task

from portal.work.sweeps.reading import sweeps_read

shared_task(sweeps_read, name="sweeps.read", expires=10)
