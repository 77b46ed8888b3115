"""The agent's work with the parts of jobs on its node, from the journal to the last line of a log."""
