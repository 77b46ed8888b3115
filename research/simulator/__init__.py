"""What only experiments and benchmarks add to `scheduler.simulator`. As pure as that is."""
