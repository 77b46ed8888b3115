from django.apps import AppConfig


class EventsConfig(AppConfig):
    name = "portal.foundation.events"

    def ready(self) -> None:
        from celery.signals import worker_process_init, worker_ready

        # Each worker process gets a relay of its own: a thread does not survive the pool's fork.
        worker_process_init.connect(_relay_start, weak=False, dispatch_uid="events.relay")
        worker_ready.connect(_relay_start, weak=False, dispatch_uid="events.relay")


def _relay_start(**_: object) -> None:
    from portal.foundation.events import relay

    relay.start()
