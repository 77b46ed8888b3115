"""A waiting job's line of time: when it starts, what must happen first, and what would be sooner."""
