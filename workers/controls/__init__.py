"""The shim of one part of a job: it starts the command, watches it and ends it. Standard library only."""
