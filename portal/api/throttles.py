"""How often a user may ask for what costs a solve, or the reading of a trace or of a cluster's description.

Counted in each portal process, by user, whatever the token.
"""

from __future__ import annotations

from rest_framework.throttling import UserRateThrottle


class PlanThrottle(UserRateThrottle):
    scope = "plan"
    rate = "60/min"


class LaboratoryThrottle(UserRateThrottle):
    scope = "laboratory"
    rate = "30/min"
