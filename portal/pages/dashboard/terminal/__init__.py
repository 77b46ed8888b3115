"""A terminal of a running job: its page, and the socket between the browser and the node's channel."""
