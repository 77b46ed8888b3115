"""What runs on a node. It speaks the agent API (docs/agent-protocol.md) and imports nothing else of Berth."""

VERSION = "0.1.0"
