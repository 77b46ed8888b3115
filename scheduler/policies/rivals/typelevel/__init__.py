"""What schedulers share that decide by GPU type and leave the nodes to a placer (Sia, SOSP '23)."""
