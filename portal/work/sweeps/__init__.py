"""Figures of an array's tasks, read from their kept files, so that a page compares them without opening a file."""
