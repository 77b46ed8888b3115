"""Forwarded ports: a program's socket, carried to a port of a running job."""
