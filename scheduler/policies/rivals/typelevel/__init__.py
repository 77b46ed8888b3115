"""The common part of schedulers that decide by GPU type and leave the nodes to a placer (Sia, SOSP '23)."""
