"""The client class: a method for each operation of the REST API, under the same name."""

from __future__ import annotations

from berth_client.cluster import Cluster
from berth_client.jobs import Jobs
from berth_client.laboratory import Laboratory
from berth_client.templates import Templates
from berth_client.tenants import Tenants
from berth_client.terminal import Terminals
from berth_client.uploads import Uploads


class Berth(Jobs, Uploads, Cluster, Laboratory, Templates, Tenants, Terminals):
    """One portal, asked with one token. Methods and their arguments are named as in REST (`/api/v1/docs` on the portal).

    Every method raises RefusedError where the portal refuses (it then changed nothing) and AwayError where none answers.
    """
