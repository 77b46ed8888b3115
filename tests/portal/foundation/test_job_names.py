"""Names of jobs' ports: the wildcards that are taken, and the values of the header Host."""

import pytest

from portal.foundation.job_names import JobName, domain, is_job_host, job_host, job_name

LAB = "https://berth.example.org"
JOBS = "*.jobs.example.org"


@pytest.mark.parametrize(
    ("asked", "base_url", "allowed", "found"),
    [
        ("", "http://127.0.0.1:8000", ["127.0.0.1", "localhost"], "localhost"),
        ("", "http://[::1]:8000", ["[::1]"], "localhost"),
        ("", "", ["testserver"], "localhost"),
        ("", "http://localhost:8000", ["localhost", "berth.localhost"], ""),
        ("", "http://127.0.0.1:8000", ["*"], ""),
        ("", LAB, ["berth.example.org"], ""),
        (JOBS, LAB, ["berth.example.org"], "jobs.example.org"),
        ("*.Jobs.example.org", f"{LAB}:8443", ["berth.example.org", "127.0.0.1"], "jobs.example.org"),
        ("*.localhost", "http://127.0.0.1:8000", ["localhost"], "localhost"),
    ],
)
def test_the_domain_of_jobs(asked, base_url, allowed, found):
    assert domain(asked, base_url=base_url, allowed=allowed) == found


@pytest.mark.parametrize(
    ("asked", "base_url", "allowed", "why"),
    [
        ("jobs.example.org", LAB, [], "wildcard"),
        ("*.", LAB, [], "wildcard"),
        ("*.jobs.example.org:443", LAB, [], "wildcard"),
        ("*.jobs..org", LAB, [], "wildcard"),
        ("*.berth.example.org", LAB, [], "own name"),
        ("*.jobs.berth.example.org", LAB, [], "own name"),
        ("*.example.org", LAB, [], "own name"),
        (JOBS, "http://berth.example.org", [], "https"),
        (JOBS, "", [], "https"),
        ("*.localhost", LAB, [], "own machine"),
        (JOBS, LAB, ["*"], "BERTH_ALLOWED_HOSTS"),
        (JOBS, LAB, [".example.org"], "BERTH_ALLOWED_HOSTS"),
        (JOBS, LAB, ["x.jobs.example.org"], "BERTH_ALLOWED_HOSTS"),
        (JOBS, LAB, ["jobs.example.org"], "BERTH_ALLOWED_HOSTS"),
    ],
)
def test_a_wildcard_that_is_none_or_touches_the_portals_names_is_refused(asked, base_url, allowed, why):
    with pytest.raises(ValueError, match=why):
        domain(asked, base_url=base_url, allowed=allowed)


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("41-8888.localhost:8000", JobName("41", 8888)),
        ("41-8888.localhost", JobName("41", 8888)),
        ("1044-6-80.localhost:8000", JobName("1044_6", 80)),
        ("1044-0-65535.localhost:1", JobName("1044_0", 65535)),
        *(
            (f"{bad}.localhost", None)
            for bad in ("41", "41-0", "41-65536", "041-80", "41-080", "a-80", "41-80-", "-41-80")
        ),
        *((f"{bad}.localhost", None) for bad in ("41-1-2-3", "x.41-80", "41_6-80", "41-80.41-80", "٤١-80")),
        ("41-8888.localhost:", None),
        ("41-8888.localhost.:80", None),
        ("41-8888.localhost:80:80", None),
        ("41-8888.localhosts", None),
        ("41-8888", None),
    ],
)
def test_a_name_is_read_as_it_is_written_or_not_at_all(host, found):
    assert job_name(host, "localhost") == found


def test_what_lies_below_the_domain_never_is_the_portals():
    below = (
        "41-80.localhost",
        "x.localhost:80",
        "41-80.LOCALHOST",
        "41-80.localhost.",
        "41-80.localhost.:80",
        "41-80.localhost:",
        ".localhost",
    )
    assert all(is_job_host(host, "localhost") for host in below)
    assert not any(
        is_job_host(host, "localhost") for host in ("localhost", "localhost:80", "127.0.0.1", "[::1]:80", "")
    )
    assert not is_job_host("41-80.localhost", "")


def test_a_host_has_the_port_of_the_portals_server():
    assert job_host("1044_6", 80, below="localhost", beside="127.0.0.1:8000") == "1044-6-80.localhost:8000"
    assert job_host("41", 80, below="jobs.org", beside="berth.org") == "41-80.jobs.org"
    assert job_host("41", 80, below="localhost", beside="[::1]") == "41-80.localhost"
