"""The overview that begins with my jobs."""
