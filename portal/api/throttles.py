"""How often a user may ask for what costs a solve. Counted in each portal process, by user, whatever the token."""

from __future__ import annotations

from rest_framework.throttling import UserRateThrottle


class PlanThrottle(UserRateThrottle):
    scope = "plan"
    rate = "60/min"
