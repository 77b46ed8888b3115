"""Tells people and programs what happens to jobs: by mail and by webhook, through an outbox of its own."""
