"""Change artefacts. `taking`: messages and files of a node. `removing`: by a user, at a job's end or with time.

A node *tells* of files (`artefacts_told`); each answer says `send` from which byte, `kept`, or `refused` and why. It then
sends pieces (`artefact_append`), each with its SHA-256; the last names the whole file's, which is checked before the content
takes its place. Telling the same again changes nothing, so a node that was killed, or a portal that was restored, just tells.
"""

from portal.work.artefacts.services.moving import artefacts_move, remote_sweep, store_state
from portal.work.artefacts.services.removing import artefacts_expire, artefacts_remove, artefacts_sweep
from portal.work.artefacts.services.taking import artefact_append, artefacts_told

__all__ = [
    "artefact_append",
    "artefacts_expire",
    "artefacts_move",
    "artefacts_remove",
    "artefacts_sweep",
    "artefacts_told",
    "remote_sweep",
    "store_state",
]
