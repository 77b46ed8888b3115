"""The node's programs. They speak the agent API (docs/agent-protocol.md) and import nothing else of Berth."""

VERSION = "0.1.0"
