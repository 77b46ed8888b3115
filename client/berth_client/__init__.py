"""Berth's REST API from Python, and the command `berth`. Needs only Python's standard library.

>>> from berth_client import Berth
>>> berth = Berth.from_environment()
>>> job = berth.jobs_submit({"command": "python train.py", "gpus": [1, 2, 4]})
>>> print(berth.jobs_wait(job["number"])["state"])
"""

from berth_client.errors import AwayError, ClientError, RefusedError
from berth_client.portal import Berth

__all__ = ["AwayError", "Berth", "ClientError", "RefusedError"]
__version__ = "0.1.0"
