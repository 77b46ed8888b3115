"""Additions to `scheduler.simulator` that only experiments and benchmarks use. It is as pure as that."""
