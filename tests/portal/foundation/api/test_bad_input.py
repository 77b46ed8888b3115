"""The table of bad input: each line answers with its status and code, and changes nothing.

Each value that a description may not have stands in tests/portal/work/jobs/test_description.py, and one of a kind here.
"""

import json

import pytest
from django.test import Client

from portal.work.jobs.models import Job
from tests.portal.foundation.api.conftest import refusal

pytestmark = pytest.mark.django_db

DEEP = b'{"command":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
RAW = {
    "truncated": (b'{"command": "tr', 400, "parse_error"),
    "empty": (b" ", 400, "parse_error"),
    "a list": (b"[]", 400, "not_an_object"),
    "text": (b'"true"', 400, "not_an_object"),
    "2 MiB": (b'{"command": "' + b"x" * 2 * 1024 * 1024 + b'"}', 413, "too_large"),
    "1.6 MiB": (b'{"command": "' + b"x" * 1600 * 1024 + b'"}', 413, "too_large"),
    "deep": (DEEP, 400, "too_deep"),
    "deep and open": (b"[" * 10_000, 400, "too_deep"),
    "quotes without end": (b'{"a":[[[' + b'"' + b'\\"' * 700_000, 400, "parse_error"),
    "duplicate key": (b'{"command": "a", "command": "b"}', 400, "duplicate_key"),
    "inner duplicate key": (b'{"command": "a", "environment": {"A": "1", "A": "2"}}', 400, "duplicate_key"),
    "NaN": (b'{"command": "a", "samples": NaN}', 400, "not_finite"),
    "Infinity": (b'{"command": "a", "samples": -Infinity}', 400, "not_finite"),
    "1e999": (b'{"command": "a", "samples": 1e999}', 400, "not_finite"),
    "5000 digits": (b'{"command": "a", "samples": ' + b"1" * 5000 + b"}", 400, "parse_error"),
    "U+0000": (rb'{"command": "a\u0000b"}', 400, "null_character"),
    "U+0000 in a key": (rb'{"command": "a", "environment": {"\u0000": ""}}', 400, "null_character"),
    "lone surrogate": (rb'{"command": "\ud800"}', 400, "invalid_unicode"),
    "lone surrogate in a key": (rb'{"\udc00": 1}', 400, "invalid_unicode"),
    "duplicate surrogates": (rb'{"\udc00": 1, "\udc00": 2}', 400, "duplicate_key"),
    "not UTF-8": (b'{"command": "\xff"}', 400, "invalid_unicode"),
}


def test_bodies(world, unchanged, subtests):
    for case, (raw, status, code) in RAW.items():
        with subtests.test(case=case):
            refusal(world.owner("POST", "/jobs", raw=raw), status, code)


def test_only_json_is_taken(world, unchanged, subtests):
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "x"]:
        with subtests.test(content_type=content_type):
            answer = world.owner("POST", "/jobs", raw=b'{"command": "true"}', content_type=content_type)
            refusal(answer, 415, "unsupported_media_type")


FIELDS = [
    ({}, 400, "required", "command"),
    ({"gpus": -1}, 400, "out_of_range", "gpus"),
    ({"gpus": "2"}, 400, "wrong_type", "gpus"),
    ({"gpus": 9}, 400, "unsatisfiable", "gpus"),
    ({"cores": 33}, 400, "unsatisfiable", "cores"),
    ({"memory_mib": 65537}, 400, "unsatisfiable", "memory_mib"),
    ({"gpus": 1, "gpu_types": ["B1000"]}, 400, "unknown_gpu_type", "gpu_types"),
    ({"priority": 1}, 403, "priority_too_high", "priority"),
    ({"priority": 1000}, 403, "priority_too_high", "priority"),
    ({"colour": "red"}, 400, "unknown_field", "colour"),
    ({"state": "RUNNING"}, 400, "read_only", "state"),
    ({"shareable": True}, 400, "needs_one_gpu", "shareable"),
    ({"shareable": True, "gpus": [1, 2]}, 400, "needs_one_gpu", "shareable"),
    ({"shareable": True, "gpus": 1, "gpu_memory_mib": 100}, 400, "required", "gpu_compute"),
    ({"shareable": True, "gpus": 1, "gpu_compute": 0.5}, 400, "required", "gpu_memory_mib"),
    ({"gpu_compute": 0.5, "gpus": 1}, 400, "only_for_shareable_jobs", "gpu_compute"),
    ({"latency_class": "latency"}, 400, "only_for_shareable_jobs", "latency_class"),
    ({"shareable": True, "gpus": 1, "gpu_compute": 0.01, "gpu_memory_mib": 1}, 400, "out_of_range", "gpu_compute"),
    (
        {"shareable": True, "gpus": 1, "gpu_compute": 0.5, "gpu_memory_mib": 99999},
        400,
        "unsatisfiable",
        "gpu_memory_mib",
    ),
    ({"webhook": "http://127.0.0.1/"}, 400, "not_supported", "webhook"),
    ({"environment": {"LD_PRELOAD": "/x.so"}}, 400, "env_key_forbidden", "environment"),
    ({"working_directory": "../../etc"}, 400, "path_escape", "working_directory"),
    ({"name": "a\nb"}, 400, "control_character", "name"),
    ({"depends_on": [10**9]}, 400, "unknown_dependency", "depends_on"),
    ({"tenant": "speech-lab"}, 400, "unknown_tenant", "tenant"),
    ({"tenant": "no-such"}, 400, "unknown_tenant", "tenant"),
]


