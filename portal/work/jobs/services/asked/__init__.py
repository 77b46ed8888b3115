"""Changes of a waiting job's description."""
