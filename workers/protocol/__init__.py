"""The agent API as the agent speaks it: the shapes of its messages, and the client that sends them."""
