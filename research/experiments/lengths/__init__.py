"""Experiments about lengths that nobody tells."""
