"""Celery's errand here: the demo's later jobs."""

from celery import shared_task

from portal.launch.demo.arrivals import arrivals_step


@shared_task(name="launch.demo_arrivals")
def demo_arrivals() -> int | None:
    """Submit the demo's next job when it is time for one; its id."""
    job = arrivals_step()
    return job.pk if job else None
