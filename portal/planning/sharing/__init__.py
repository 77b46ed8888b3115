"""Sharing policies beside the one that acts: a shadow that decides on the same input, and learned policies that are proposed."""
