"""Forwarded ports: a program's socket, carried to what a running job listens on."""
