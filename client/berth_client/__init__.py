"""Berth's REST API from Python, and the command `berth`. Needs only Python's standard library.

>>> from berth_client import Berth
>>> berth = Berth.from_environment()
>>> job = berth.jobs_submit({"command": "python train.py", "gpus": [1, 2, 4]})
>>> print(berth.jobs_wait(job["number"])["state"])
"""

from berth_client.cluster import Cluster
from berth_client.errors import AwayError, ClientError, RefusedError
from berth_client.jobs import Jobs
from berth_client.laboratory import Laboratory
from berth_client.templates import Templates
from berth_client.tenants import Tenants
from berth_client.terminal import Terminals
from berth_client.uploads import Uploads

__all__ = ["AwayError", "Berth", "ClientError", "RefusedError"]
__version__ = "0.1.0"


class Berth(Jobs, Uploads, Cluster, Laboratory, Templates, Tenants, Terminals):
    """One portal, asked with one token. Methods and their arguments are named as in REST (`/api/v1/docs` on the portal).

    Every method raises RefusedError where the portal refuses (it then changed nothing) and AwayError where none answers.
    """
