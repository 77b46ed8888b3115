"""What stands round one part of a job: the shim, which starts its command, watches it and ends it. Standard library only."""
