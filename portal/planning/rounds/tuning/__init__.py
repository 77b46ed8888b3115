"""Core tuning of running attempts (algorithms, section 8): one pass every few seconds over the searches that are due."""
