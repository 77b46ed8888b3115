"""The agent: the process that joins a node to a portal, and what it knows about its node."""
