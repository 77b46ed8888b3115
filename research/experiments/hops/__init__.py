"""Hops' experiments (SoCC 24, 4.2 to 4.7): their workloads, and how what the paper leaves open was fixed."""