def test_fields(world, unchanged, subtests):
    for fields, status, code, field in FIELDS:
        with subtests.test(fields=fields):
            body = {"command": "true", **fields} if fields else {}
            refusal(world.owner("POST", "/jobs", body), status, code, field)


def test_a_foreign_dependency_is_answered_like_a_missing_one(world):
    foreign = world.outsider.submit()["id"]
    answers = [world.owner("POST", "/jobs", {"command": "x", "depends_on": [n]}) for n in (foreign, foreign + 1)]
    details = [refusal(a, 400, "unknown_dependency", "depends_on")["detail"] for a in answers]
    assert details[0].replace(str(foreign), "N") == details[1].replace(str(foreign + 1), "N")
    assert Job.objects.count() == 1


def test_a_job_cannot_wait_for_itself(world):
    """Its own id does not exist yet when it is named, and a job's dependencies never change: no cycle can be said."""
    first = world.owner.submit()["id"]
    refusal(world.owner("POST", "/jobs", {"command": "x", "depends_on": [first + 1]}), 400)
    refusal(world.owner("PATCH", f"/jobs/{first}", {"depends_on": [first]}), 400, "not_changeable")


def test_markup_and_formulas_are_taken_as_text(world):
    assert world.owner.submit(name="<script>alert(1)</script>")["name"] == "<script>alert(1)</script>"
    assert world.owner.submit(name='=HYPERLINK("http://x")')["name"].startswith("=HYPERLINK(")


def test_over_quota(world):
    tenant = world.tenants["vision-lab"]
    tenant.gpu_quota, tenant.queued_jobs_quota = 2, 1
    tenant.save()
    refusal(world.owner("POST", "/jobs", {"command": "x", "gpus": 4}), 409, "quota_exceeded", "gpus")
    world.owner.submit()
    refusal(world.owner("POST", "/jobs", {"command": "x"}), 409, "quota_exceeded")
    assert Job.objects.count() == 1


@pytest.mark.parametrize("verb", ["cancel", "hold", "release", "requeue"])
def test_an_ended_job_is_left_alone(world, verb):
    job = world.owner.submit()
    assert world.owner("POST", f"/jobs/{job['id']}/cancel").json()["state"] == "CANCELLED"
    refusal(world.owner("POST", f"/jobs/{job['id']}/{verb}"), 409, "terminal_state")
    refusal(world.owner("PATCH", f"/jobs/{job['id']}", {"priority": -1}), 409, "terminal_state")


QUERIES = [
    ("/jobs", {"ordering": "colour"}, "unknown_ordering", "ordering"),
    ("/jobs", {"ordering": "tenant__members__password"}, "unknown_ordering", "ordering"),
    ("/jobs", {"page_size": "1000000000"}, "out_of_range", "page_size"),
    ("/jobs", {"page_size": "0"}, "out_of_range", "page_size"),
    ("/jobs", {"page_size": "ten"}, "wrong_type", "page_size"),
    ("/jobs", {"page": "9" * 30}, "wrong_type", "page"),
    ("/jobs", {"page": "9" * 19}, "out_of_range", "page"),
    ("/jobs", {"page": "\u0664"}, "wrong_type", "page"),
    ("/jobs", {"state": "DANCING"}, "invalid_choice", "state"),
    ("/jobs", {"since": "2026-01-31T12:00:00"}, "naive_time", "since"),
    ("/jobs", {"since": "2026-01-31"}, "naive_time", "since"),
    ("/jobs", {"since": "2026-02-30T12:00:00Z"}, "bad_time", "since"),
    ("/jobs", {"since": "0001-01-01T00:00:00+14:00"}, "bad_time", "since"),
    ("/jobs", {"since": "yesterday"}, "bad_time", "since"),
    ("/jobs", {"name": "a\0"}, "null_character", "name"),
    ("/jobs", {"array": "-1"}, "out_of_range", "array"),
    ("/jobs", {"colour": "red"}, "unknown_parameter", "colour"),
    ("/nodes", {"ordering": "token_digest"}, "unknown_ordering", "ordering"),
    ("/rounds", {"page_size": "501"}, "out_of_range", "page_size"),
    ("/metrics", {"since": "x"}, "bad_time", "since"),
    ("/me", {"x": "1"}, "unknown_parameter", "x"),
]


