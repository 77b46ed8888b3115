"""The demo's job templates are valid, are for all, and make valid jobs with nothing filled in."""

import pytest

from portal.launch.demo.people import TEMPLATES, templates_ensure
from portal.planning.templating.models import JobTemplate
from portal.planning.templating.selectors import version_get
from portal.planning.templating.submitting import order_make
from portal.work.jobs.description import description_parse
from tests.portal import given

pytestmark = pytest.mark.django_db


def test_each_makes_a_valid_job_and_a_second_start_changes_nothing():
    for _ in range(2):
        templates_ensure(given.operator())
    found = JobTemplate.objects.all()
    assert len(found) == len(TEMPLATES)
    for template in found:
        assert (template.tenant, template.version) == (None, 1)
        order, problems = order_make(template, version_get(template), {})
        assert problems == []
        assert description_parse(order.description).name
