"""Checks of fields of a job description that need a file of their own."""
