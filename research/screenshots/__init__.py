"""`./berth screenshots OUT`: every page of a seeded demo in light, dark and at phone width, and what no page may do."""
