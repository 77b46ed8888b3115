"""A portal of its own in a process of its own, which a parser may kill: `python -m tests.portal.hostile.door DIR < cases`.

DIR has a database with Berth's tables.
Each line in is a case (see `cases.Case`), each line out says what came of it. SIGPROF ends the process when one case takes
more than CASE_CPU_S of processor time, C code included.
"""

import base64
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

CASE_CPU_S = 8.0
"""A case takes some hundredths; the fault that it guards against took for ever. Generous, for the machine may be busy."""


def main(folder):
    os.environ.update(
        BERTH_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="portal.settings", DATABASE_URL="", BERTH_BASE_URL=""
    )
    fresh = not (Path(folder) / "secret-key").exists()
    (Path(folder) / "secret-key").write_text("k" * 60)
    import django

    django.setup()
    if fresh:
        prepare()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    send = sender()
    for line in sys.stdin:
        case = json.loads(line)
        tell("start", case["name"])
        before, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        signal.setitimer(signal.ITIMER_PROF, CASE_CPU_S)
        status, answer, size = send(case)
        signal.setitimer(signal.ITIMER_PROF, 0)
        grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024
        tell("done", case["name"], status, round(time.process_time() - before, 3), round(grown_mib), size, answer)


def tell(*said):
    print(json.dumps(said), flush=True)


def prepare():
    from portal.people.tenants.models import Tenant, User
    from portal.people.tenants.services import membership_add

    user = User(username="mallory")
    user.set_unusable_password()
    user.save()
    membership_add(user=user, tenant=Tenant.objects.create(name="evil-lab"), actor=None)


def sender():
    """Return a function that sends a case and returns (status, the beginning of the answer, its length)."""
    from django.conf import settings
    from django.core.cache import cache
    from django.test import Client

    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    from portal.people.tenants.models import User
    from portal.people.tenants.services import token_create

    user = User.objects.get(username="mallory")
    scopes = ("jobs:read", "jobs:write", "cluster:read", "simulations:read", "simulations:write")
    _, secret = token_create(user=user, name="door", scopes=scopes, actor=None)
    rest, page = Client(raise_request_exception=False), Client(raise_request_exception=False)
    page.force_login(user, backend="django.contrib.auth.backends.ModelBackend")

    def send(case):
        cache.clear()  # not the throttle is asked
        client, headers = (page, {}) if case["by"] == "page" else (rest, {"Authorization": f"Bearer {secret}"})
        headers |= case.get("headers") or {}
        body = base64.b64decode(case["body"])
        answer = client.generic(case["method"], case["path"], body, content_type=case["kind"], headers=headers)
        content = b"".join(answer.streaming_content) if answer.streaming else answer.content
        return answer.status_code, content[:300].decode("utf-8", "replace"), len(content)

    return send


if __name__ == "__main__":
    main(sys.argv[1])
