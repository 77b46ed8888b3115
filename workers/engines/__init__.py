"""Execution engines: each starts parts, says whether they live, and ends them. Each has a file of its own."""
