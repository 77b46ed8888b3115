"""A waiting job's line of time: its start, the steps before it, and the offers that would be sooner."""
