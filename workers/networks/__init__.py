"""Keeps tenants from each other's ports on a node: a network of a tenant's own, and rules for jobs over several nodes."""
