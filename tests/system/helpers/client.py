"""A tenant's view of a running Berth over REST, and an operator's over the pages."""

import contextlib
import re
import sqlite3
import time
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser

import httpx2

from tests.servers import pause_s, stretched

FINAL = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL"}
MACHINE_SLACK = 3.0
"""Limits below are for an idle machine of two cores; a busy one gets this much longer before a wait is in vain."""


@dataclass
class Tenant:
    """One tenant of a RunningBerth; calls raise AssertionError on an answer they did not expect."""

    berth: object
    name: str = "vision-lab"

    @property
    def token(self):
        return self.berth.tokens[self.name]

    def submit(self, command, *, key=None, **description):
        """Number of the new job (of the array, for arrays)."""
        body = {"gpus": 1, "command": command, **description}
        headers = {"Idempotency-Key": key} if key else None
        status, job = self.berth.request("/api/v1/jobs", method="POST", body=body, token=self.token, headers=headers)
        assert status == 201, (status, job)
        return job["number"]

    def job(self, number):
        status, job = self.berth.request(f"/api/v1/jobs/{number}", token=self.token)
        assert status == 200, (status, job)
        return job

    def state(self, number):
        return self.job(number)["state"]

    def act(self, number, verb):
        status, job = self.berth.request(f"/api/v1/jobs/{number}/{verb}", method="POST", token=self.token)
        assert status == 200, (status, job)
        return job

    def log(self, number, **query):
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        status, answer = self.berth.request(f"/api/v1/jobs/{number}/logs?{asked}", token=self.token)
        assert status == 200, (status, answer)
        return answer["text"]

    def log_whole(self, number, stream):
        """All of one stream, over as many answers as it takes."""
        text, offset = "", 0
        while True:
            path = f"/api/v1/jobs/{number}/logs?stream={stream}&offset={offset}"
            status, answer = self.berth.request(path, token=self.token)
            assert status == 200, (status, answer)
            text, offset = text + answer["text"], answer["next_offset"]
            if not answer["text"]:
                return text

    def tasks(self, array):
        status, page = self.berth.request(f"/api/v1/jobs?array={array}&page_size=100", token=self.token)
        assert status == 200, page
        return page["results"]

    def wait_state(self, number, *states, limit_s=20.0):
        """The job once it is in one of these states; an end that was not waited for fails at once."""
        deadline = time.monotonic() + stretched(limit_s * MACHINE_SLACK)
        job = kept = None
        while (asked := time.monotonic()) < deadline:
            kept = state_kept(self.berth, number)
            if kept is None or kept in {*states, *FINAL}:
                try:
                    job = self.job(number)
                except OSError:
                    time.sleep(0.2)
                    continue
                if job["state"] in states:
                    return job
                if job["state"] in FINAL:
                    break
            time.sleep(pause_s(time.monotonic() - asked))
        raise AssertionError(f"job {number} is {kept}, not {states}: {job or self.job(number)}\n{self.berth.logs()}")

    def ends(self, numbers, *, limit_s):
        """{number: state}, once all have ended: while one of them runs, the others need not be asked for."""
        states, left = {}, list(numbers)

        def all_final():
            while (
                left and state_kept(self.berth, left[0]) in {None, *FINAL} and (state := self.state(left[0])) in FINAL
            ):
                states[left.pop(0)] = state
            return not left

        self.berth.wait(all_final, limit_s=limit_s, what=f"the end of all of {numbers}")
        return states

    def wait_log(self, number, text, *, limit_s=20.0, **query):
        found = lambda: text in self.log(number, **query)  # noqa: E731 - reads best in place
        self.berth.wait(found, limit_s=limit_s * MACHINE_SLACK, what=f"{text!r} in the log of job {number}")
        return self.log(number, **query)


@contextmanager
def signed_in(berth, name):
    """Give a client with the session of one of the demo's people."""
    with httpx2.Client(base_url=berth.url, timeout=30.0, follow_redirects=True) as browser:
        form = {"csrfmiddlewaretoken": _csrf(browser.get("/login").text), "username": name}
        assert browser.post("/login", data=form | {"password": berth.users[name]["password"]}).status_code == 200
        yield browser


def operator_node_action(berth, node, verb, reason="a test"):
    """Drain, resume or declare dead through the page's own form."""
    with httpx2.Client(base_url=berth.url, timeout=20.0, follow_redirects=True) as browser:
        page = browser.get("/login").text
        form = {"csrfmiddlewaretoken": _csrf(page), **berth.operator}
        assert browser.post("/login", data=form).status_code == 200
        page = browser.get(f"/cluster/{node}/").text
        answer = browser.post(f"/cluster/{node}/{verb}", data={"csrfmiddlewaretoken": _csrf(page), "reason": reason})
        assert answer.status_code == 200, answer.text[:500]


def operator_settings(berth, **values):
    """Change policy settings through the console's own page, which wants the whole form. Returns what they were."""
    path = "/admin/rounds/operatorsetting/"
    with httpx2.Client(base_url=berth.url, timeout=30.0, follow_redirects=True) as browser:
        form = {"csrfmiddlewaretoken": _csrf(browser.get("/login").text), **berth.operator}
        assert browser.post("/login", data=form).status_code == 200
        page = browser.get(path).text
        fields = _Fields()
        fields.feed(page)
        assert set(values) <= set(fields.values), sorted(fields.values)
        answer = browser.post(
            path, data={**fields.values, **values, "reason": "a test", "csrfmiddlewaretoken": _csrf(page)}
        )
        assert answer.status_code == 200, answer.text[:500]
    return {name: fields.values[name] for name in values}


class _Fields(HTMLParser):
    """The values that a form's inputs and selects hold."""

    def __init__(self):
        super().__init__()
        self.values, self._select = {}, None

    def handle_starttag(self, tag, attrs):
        about = dict(attrs)
        if tag == "input" and about.get("name"):
            self.values[about["name"]] = about.get("value", "")
        elif tag == "select":
            self._select = about.get("name")
        elif tag == "option" and "selected" in about:
            self.values[self._select] = about["value"]


def _csrf(page):
    return re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page).group(1)


def rows(berth, query, *values):
    """What the SQLite database says, read only and past the portal."""
    uri = f"file:{berth.layout.database}?mode=ro"
    # Closed, not left to who holds a failed call's frame: while it is open here, the index of a cut log is not made anew.
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=20.0)) as connection:
        return connection.execute(query, values).fetchall()


def state_kept(berth, number):
    """What the SQLite database says of a job, past the portal; None where only REST can tell (tasks, arrays, Postgres).

    Whoever waits for a state asks REST when it is there: each answer of REST's costs the portal 20 ms.
    """
    if not str(number).isdigit() or not berth.layout.database.exists():
        return None
    with contextlib.suppress(sqlite3.Error):  # it is being put in place
        for (state,) in rows(berth, "select state from jobs_job where id = ? and array_size is null", int(number)):
            return state
    return None


HELD_AFTER_THE_END = (
    """select a.id, a.attempt_id from jobs_allocation a join jobs_attempt t on t.id = a.attempt_id
       where t.ended_at is not null and a.released_at is null""",
    """select g.id, a.attempt_id from jobs_gpuallocation g join jobs_allocation a on a.id = g.allocation_id
       join jobs_attempt t on t.id = a.attempt_id where t.ended_at is not null and g.released_at is null""",
)


def leaks(berth):
    """Allocations and GPUs still held by attempts that have ended; there must be none."""
    return [held for query in HELD_AFTER_THE_END for held in rows(berth, query)]
