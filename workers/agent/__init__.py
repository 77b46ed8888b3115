"""The agent: the process that joins a node to a portal, and its knowledge of the node."""