def test_query_strings(world, unchanged, subtests):
    for path, query, code, field in QUERIES:
        with subtests.test(path=path, query=query):
            refusal(world.owner.get(path, **query), 400, code, field)


def test_a_parameter_twice(world):
    refusal(world.owner("GET", "/jobs?page=1&page=2"), 400, "duplicate", "page")


MALFORMED = ["0", "-1", "1.0", "abc", "9" * 40, "1_", "1_x", "%00", "%ff", "..", "1%20", "\u0661", "1e3", "null"]


@pytest.mark.parametrize(
    ("method", "rest"), [("GET", ""), ("GET", "/logs"), ("GET", "/explain"), ("POST", "/cancel"), ("PATCH", "")]
)
def test_malformed_missing_and_foreign_ids_are_one(world, method, rest):
    foreign = world.outsider.submit()["id"]
    body = {"priority": 0} if method == "PATCH" else None
    numbers = [foreign, foreign + 7, *MALFORMED]
    errors = {n: refusal(world.owner(method, f"/jobs/{n}{rest}", body), 404, "not_found") for n in numbers}
    assert errors == dict.fromkeys(numbers, errors[foreign])


def test_other_ids(world, unchanged, subtests):
    for path in ["/rounds/x", "/rounds/1", "/plannings/-1", "/plannings/" + "9" * 30, "/nodes/%00"]:
        with subtests.test(path=path):
            refusal(world.operator("GET", path), 404, "not_found")


def test_idempotency_keys(world, unchanged, subtests):
    for key in ["", "a b", "x" * 256, "\u00e9"]:
        with subtests.test(key=key):
            answer = world.owner("POST", "/jobs", {"command": "x"}, headers={"Idempotency-Key": key})
            refusal(answer, 400, "bad_idempotency_key", "Idempotency-Key")


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({}, 400, "required", "priority"),
        ({"priority": "1"}, 400, "wrong_type", "priority"),
        ({"priority": 1}, 403, "priority_too_high", "priority"),
        ({"priority": -101}, 400, "out_of_range", "priority"),
        ({"command": "x"}, 400, "not_changeable", "command"),
        ({"state": "HELD"}, 400, "read_only", "state"),
        ({"x": 1}, 400, "unknown_field", "x"),
    ],
)
def test_changes(world, body, status, code, field):
    number = world.owner.submit()["id"]
    refusal(world.owner("PATCH", f"/jobs/{number}", body), status, code, field)
    assert Job.objects.get().priority == 0


def test_actions_take_no_fields(world):
    number = world.owner.submit()["id"]
    refusal(world.owner("POST", f"/jobs/{number}/cancel", {"force": True}), 400, "unknown_field", "force")
    refusal(world.owner("POST", f"/jobs/{number}/cancel", raw=b"[]"), 400, "not_an_object")
    assert Job.objects.get().state == "PENDING"


NO_REASONS = [
    (None, "required"),
    ({"reason": " "}, "blank"),
    ({"reason": "x" * 201}, "too_long"),
    ({"reason": "see https://ada:pass-word-1@wiki.example"}, "credentials_in_url"),
]


def test_a_drain_says_why(world, unchanged, subtests):
    for body, code in NO_REASONS:
        with subtests.test(body=body):
            refusal(world.operator("POST", "/nodes/rtx-01/drain", body), 400, code, "reason")


NO_METHODS = [
    ("DELETE", "/jobs"),
    ("PUT", "/jobs/1"),
    ("GET", "/jobs/1/cancel"),
    ("OPTIONS", "/jobs"),
    ("TRACE", "/me"),
    ("POST", "/me"),
]


def test_methods(world, unchanged, subtests):
    for method, path in NO_METHODS:
        with subtests.test(method=method, path=path):
            assert refusal(world.owner(method, path), 405, "method_not_allowed")


def test_paths_that_do_not_exist(world, unchanged, subtests):
    for path in ["/api/v1/", "/api/v1/nothing", "/api/v2/jobs", "/api/", "/api/v1/jobs/1/a/b"]:
        with subtests.test(path=path):
            refusal(world.owner("GET", path), 404, "not_found")


def test_a_bad_host(world):
    refusal(Client(headers={"host": "evil.example"}).get("/api/v1/me"), 400, "bad_request")


def test_every_error_can_be_read_as_json_whatever_is_accepted(world):
    answer = world.owner("GET", "/jobs/x", headers={"Accept": "text/html"})
    assert json.loads(answer.content)["error"]["code"] == "not_found"
