"""Ports of jobs in the browser: each job and port is an origin of its own, which answers nothing of the portal."""
