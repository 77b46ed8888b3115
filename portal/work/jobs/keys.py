"""Keys of jobs and attempts: 128 random bits, so that no other time line of the database ever gives the same one again.

Ids are counted: a database that was restored from a backup, or that lost its last second, counts them anew, and nodes
still hold the work of the first counting. So what leaves the database (the agents' protocol, names of directories on
nodes, checkpoints) is named by keys.
"""

import secrets

KEY_LENGTH = 32
KEY_PATTERN = r"^[0-9a-f]{1,32}$"
"""Jobs and attempts from before there were keys have their id, in decimal digits, as their key."""


def key_new() -> str:
    """Return a new key: 32 hexadecimal digits."""
    return secrets.token_hex(KEY_LENGTH // 2)
